"""What a layout engine is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class LevelGraph:
    """Boxes by size (width, height in pixels) and edges between them by position; no edge twice, none to itself.

    Boxes stand in execution order, so an edge to an earlier box closes a circle.
    """

    sizes: tuple[Point, ...]
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Layout:
    """A drawn level in pixels, y downwards.

    Attributes:
        width: Of the whole.
        height: Of the whole.
        centres: Of the boxes.
        curves: For each edge, in the order of the graph: the points of a chain of cubic Bezier curves (one point,
            then three for each piece), from the border of one box to the border of the other.
    """

    width: float
    height: float
    centres: tuple[Point, ...]
    curves: tuple[tuple[Point, ...], ...]
