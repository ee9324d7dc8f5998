"""Other ways to write a layout: sizes made affine where torch cannot work them out, lines where a product is poor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, lcm, prod

from trtdiag.dims.solver.eliminate import fresh_name
from trtdiag.dims.solver.layout import NOBODY, Layout, Origins, replaced
from trtdiag.symbolic import add, build, children, evaluate, free_symbols, mul, substitute
from trtdiag.symbolic.conditions import compare
from trtdiag.symbolic.expr import Condition, Expr, FloorDiv, Mod, Num, Relation, Sym

MOST_STEP = 1 << 20
MOST_CLASSES = 8
DIRECTIONS = tuple((a, c) for a in range(1, 5) for c in range(1, 5) if gcd(a, c) == 1)


def affine(size: Expr) -> tuple[int, str, int] | None:
    """``(a, name, b)`` where ``size`` is ``a*name + b`` with ``a >= 1``, or ``(0, "", b)`` for a number."""
    if isinstance(size, Num):
        return (0, "", size.value) if isinstance(size.value, int) else None
    found = build.affine(size)
    return None if found is None or found[1] < 1 else (found[1], found[0], found[2])


def straightened(layout: Layout) -> list[Layout] | None:
    """Layouts in which the first size that is no ``a*root + b`` has become one; ``None`` where all are."""
    hard = [symbol for symbol, size in layout.sizes.items() if affine(size) is None]
    if not hard:
        return None
    symbol = min(hard, key=lambda name: len(free_symbols(layout.sizes[name])))
    size, because = layout.sizes[symbol], layout.because.get(symbol, NOBODY)
    names = sorted(free_symbols(size))
    found: list[Layout | None] = []
    if len(names) == 1:
        found += _lines(layout, symbol, names[0], because)
    elif len(names) == 2:
        found += on_lines(layout, (names[0], names[1]), because)
    for name in names:
        if name in layout.point:
            found.append(replaced(layout, {name: Num(layout.point[name])}, because))
    return [each for each in found if each is not None]


def _lines(layout: Layout, symbol: str, name: str, because: Origins) -> Iterator[Layout | None]:
    """``name`` in one class of residues, where the size rises by the same amount from each value to the next."""
    size = layout.sizes[symbol]
    for step in sorted({1, *_periods(size)}):
        known = layout.point.get(name)
        offsets = [known % step] if known is not None else range(min(step, MOST_CLASSES))
        for offset in offsets:
            root = fresh_name(layout)
            moved = substitute(size, {name: add(mul(step, Sym(root)), offset)})
            place = (known - offset) // step if known is not None else 1 + max(0, layout.ranges[name].min or 0) // step
            for slope, constant in _slopes(moved, root, place):
                line = add(mul(slope, Sym(root)), constant)
                extra: list[Condition] = [compare(Relation.EQ, moved, line)] if moved != line else []
                made = replaced(
                    layout,
                    {name: add(mul(step, Sym(root)), offset)},
                    because,
                    extra,
                    fresh={root: layout.ranges[name].unscaled(step, offset)},
                    point={} if known is None else {root: place},
                )
                if made is not None:
                    yield replace(made, sizes={**made.sizes, symbol: line})


def _slopes(size: Expr, name: str, place: int) -> set[tuple[int, int]]:
    """Rising or level lines through ``place`` and its neighbours, as (slope, constant)."""
    found = set()
    for first, second in ((place, place + 1), (place - 1, place)):
        try:
            low, high = (int(evaluate(size, {name: value})) for value in (first, second))
        except (ZeroDivisionError, OverflowError):
            continue
        if high >= low:
            found.add((high - low, low - (high - low) * first))
    return found


def _periods(size: Expr | Condition) -> set[int]:
    """Steps along which the roundings in ``size`` could vanish: its divisors, alone and together."""
    divisors = _divisors(size)
    return {step for step in (*divisors, lcm(*divisors), prod(divisors)) if 1 < step <= MOST_STEP}


def _divisors(node: Expr | Condition) -> set[int]:
    found = set().union(*(_divisors(child) for child in children(node)))
    if isinstance(node, FloorDiv | Mod) and isinstance(node.right, Num) and isinstance(node.right.value, int):
        found.add(abs(node.right.value))
    return found


def on_lines(layout: Layout, names: tuple[str, str], because: Origins) -> Iterator[Layout]:
    """Two parameters that go up together from the point, by a step each; nothing where no point is known."""
    if any(name not in layout.point for name in names):
        return
    for steps in DIRECTIONS:
        root = fresh_name(layout)
        back = min(layout.point[name] // step for name, step in zip(names, steps, strict=True))
        starts = [layout.point[name] - back * step for name, step in zip(names, steps, strict=True)]
        changes = {
            name: add(mul(step, Sym(root)), start) for name, step, start in zip(names, steps, starts, strict=True)
        }
        inner = [layout.ranges[n].unscaled(step, start) for n, step, start in zip(names, steps, starts, strict=True)]
        range_ = inner[0].intersect(inner[1])
        made = replaced(layout, changes, because, fresh={root: range_}, point={root: back})
        if made is not None and _is_exact_in_torch(made, root):
            yield made


def _is_exact_in_torch(layout: Layout, root: str) -> bool:
    """Whether torch's guard holds at all sizes over ``root``.

    Where no size is the root itself, torch (2.13) writes all over the first one, as ``8 / 3 + 4 / 3 * x.size()[0] ==
    x.size()[1]`` for 3*_h + 1 and 4*_h + 4, and computes that in floating point.
    """
    lines = [line for size in layout.sizes.values() if (line := affine(size)) is not None and line[1] == root]
    if any(all(other % step == 0 for other, _, _ in lines) for step, _, _ in lines):
        return True  # the one that `named` makes the root
    first, _, start = lines[0]
    return first & (first - 1) == 0 or all(start * step % first == 0 for step, _, _ in lines)
