"""What goes into engines, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from trtdiag.analysis.coverage import op_coverage
from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.graph.segment import Segment
from trtdiag.lower.precision.facts import PrecisionFacts
from trtdiag.partition.facts import Boundary, Bytes, Fallback
from trtdiag.partition.what_if import WhatIf
from trtdiag.report.json_parts import Json, frame_json, strings
from trtdiag.symbolic.text import to_text


def partition_json(facts: PartitionFacts | None) -> Json:
    """Engines, boundaries, ops left to PyTorch, their cost, and planned types; ``null`` where nothing was planned."""
    if facts is None:
        return None
    parts = facts.partitioned
    engine = facts.plan.types.engine
    return {
        "segments": [_segment_json(segment, engine) for segment in parts.segments],
        "boundaries": [_boundary_json(boundary) for boundary in parts.boundaries],
        "steps": [{"segment": step.segment, "torch_nodes": strings(step.torch_nodes)} for step in parts.steps],
        "left_to_pytorch": [_fallback_json(fallback, facts) for fallback in parts.fallback],
        "costs": [
            {
                "op": group.op,
                "other_ops": group.other_ops,
                "reason": group.code,
                "calls": len(group.left),
                **_answer_json(group.cost),
                "crossing_bytes": _bytes_json(group.crossing),
            }
            for group in facts.groups
            if group.cost is not None
        ],
        "together": None if facts.together is None else _answer_json(facts.together),
        "minimums": [{"min_segment_ops": least, **_answer_json(answer)} for least, answer in facts.minimums],
        "coverage": [
            {
                "op": each.op,
                "calls": each.calls,
                "engine": each.in_engines,
                "pytorch": each.in_pytorch,
                "no_work": each.idle,
                "reasons": [{"reason": code, "why": why, "calls": calls} for code, why, calls in each.reasons],
            }
            for each in op_coverage(facts)
        ],
        "types": [
            {
                "node": entry.node,
                "role": entry.role.value,
                "program_dtype": _dtype(entry.program_dtype),
                "engine_dtype": None if entry.engine_dtype is None else _dtype(entry.engine_dtype),
                "why": entry.why,
                "source": frame_json(entry.frame),
            }
            for entry in facts.plan.types.entries
        ],
        "precision": _precision_json(facts.plan.lowered.precision),
    }


def _answer_json(answer: WhatIf) -> dict[str, Json]:
    return {
        "engines_before": answer.segments_before,
        "engines_after": answer.segments_after,
        "ops_before": answer.ops_before,
        "ops_after": answer.ops_after,
    }


def _precision_json(facts: PrecisionFacts | None) -> Json:
    """``null`` where floats stay what they are."""
    if facts is None:
        return None
    return {
        "asked": facts.precision.value,
        "lowered_ops": facts.lowered_ops,
        "casts": facts.casts,
        "stays_float32": [
            {
                "node": each.node,
                "op": each.target,
                "reason": each.reason,
                "module_path": each.origin.module_path,
                "source": frame_json(each.origin.stack.best),
            }
            for each in facts.stays
        ],
        "unmatched": strings(facts.unmatched),
    }


def _segment_json(segment: Segment, engine: Mapping[str, Sequence[torch.dtype]]) -> Json:
    return {
        "index": segment.index,
        "ops": strings(segment.ops),
        "work_ops": segment.work_ops,
        "inputs": [_crossing_json(name, engine) for name in segment.inputs],
        "outputs": [_crossing_json(name, engine) for name in segment.outputs],
        "constants": strings(segment.constants),
        "entering_sizes": [
            {"node": size.node, "expr": None if size.expr is None else to_text(size.expr), "why": size.why}
            for size in segment.entering_sizes
        ],
    }


def _crossing_json(name: str, engine: Mapping[str, Sequence[torch.dtype]]) -> Json:
    dtypes = engine.get(name, ())
    return {"node": name, "engine_dtype": _dtype(dtypes[0]) if dtypes else None}


def _boundary_json(boundary: Boundary) -> Json:
    return {
        "tensor": boundary.tensor,
        "producer": boundary.producer,
        "consumers": list(boundary.consumers),
        "read_by_torch": boundary.read_by_torch,
        "program_input": boundary.program_input,
        "program_output": boundary.program_output,
        "bytes": _bytes_json(boundary.bytes),
    }


def _fallback_json(fallback: Fallback, facts: PartitionFacts) -> Json:
    origin = facts.plan.lowered.origins.get(fallback.node)
    return {
        "node": fallback.node,
        "op": fallback.op,
        "cause": fallback.cause.value,
        "reason": fallback.limit.code,
        "why": fallback.limit.why,
        "fix": fallback.limit.fix,
        "computes": fallback.computes,
        "module_path": None if origin is None else origin.module_path,
        "source": None if origin is None else frame_json(origin.stack.best),
    }


def _bytes_json(count: Bytes) -> Json:
    return {"min": count.min, "opt": count.opt, "max": count.max}


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
