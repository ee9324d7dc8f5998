"""Uses up equations between sizes: one side becomes a parameter of the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from math import gcd

from trtdiag.dims.solver.layout import Claim, Layout, followed, replaced
from trtdiag.symbolic import add, evaluate, floordiv, free_symbols, is_integer, mod, mul, sub
from trtdiag.symbolic.build import linear_terms
from trtdiag.symbolic.conditions import compare
from trtdiag.symbolic.expr import Compare, Condition, Expr, FloorDiv, Mul, Num, Relation, Sym

MOST_LAYOUTS = 24
MOST_REMAINDERS = 8


@dataclass(frozen=True)
class Linear:
    """``sum(factor * part) + constant == 0`` with integer factors; no part is a number or a sum."""

    terms: tuple[tuple[int, Expr], ...]
    constant: int

    def without(self, index: int) -> Expr:
        """The sum of all terms but one."""
        rest = (mul(factor, part) for place, (factor, part) in enumerate(self.terms) if place != index)
        return add(self.constant, *rest)

    def lone(self, index: int) -> bool:
        """Whether the symbols of this term occur in no other."""
        mine = free_symbols(self.terms[index][1])
        return all(mine.isdisjoint(free_symbols(part)) for place, (_, part) in enumerate(self.terms) if place != index)


def layouts(layout: Layout) -> Iterator[Layout]:
    """The layouts that equations lead to, all ways to use them up, at most ``MOST_LAYOUTS``."""
    return followed(layout, _next, MOST_LAYOUTS)


def linear(condition: Condition) -> Linear | None:
    """An equation as a linear form; ``None`` for anything else."""
    if not isinstance(condition, Compare) or condition.relation is not Relation.EQ:
        return None
    terms, constant = linear_terms(sub(condition.left, condition.right))
    if not isinstance(constant, int) or not all(isinstance(factor, int) and is_integer(part) for factor, part in terms):
        return None
    return Linear(tuple((int(factor), part) for factor, part in terms), constant)


def _next(layout: Layout) -> list[Layout] | None:
    """What using one more equation leads to; ``None`` where none is left that can be used, empty: a contradiction."""
    equations = [
        (claim, form)
        for claim in layout.claims
        if len(claim.names) > 1 and claim.condition not in layout.set_aside and (form := linear(claim.condition))
    ]
    for claim, form in equations:
        if _proportional(form):
            made = _along(layout, claim, form)
            return [] if made is None else [made]
    for claim, form in equations:
        options = list(_solved(layout, claim, form))
        if not options:
            options = list(_unrounded(layout, claim, form)) or list(_divided(layout, claim, form))
            options += [replace(layout, set_aside=layout.set_aside | {claim.condition})] if options else []
        if options:
            return [option for option in options if option is not None]
    return None


def _proportional(form: Linear) -> bool:
    """Two parameters that grow together: nothing is lost and a derived ``Dim`` can say it."""
    if len(form.terms) != 2 or not all(isinstance(part, Sym) for _, part in form.terms):
        return False
    (first, _), (second, _) = form.terms
    return (first > 0) != (second > 0)


def _along(layout: Layout, claim: Claim, form: Linear) -> Layout | None:
    (a, x), (b, y) = form.terms
    assert isinstance(x, Sym)
    assert isinstance(y, Sym)
    for index, (factor, part) in enumerate(form.terms):
        if abs(factor) == 1 and isinstance(part, Sym):
            return replaced(layout, {part.name: mul(-factor, form.without(index))}, claim.origins, lossless=True)
    shared = gcd(a, b)
    if form.constant % shared:
        return None
    a, b, c = a // shared, b // shared, form.constant // shared
    if a < 0:
        a, b, c = -a, -b, -c
    # a*x == -b*y - c with a, -b > 0: all solutions are x0 - b*d, y0 + a*d.
    y0 = -c * pow(b, -1, a) % a
    x0 = (-b * y0 - c) // a
    shift = max(0, -(x0 // -b)) if x0 < 0 else 0  # the first solution with no negative size
    x0, y0 = x0 - b * shift, y0 + a * shift
    name = fresh_name(layout)
    root = Sym(name)
    point = {}
    if y.name in layout.point:
        point = {name: (layout.point[y.name] - y0) // a}
    changes = {x.name: add(mul(-b, root), x0), y.name: add(mul(a, root), y0)}
    range_ = layout.ranges[x.name].unscaled(-b, x0).intersect(layout.ranges[y.name].unscaled(a, y0))
    return replaced(layout, changes, claim.origins, fresh={name: range_}, point=point, lossless=True)


def fresh_name(layout: Layout) -> str:
    """A parameter's name that stands nowhere in ``layout`` yet."""
    names = (f"_root{index}" for index in count())
    return next(name for name in names if name not in layout.ranges and name not in layout.sizes)


