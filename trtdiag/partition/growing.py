"""Sizes that grow with every symbol in them: nearly all do, and their ends are their values at the symbols' ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trtdiag.partition.facts import SymbolSizes
from trtdiag.symbolic.expr import Add, Expr, FloorDiv, Mul, Num, Sym


class Ends(NamedTuple):
    """A size at the least, the usual and the greatest values of its symbols; ``None`` where it has no end."""

    min: int
    opt: int
    max: int | None


_UNREAD = Ends(0, -1, None)


class GrowingSizes:
    """Ends of sizes; each size is read once.

    What is no sum, product or quotient of growing parts, and what has a symbol without sizes, has none here.  Exact
    bounds of any expression (``BoundsCache``) cost more than the whole partition of a small program.
    """

    def __init__(self, symbols: Mapping[str, SymbolSizes]) -> None:
        self._symbols = {name: Ends(sizes.min, sizes.opt, sizes.max) for name, sizes in symbols.items()}
        self._known: dict[Expr, Ends | None] = {}

    def of(self, size: Expr) -> Ends | None:
        """Return the ends of a size; ``None`` where it is not plain that it grows."""
        if isinstance(size, Sym):
            return self._symbols.get(size.name)
        if isinstance(size, Num):
            value = size.value
            return Ends(value, value, value) if isinstance(value, int) else None
        found = self._known.get(size, _UNREAD)
        if found is _UNREAD:
            found = self._known[size] = self._read(size)
        return found

    def product(self, sizes: tuple[Expr, ...]) -> Ends | None:
        """Return the ends of a product; ``None`` as for ``of``, and where a factor may be below one."""
        least, usual = 1, 1
        most: int | None = 1
        for size in sizes:
            ends = self.of(size)
            if ends is None or ends[0] < 1:
                return None
            least *= ends[0]
            usual *= ends[1]
            most = None if most is None or ends[2] is None else most * ends[2]
        return Ends(least, usual, most)

    def _read(self, size: Expr) -> Ends | None:
        if isinstance(size, Mul):
            return self.product(size.args)
        if isinstance(size, FloorDiv):
            by = size.right.value if isinstance(size.right, Num) else 0
            ends = self.of(size.left)
            if ends is None or not isinstance(by, int) or by < 1:
                return None
            return Ends(ends.min // by, ends.opt // by, None if ends.max is None else ends.max // by)
        return self._sum(size.args) if isinstance(size, Add) else None

    def _sum(self, terms: tuple[Expr, ...]) -> Ends | None:
        least, usual = 0, 0
        most: int | None = 0
        for term in terms:
            ends = self.of(term)
            if ends is None:
                return None
            least += ends.min
            usual += ends.opt
            most = None if most is None or ends.max is None else most + ends.max
        return Ends(least, usual, most)
