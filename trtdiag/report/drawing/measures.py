"""What boxes can be coloured by besides where they run: precision, memory, time, error; or why one is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trtdiag.analysis.compilation import CompilationFacts
from trtdiag.analysis.result import Analysis
from trtdiag.report.drawing.nodes import DrawnNode, Role
from trtdiag.report.drawing.shape_words import short_dtype
from trtdiag.report.drawing.sides import Side, Sides, position_of, positions
from trtdiag.shapes.memory import output_bytes

_SIGNIFICANT = 4


@dataclass(frozen=True)
class Measures:
    """What is known of nodes, by position.

    Attributes:
        precision: The dtype that an op computes in, short (``f16``): the planned one in engines, else the program's.
        bytes: Of the output at the largest sizes; absent where it has no maximum.
        milliseconds: In the layers that compute a node; a layer of several ops counts for each with an equal share.
        errors: The largest difference from PyTorch, where it was measured op by op.
        lacks: Why nothing can be coloured by one of the choices, by choice.
    """

    precision: Mapping[int, str]
    bytes: Mapping[int, int]
    milliseconds: Mapping[int, float]
    errors: Mapping[int, float]
    lacks: Mapping[str, str]


def measures(analysis: Analysis, nodes: Sequence[DrawnNode], where: Sides | None) -> Measures:
    """What the stages found out.  Cost: linear in nodes and layers."""
    number = positions(nodes)
    precision = _precision(analysis, nodes, where, number)
    sizes = _bytes(analysis, nodes)
    milliseconds = _milliseconds(analysis.compilation, number)
    errors = _errors(analysis.compilation, number)
    facts = analysis.compilation
    built = "no layer of an engine was timed" if facts and facts.engines else "no engine was built"
    told = {
        "runs": (where, "the program was not partitioned"),
        "engine": (where and any(where.in_engine), "nothing goes into an engine"),
        "precision": (precision, "no op has a tensor"),
        "memory": (sizes, "no size has a maximum" if analysis.shapes else "sizes were not worked out"),
        "time": (milliseconds, built),
        "error": (errors, "no difference was measured op by op"),
    }
    lacks = {choice: why for choice, (known, why) in told.items() if not known}
    return Measures(precision, sizes, milliseconds, errors, lacks)


def _precision(
    analysis: Analysis, nodes: Sequence[DrawnNode], where: Sides | None, number: Mapping[str, int]
) -> dict[int, str]:
    found = {
        at: node.shape.partition("[")[0] for at, node in enumerate(nodes) if node.role is Role.OP and "[" in node.shape
    }
    if analysis.partition is None or where is None:
        return found
    for name, dtypes in analysis.partition.plan.types.engine.items():  # of the parts of an op the last: its output
        at = position_of(name, number)
        if at is not None and dtypes and where.side[at] is Side.ENGINE:
            found[at] = short_dtype(dtypes[0])
    return found


def _bytes(analysis: Analysis, nodes: Sequence[DrawnNode]) -> dict[int, int]:
    if analysis.shapes is None:
        return {}
    each = ((at, output_bytes(analysis.shapes, node.name)) for at, node in enumerate(nodes) if node.role is Role.OP)
    return {at: count for at, count in each if count}


def _milliseconds(facts: CompilationFacts | None, number: Mapping[str, int]) -> dict[int, float]:
    found: dict[int, float] = {}
    for layer in (layer for engine in (facts.engines if facts else ()) for layer in engine.built.layers):
        here = dict.fromkeys(at for op in layer.ops if (at := position_of(op.node, number)) is not None)
        for at in here:
            found[at] = found.get(at, 0.0) + (layer.time_ms or 0.0) / len(here)
    return {at: _rounded(time) for at, time in sorted(found.items()) if time}


def _errors(facts: CompilationFacts | None, number: Mapping[str, int]) -> dict[int, float]:
    """What is known of the first op that is off, and of the last one before it that is right."""
    culprit = facts.verification.culprit if facts and facts.verification else None
    if culprit is None or culprit.origin is None:
        return {}
    ends = ((culprit.since, 0.0), (culprit.origin, _rounded(culprit.max_abs)))
    placed = ((position_of(origin.node, number), off) for origin, off in ends if origin is not None)
    return {at: off for at, off in placed if at is not None}


def _rounded(value: float) -> float:
    return float(f"{value:.{_SIGNIFICANT}g}")