def _solved(layout: Layout, claim: Claim, form: Linear) -> Iterator[Layout | None]:
    """A parameter that stands alone in one term, by the others; those that grow with all others come first."""
    places = [index for index, (_, part) in enumerate(form.terms) if isinstance(part, Sym) and form.lone(index)]
    places.sort(key=lambda index: (abs(form.terms[index][0]) != 1, _falling(form, index)))
    for index in places:
        factor, part = form.terms[index]
        assert isinstance(part, Sym)
        rest = mul(-1 if factor > 0 else 1, form.without(index))
        divisor = abs(factor)
        extra = [] if divisor == 1 else [compare(Relation.EQ, mod(rest, divisor), 0)]
        yield replaced(layout, {part.name: floordiv(rest, divisor)}, claim.origins, extra, lossless=True)


def _falling(form: Linear, index: int) -> int:
    return sum(
        (factor > 0) == (form.terms[index][0] > 0) for place, (factor, _) in enumerate(form.terms) if place != index
    )


def _unrounded(layout: Layout, claim: Claim, form: Linear) -> Iterator[Layout | None]:
    """``(x + m)//k == rest`` fixes ``x`` up to a remainder: one layout for each, the example's alone where known."""
    for index, (factor, part) in enumerate(form.terms):
        if not (isinstance(part, FloorDiv) and isinstance(part.right, Num) and abs(factor) == 1 and form.lone(index)):
            continue
        divisor = int(part.right.value)
        inner, constant = linear_terms(part.left)
        rounded = Linear(tuple((int(f), p) for f, p in inner), int(constant))
        value = mul(-factor, form.without(index))
        for place, (step, target) in enumerate(rounded.terms):
            if not isinstance(target, Sym) or abs(step) != 1 or not rounded.lone(place):
                continue
            for remainder in _remainders(layout, part.left, divisor):
                top = add(mul(divisor, value), remainder)
                size = mul(step, sub(top, rounded.without(place)))
                yield replaced(layout, {target.name: size}, claim.origins)
            return


def _remainders(layout: Layout, top: Expr, divisor: int) -> list[int]:
    if free_symbols(top) <= set(layout.point):
        return [int(evaluate(top, layout.point)) % divisor]
    return list(range(min(divisor, MOST_REMAINDERS)))


def _divided(layout: Layout, claim: Claim, form: Linear) -> Iterator[Layout | None]:
    """``x * f == rest``: ``x`` is the quotient wherever it is whole."""
    for index, (factor, part) in enumerate(form.terms):
        if not isinstance(part, Mul) or not form.lone(index):
            continue
        for target in part.args:
            others = mul(factor, *(arg for arg in part.args if arg != target))
            if isinstance(target, Sym) and target.name not in free_symbols(others):
                rest = mul(-1, form.without(index))
                size = floordiv(rest, others)
                yield replaced(layout, {target.name: size}, claim.origins, [compare(Relation.EQ, mod(rest, others), 0)])
