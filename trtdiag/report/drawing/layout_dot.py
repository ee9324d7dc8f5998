"""Layout by Graphviz: all graphs in one ``dot`` process."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

from trtdiag.report.drawing.layout_types import Layout, LevelGraph, Point

_POINTS_PER_INCH = 72
_TIMEOUT_S = 30
_STOP = re.compile(r"^stop\b.*$", re.MULTILINE)


class DotError(Exception):
    """``dot`` is not there, failed, or took too long; the text says which."""


def lay_out(graphs: Sequence[LevelGraph]) -> list[Layout]:
    """Lay out the graphs.

    Raises:
        DotError: There is no ``dot``, or it did not do it.
    """
    if not graphs:
        return []
    binary = shutil.which("dot")
    if binary is None:
        raise DotError("Graphviz is not installed (no dot on the PATH)")
    source = "\n".join(dot_source(graph) for graph in graphs)
    try:
        done = subprocess.run(
            [binary, "-Tplain"], input=source, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DotError(f"dot could not be run ({type(error).__name__})") from error
    if done.returncode != 0:
        raise DotError(f"dot failed with exit code {done.returncode}")
    # Each graph ends with a line of its own.
    drawn = [[line.split() for line in part.splitlines() if line.strip()] for part in _STOP.split(done.stdout)[:-1]]
    if len(drawn) != len(graphs):
        raise DotError(f"dot drew {len(drawn)} of {len(graphs)} graphs")
    return [_read(graph, lines) for graph, lines in zip(graphs, drawn, strict=True)]


def dot_source(graph: LevelGraph) -> str:
    """The graph in the DOT language: sizes are final, names are numbers, so no text of a model gets in."""
    lines = [
        "digraph {",
        # Limits on the simplex keep a dense level at fractions of a second.
        "graph [nodesep=0.3 ranksep=0.35 nslimit=4 mclimit=1]",
        'node [shape=box fixedsize=true label=""]',
        # Without heads the curves end on the borders; the page draws the heads.
        "edge [arrowhead=none]",
    ]
    for at, (width, height) in enumerate(graph.sizes):
        lines.append(f"{at} [width={width / _POINTS_PER_INCH:.5f} height={height / _POINTS_PER_INCH:.5f}]")
    lines.extend(f"{tail} -> {head}" for tail, head in graph.edges)
    lines.append("}")
    return "\n".join(lines)


def _read(graph: LevelGraph, lines: list[list[str]]) -> Layout:
    """One graph of the ``plain`` format: inches, y upwards, ``node name x y ...``, ``edge tail head n x1 y1 ...``."""
    width = height = 0.0
    centres: list[Point] = [(0.0, 0.0)] * len(graph.sizes)
    curves: dict[tuple[int, int], tuple[Point, ...]] = {}
    for words in lines:
        if words[0] == "graph":
            width, height = (float(word) * _POINTS_PER_INCH for word in words[2:4])
        elif words[0] == "node":
            centres[int(words[1])] = _point(words[2], words[3], height)
        elif words[0] == "edge":
            tail, head, number = map(int, words[1:4])
            ends = words[4 : 4 + 2 * number]
            curves[tail, head] = tuple(_point(x, y, height) for x, y in zip(ends[::2], ends[1::2], strict=True))
    missing = [edge for edge in graph.edges if edge not in curves]
    if missing:
        raise DotError(f"dot left out {len(missing)} edges")
    return Layout(width, height, tuple(centres), tuple(curves[edge] for edge in graph.edges))


def _point(x: str, y: str, height: float) -> Point:
    return (round(float(x) * _POINTS_PER_INCH, 2), round(height - float(y) * _POINTS_PER_INCH, 2))
