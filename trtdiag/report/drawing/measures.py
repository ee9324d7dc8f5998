"""What boxes can be coloured by besides where they run: precision, memory, time, error; or why one is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch.fx import Node

from trtdiag.analysis.compilation import CompilationFacts
from trtdiag.analysis.result import Analysis
from trtdiag.report.drawing.nodes import DrawnNode, Role
from trtdiag.report.drawing.shape_words import short_dtype
from trtdiag.report.drawing.sides import Side, Sides, position_of, positions
from trtdiag.shapes.memory import output_bytes
from trtdiag.verification.facts import Verification
from trtdiag.verification.lowered_run import user_outputs
from trtdiag.wording import amount, listed

_SIGNIFICANT = 4


@dataclass(frozen=True)
class Measures:
    """What is known of nodes, by position.

    Attributes:
        precision: The dtype that an op computes in, short (``f16``): the planned one in engines, else the program's.
        bytes: Of the output at the largest sizes; absent where it has no maximum.
        milliseconds: In the layers that compute a node; a layer of several ops counts for each with an equal share.
        errors: The largest difference from PyTorch: of outputs, and of what was compared in search of a difference.
        lacks: Why nothing can be coloured by one of the choices, by choice.
        told: What times and differences are those of, by choice.
    """

    precision: Mapping[int, str]
    bytes: Mapping[int, int]
    milliseconds: Mapping[int, float]
    errors: Mapping[int, float]
    lacks: Mapping[str, str]
    told: Mapping[str, str]


def measures(analysis: Analysis, nodes: Sequence[DrawnNode], where: Sides | None) -> Measures:
    """What the stages found out.  Cost: linear in nodes and layers."""
    number = positions(nodes)
    precision = _precision(analysis, nodes, where, number)
    sizes = _bytes(analysis, nodes)
    milliseconds = _milliseconds(analysis.compilation, number)
    facts = analysis.compilation
    found = facts.verification if facts else None
    errors = _output_errors(found, analysis, nodes, number) if found else {}
    errors = _larger(errors, _searched_errors(found, number) if found else {})
    built = "no layer was timed: compile --profile-layers" if facts and facts.engines else "no engine was built"
    told = {
        "runs": (where, "the program was not partitioned"),
        "engine": (where and any(where.in_engine), "nothing goes into an engine"),
        "precision": (precision, "no op has a tensor"),
        "memory": (sizes, "no size has a maximum" if analysis.shapes else "sizes were not worked out"),
        "time": (milliseconds, built),
        "error": (errors, "nothing was compared"),
    }
    lacks = {choice: why for choice, (known, why) in told.items() if not known}
    words = {}
    if facts and milliseconds:
        devices = listed(sorted({engine.manifest.device for engine in facts.engines}))
        words["time"] = f"layers of engines on {devices}, at the sizes to tune for"
    if found and errors:
        words["error"] = _compared_words(found)
    return Measures(precision, sizes, milliseconds, errors, lacks, words)


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


def _output_errors(
    found: Verification, analysis: Analysis, nodes: Sequence[DrawnNode], number: Mapping[str, int]
) -> dict[int, float]:
    """How far each output is off where that is the most, at the op that gives it."""
    if analysis.partition is None:
        return {}
    outputs = user_outputs(analysis.partition.plan.lowered)
    errors: dict[int, float] = {}
    for result in found.results:
        if len(result.outputs) != len(outputs):  # not compared, or not of one structure
            continue
        for output, error in zip(outputs, result.outputs, strict=True):
            at = position_of(output.name, number) if isinstance(output, Node) else None
            while at is not None and nodes[at].role is Role.CHECK and nodes[at].reads:
                at = nodes[at].reads[0]  # an element of several results is not drawn: the op that gives them is
            if at is not None:
                errors = _larger(errors, {at: error.max_abs})
    return errors


def _searched_errors(found: Verification, number: Mapping[str, int]) -> dict[int, float]:
    """What was compared one by one up to the first op that is off."""
    culprit = found.culprit
    if culprit is None:
        return {}
    ends = ((culprit.since, 0.0), (culprit.origin, culprit.max_abs))
    named = {origin.node: off for origin, off in ends if origin is not None}
    errors: dict[int, float] = {}
    for name, off in (*culprit.measured.items(), *named.items()):
        at = position_of(name, number)
        if at is not None:
            errors = _larger(errors, {at: off})
    return errors


def _larger(errors: dict[int, float], others: Mapping[int, float]) -> dict[int, float]:
    """Of each node the larger one; what is no number is larger than all."""
    for at, off in others.items():
        off = _rounded(off) if math.isfinite(off) else math.inf
        errors[at] = max(off, errors.get(at, 0.0))
    return errors


def _compared_words(found: Verification) -> str:
    compared = sum(bool(result.outputs) for result in found.results)
    words = f"outputs at {amount(compared, 'set')} of sizes"
    return f"{words}, and what was compared up to the first op that is off" if found.culprit else words


def _rounded(value: float) -> float:
    return float(f"{value:.{_SIGNIFICANT}g}")
