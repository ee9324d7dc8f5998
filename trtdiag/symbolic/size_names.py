"""Names of symbols for people, where a dim of an input is made of a symbol that nobody named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from trtdiag.symbolic.build import add, mul, neg
from trtdiag.symbolic.expr import Expr, FloorDiv, Mul, Num, Sym
from trtdiag.symbolic.ranges import Range


@dataclass(frozen=True)
class Home:
    """The dim that a symbol sizes: ``site`` is ``scale`` times the symbol (1 or more), and ``offset``."""

    site: str
    scale: int
    offset: int = 0

    def times(self, factor: int) -> Expr:
        """``factor`` times the symbol, by the dim: ``x.shape[2]``, ``x.shape[2] // 2``, ``(x.shape[2] - 1) // 2``."""
        if factor < 0:
            return neg(self.times(-factor))
        shared = gcd(factor, self.scale)
        parts, whole = factor // shared, self.scale // shared
        multiple = add(Sym(self.site), -self.offset)
        if whole == 1:
            return mul(parts, multiple)
        # Written as it is: nothing but this place knows that the rounding loses nothing.
        quotient = FloorDiv(multiple, Num(whole))
        return quotient if parts == 1 else Mul((Num(parts), quotient))

    def size(self, value: int) -> int:
        """The size of the dim where the symbol is ``value``."""
        return self.scale * value + self.offset

    def range(self, values: Range) -> Range:
        """From the least to the greatest size of the dim where the symbol is in ``values``."""
        return values.scaled(self.scale, self.offset)


class SizeNames(dict[str, str]):
    """The user's name of each symbol; one in ``homes`` has none, and is said by the dim that it sizes.

    A saved file has lost its Dims: its ``4*s70`` is ``x.shape[2]`` for people, and ``4*_x_dim2`` in code alone, where
    a Dim must have a name.
    """

    def __init__(self, names: Mapping[str, str], homes: Mapping[str, Home]) -> None:
        super().__init__(names)
        self.homes = dict(homes)


def home_of(names: Mapping[str, str] | None, symbol: str) -> Home | None:
    """The dim that stands for a symbol without a name; ``None`` where it has one."""
    return names.homes.get(symbol) if isinstance(names, SizeNames) else None


def said_by(symbol: str, values: Range, names: Mapping[str, str]) -> tuple[str, Range]:
    """What to call a symbol and its range: ``("x.shape[2]", 8..64)`` for ``s70`` in 2..16 whose dim is ``4*s70``."""
    home = home_of(names, symbol)
    return (names.get(symbol, symbol), values) if home is None else (home.site, home.range(values))


def named_sizes(sizes: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    """Sizes of symbols by the user's names: ``{"batch": 1, "x.shape[2]": 640}``."""
    found = {}
    for symbol, size in sizes.items():
        home = home_of(names, symbol)
        if home is None:
            found[names.get(symbol, symbol)] = size
        else:
            found[home.site] = home.size(size)
    return found
