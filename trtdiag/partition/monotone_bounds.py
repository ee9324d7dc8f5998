"""Sizes that grow with every symbol in them: nearly all do, and their ends are their values at the symbols' ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TypeAlias, Union

from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic.expr import Add, Expr, FloorDiv, Mul, Num, Sym

Ends: TypeAlias = tuple[int, int, Union[int, None]]
"""A size at the least, the usual and the greatest values of its symbols; ``None`` where it has no end."""


class GrowingSizes:
    """Ends of sizes; each size is read once.

    What is no sum, product or quotient of growing parts, and what has a symbol without sizes, has none here.  Exact
    bounds of any expression (``BoundsCache``) cost more than the whole partition of a small program.
    """

    def __init__(self, symbols: Mapping[str, DimProfile]) -> None:
        self._symbols = symbols
        # By identity, the size beside it: hashing an expression costs more than all else here.
        self._known: dict[int, tuple[Expr, Ends | None]] = {}

    def of(self, size: Expr) -> Ends | None:
        """Return the ends of a size; ``None`` where it is not plain that it grows."""
        if isinstance(size, Sym):
            sizes = self._symbols.get(size.name)
            return None if sizes is None else (sizes.min, sizes.opt, sizes.max)
        if isinstance(size, Num):
            value = size.value
            return (value, value, value) if isinstance(value, int) else None
        found = self._known.get(id(size))
        if found is None:
            found = self._known[id(size)] = size, self._read(size)
        return found[1]

    def product(self, sizes: tuple[Expr, ...]) -> Ends | None:
        """Return the ends of a product; ``None`` as for ``of``, and where a factor may be below one."""
        factors: list[Ends] = []
        waiting = list(sizes)
        for size in waiting:
            if isinstance(size, Mul):
                waiting += size.args
                continue
            ends = self.of(size)
            if ends is None or ends[0] < 1:
                return None
            factors.append(ends)
        return _joined(prod, factors) if factors else (1, 1, 1)

    def _read(self, size: Expr) -> Ends | None:
        if isinstance(size, Mul):
            return self.product(size.args)
        if isinstance(size, FloorDiv):
            by = size.right.value if isinstance(size.right, Num) else 0
            ends = self.of(size.left)
            if ends is None or not isinstance(by, int) or by < 1:
                return None
            return _joined(lambda parts: parts[0] // by, [ends])
        terms = [self.of(term) for term in size.args] if isinstance(size, Add) else [None]
        known = [ends for ends in terms if ends is not None]
        return _joined(sum, known) if len(known) == len(terms) else None


def _joined(act: Callable[[Sequence[int]], int], parts: Sequence[Ends]) -> Ends:
    """What ``act`` makes of the parts at their least, usual and greatest."""
    least, usual, most = zip(*parts, strict=True)
    return act(least), act(usual), None if None in most else act(most)
