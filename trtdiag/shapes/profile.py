"""The profile of an engine's inputs: least, usual and greatest size of every dim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trtdiag.symbolic import BoundsCache, Expr, Range, evaluate, free_symbols

_UNDECLARED = Range(0, None)


@dataclass(frozen=True, slots=True)
class DimProfile:
    """The sizes of one dim: ``min <= opt <= max``; ``max`` is ``None`` where the size has no upper end."""

    min: int
    opt: int
    max: int | None


def input_profile(dims: Sequence[Expr], box: Mapping[str, Range], opt: Mapping[str, int]) -> tuple[DimProfile, ...]:
    """Return the profile of every dim of one input.

    The ends are those that the size really reaches over the box; where only an interval is known, it holds every size.

    Args:
        dims: The sizes over symbols.
        box: The range of each symbol; one without counts as any size.
        opt: The usual size of each symbol (``opt_sizes``).
    """
    used = sorted(frozenset().union(*map(free_symbols, dims))) if dims else []
    ranges = {name: box.get(name, _UNDECLARED) for name in used}
    point = {name: opt[name] if name in opt else max(1, ranges[name].min or 0) for name in used}
    cache = BoundsCache(ranges)
    return tuple(_profile(dim, cache, point) for dim in dims)


def _profile(dim: Expr, cache: BoundsCache, point: Mapping[str, int]) -> DimProfile:
    found = cache.of(dim).range
    low = max(0, found.min or 0)
    high = None if found.max is None else max(low, found.max)
    usual = max(low, int(evaluate(dim, point)))
    return DimProfile(low, usual if high is None else min(usual, high), high)
