"""The layers of built engines at the nodes that they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtdiag.analysis.compilation import CompilationFacts
from trtdiag.report.drawing.nodes import DrawnNode
from trtdiag.report.drawing.sides import position_of, positions
from trtdiag.wording import amount, one_line

_LONGEST_NAME_CHARS = 120


@dataclass(frozen=True)
class EngineLayers:
    """Layers in words.

    Attributes:
        told: Of each layer, its place (``engine 0, layer 3``), its name, and the rest (kind, precision, time).
        of_node: The layers that compute each node, by position.
    """

    told: tuple[tuple[str, str, str], ...]
    of_node: dict[int, tuple[int, ...]]


def engine_layers(facts: CompilationFacts | None, nodes: Sequence[DrawnNode]) -> EngineLayers:
    """The layers that compute nodes of the program; those that only move data are in the section on compiling."""
    number = positions(nodes)
    told: list[tuple[str, str, str]] = []
    found: dict[int, dict[int, None]] = {}
    for at, engine in enumerate(facts.engines if facts else ()):
        for index, layer in enumerate(engine.built.layers):
            computed = {position_of(op.node, number): None for op in layer.ops}
            here = [position for position in computed if position is not None]
            if not here:
                continue
            rest = [one_line(layer.kind), ", ".join(layer.dtypes), amount(len(layer.ops), "op")]
            if layer.time_ms is not None:
                rest.append(f"{layer.time_ms:.4f} ms")
            for position in here:
                found.setdefault(position, {})[len(told)] = None
            name = one_line(layer.name, _LONGEST_NAME_CHARS)
            told.append((f"engine {at}, layer {index}", name, ", ".join(filter(None, rest))))
    return EngineLayers(tuple(told), {position: tuple(layers) for position, layers in found.items()})
