"""Names of symbols for people, where a dim of an input is a multiple of a symbol that nobody named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True)
class Home:
    """The dim that a symbol sizes: ``site`` is ``scale`` times the symbol, 2 or more."""

    site: str
    scale: int

    def times(self, factor: int) -> tuple[str, bool]:
        """``factor`` times the symbol, by the dim: ``x.shape[2]``, ``x.shape[2] // 2``; whether that is one name."""
        shared = gcd(factor, self.scale)
        parts, whole = factor // shared, self.scale // shared
        text = self.site if whole == 1 else f"{self.site} // {whole}"
        if parts == 1:
            return text, whole == 1
        return f"{parts}*{text}" if whole == 1 else f"{parts}*({text})", False


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


def named_sizes(sizes: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    """Sizes of symbols by the user's names: ``{"batch": 1, "x.shape[2]": 640}``."""
    found = {}
    for symbol, size in sizes.items():
        home = home_of(names, symbol)
        if home is None:
            found[names.get(symbol, symbol)] = size
        else:
            found[home.site] = home.scale * size
    return found
