"""Sizes written over fewer parameters: what is left of conditions once equations have been used up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from trtdiag.symbolic import Range, conjuncts, free_symbols, normalise, substitute
from trtdiag.symbolic.conditions import within
from trtdiag.symbolic.expr import Condition, Expr, Sym, Truth

Origins = frozenset[Condition]
NOBODY: Origins = frozenset()


@dataclass(frozen=True)
class Claim:
    """A condition over parameters, and the given conditions that it comes from (none: the asked ranges)."""

    condition: Condition
    origins: Origins

    @property
    def names(self) -> frozenset[str]:
        """The parameters in it."""
        return free_symbols(self.condition)


@dataclass(frozen=True)
class Layout:
    """Every symbol over parameters, and what the parameters must satisfy.

    Attributes:
        sizes: Symbol -> its size.
        ranges: Parameter -> its range.  A parameter has the name of a symbol that it stands for, or a fresh one.
        claims: What must hold besides the ranges.
        because: Symbol -> the equations through which it depends on others.
        point: Parameter -> the value that belongs to the example; empty without an example.
        kept: The parameters whose value at the point must stay.
        lossless: Whether it has all solutions; otherwise it is one of several lines through them.
        set_aside: Equations that stay claims, because using them up would give up solutions.
    """

    sizes: Mapping[str, Expr]
    ranges: Mapping[str, Range]
    claims: tuple[Claim, ...]
    because: Mapping[str, Origins]
    point: Mapping[str, int]
    kept: frozenset[str]
    lossless: bool = True
    set_aside: frozenset[Condition] = frozenset()


def first_layout(
    conditions: Iterable[Condition], ranges: Mapping[str, Range], point: Mapping[str, int], kept: frozenset[str]
) -> Layout:
    """Every symbol is its own parameter."""
    claims: dict[Condition, Origins] = {}
    for condition in conditions:
        for part in conjuncts(normalise(condition)):
            if part != Truth(True):
                claims.setdefault(part, frozenset((condition,)))
    return Layout(
        {name: Sym(name) for name in ranges},
        dict(ranges),
        tuple(Claim(condition, origins) for condition, origins in claims.items()),
        {},
        dict(point),
        kept,
    )


def followed(start: Layout, options: Callable[[Layout], list[Layout] | None], most: int) -> Iterator[Layout]:
    """The layouts at which ``options`` has nothing more to offer (``None``), depth first, at most ``most`` of them."""
    waiting, given = [start], 0
    while waiting and given < most:
        current = waiting.pop()
        made = options(current)
        if made is None:
            given += 1
            yield current
        else:
            waiting.extend(reversed(made))


def replaced(
    layout: Layout,
    changes: Mapping[str, Expr],
    origins: Origins,
    extra: Iterable[Condition] = (),
    fresh: Mapping[str, Range] | None = None,
    point: Mapping[str, int] | None = None,
    lossless: bool = False,
) -> Layout | None:
    """The layout with parameters replaced; ``None`` where that contradicts a claim.

    Args:
        layout: Where to replace.
        changes: Parameter -> its expression over others.
        origins: The given conditions that force this.
        extra: What must hold besides.
        fresh: New parameters and their ranges.
        point: Values of new parameters at the example.
        lossless: Whether no solution is given up.
    """
    claims: dict[Condition, Origins] = {}

    def claim(condition: Condition, by: Origins) -> None:
        for part in conjuncts(condition):
            if part not in claims or len(by) < len(claims[part]):
                claims[part] = by

    for old in layout.claims:
        touched = not old.names.isdisjoint(changes)
        claim(
            substitute(old.condition, changes) if touched else old.condition,
            old.origins | (origins if touched else NOBODY),
        )
    for name, expr in changes.items():
        for condition in within(expr, layout.ranges[name]):
            claim(condition, origins)
    for condition in extra:
        claim(condition, origins)
    if Truth(False) in claims:
        return None
    claims.pop(Truth(True), None)
    ranges = {name: range_ for name, range_ in layout.ranges.items() if name not in changes} | dict(fresh or {})
    kept = set(layout.kept).union(*(free_symbols(changes[name]) for name in layout.kept & changes.keys()))
    because = dict(layout.because)
    for symbol, expr in layout.sizes.items():
        if not free_symbols(expr).isdisjoint(changes):
            because[symbol] = because.get(symbol, NOBODY) | origins
    return Layout(
        {symbol: substitute(expr, changes) for symbol, expr in layout.sizes.items()},
        ranges,
        tuple(Claim(condition, by) for condition, by in claims.items()),
        because,
        {name: value for name, value in {**layout.point, **(point or {})}.items() if name in ranges},
        frozenset(kept & ranges.keys()),
        layout.lossless and lossless,
        layout.set_aside,
    )
