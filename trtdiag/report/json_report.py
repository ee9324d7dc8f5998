"""The JSON report: schema ``trtdiag-report/1``, keys always in the same order, what varies between runs at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtdiag.analysis.compilation import CompilationFacts, EngineFacts
from trtdiag.analysis.coverage import OpCoverage, no_work, op_coverage
from trtdiag.analysis.fallbacks import FallbackGroup, PartitionFacts
from trtdiag.analysis.finding import Place
from trtdiag.analysis.result import Analysis
from trtdiag.analysis.tried_builds import TriedEngine
from trtdiag.dims.facts import Conflict, Constraint, Pinned, Tied
from trtdiag.dtypes.facts import OddTensor, WideTensor
from trtdiag.dtypes.plan_facts import PlannedTensor
from trtdiag.engine.built_layers import LayerInfo, LayerTensor
from trtdiag.engine.manifest import EngineInput, EngineOutput
from trtdiag.frontend.program import ExportFailure, OpOrigin, Program
from trtdiag.graph.segment import Segment
from trtdiag.lower.facts import Checked, MetadataDefect
from trtdiag.lower.lowered_facts import LoweringLimit, PrecisionFacts
from trtdiag.network.network import Origin
from trtdiag.partition.facts import Fallback
from trtdiag.partition.what_if import WhatIf
from trtdiag.report.compile_words import culprit_line, outcome, outcome_line
from trtdiag.report.schema_check import read_schema
from trtdiag.report.schema_writer import Form, written
from trtdiag.report.settings import settings_of
from trtdiag.report.shown_paths import with_short_paths
from trtdiag.report.strict_json import Json
from trtdiag.report.verdict import in_order, verdict
from trtdiag.runtime.engine_layers import ToldLayers
from trtdiag.shapes.facts import MemoryEstimate, SymbolFacts
from trtdiag.verification.facts import Culprit, OutputError, PointResult, Verification

SCHEMA = "trtdiag-report/1"
SCHEMA_PATH = Path(__file__).parent / "schema" / "report-1.schema.json"


def report_json(analysis: Analysis) -> dict[str, Json]:
    """The report as plain lists and dicts; findings stand in the order of the page, roots before what they cause.

    Files are named as they are found from the working directory; those of a home folder begin with ``~``.
    """
    program, dims, tried = analysis.program, analysis.dims, analysis.tried
    whole = {
        **vars(analysis),
        "schema": SCHEMA,
        "tool": ("trtdiag", analysis.trtdiag_version),
        "settings": {name: _setting(value) for name, value, _ in settings_of(analysis.options)},
        "verdict": verdict(analysis),
        "findings": in_order(analysis.findings),
        "symbols": None if analysis.symbols is None else analysis.symbols.symbols,
        "guards": (dims.constraints, dims.unparsed),
        "metadata": analysis.checked,
        "no_work": None if analysis.checked is None else no_work(analysis.checked),
        "compiled": analysis.compilation,
        "tried_builds": tried,
        "bench": None,
        "comparison": None,
        "versions": program.versions,
        "timings": {
            "export_s": program.export_s,
            "stages": analysis.stages,
            "tried_builds_s": [engine.seconds for engine in tried.engines] if tried else [],
        },
    }
    body = written(whole, read_schema(SCHEMA_PATH), _forms(analysis))
    return with_short_paths(body)  # type: ignore[no-any-return]


def _setting(value: object) -> Json:
    if isinstance(value, tuple):
        return [_setting(each) for each in value]
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _at(origin: OpOrigin | None) -> dict[str, Any]:
    return {"module_path": origin and origin.module_path, "source": origin and origin.stack.best}


def _engine(index: int, engine: EngineFacts) -> dict[str, Any]:
    where = engine.manifest.compatibility
    return {
        **vars(engine.manifest),
        **vars(engine),
        "index": index,
        "compute_capability": where.compute_capability,
        "hardware_compatibility": where.hardware,
        "version_compatible": where.versions,
        "bytes": engine.engine_bytes,
        "from_cache": engine.saved,
        "inputs": [{**_input(port), "pairs_of_int64": port.name in engine.pairs} for port in engine.manifest.inputs],
    }


def _input(port: EngineInput) -> dict[str, Any]:
    return {**vars(port), "shape": port.dims, "size": port.value}


def _answer(answer: WhatIf) -> dict[str, Any]:
    return {**vars(answer), "engines_before": answer.segments_before, "engines_after": answer.segments_after}


def _partition(facts: PartitionFacts) -> dict[str, Any]:
    return {
        **{key: getattr(facts.partitioned, key) for key in ("segments", "boundaries", "steps")},
        "left_to_pytorch": facts.partitioned.fallback,
        "costs": [group for group in facts.groups if group.cost is not None],
        "minimums": [{"min_segment_ops": least, **_answer(answer)} for least, answer in facts.minimums],
        "coverage": op_coverage(facts),
        "types": facts.plan.types.entries,
        "precision": facts.plan.lowered.precision,
    }


def _segment(facts: PartitionFacts, segment: Segment) -> dict[str, Any]:
    engine = facts.plan.types.engine
    return {
        side: [(name, next(iter(engine.get(name, ())), None)) for name in getattr(segment, side)]
        for side in ("inputs", "outputs")
    }


_FORMS: Mapping[type, Form] = {
    ExportFailure: lambda failure: {"source": failure.stack.best},
    **dict.fromkeys((Place, WideTensor, OddTensor, PlannedTensor), lambda fact: {"source": fact.frame}),
    Pinned: lambda pin: {"source": pin.origin.stack.best},
    Tied: lambda tied: {"constraint": tied.constraint and tied.constraint.text},
    Conflict: lambda conflict: {"constraints": [each.text for each in conflict.constraints]},
    Constraint: lambda guard: {**vars(guard.origin), "source": guard.origin.stack.best},
    MemoryEstimate: lambda memory: {"live_source": memory.live_frame},
    Checked: lambda checked: {"unchecked": list(checked.unchecked.items())},
    MetadataDefect: lambda defect: _at(defect.origin),
    PartitionFacts: _partition,
    WhatIf: _answer,
    FallbackGroup: lambda group: {
        **_answer(group.cost),
        "op": group.op,
        "reason": group.code,
        "calls": len(group.left),
        "crossing_bytes": group.crossing,
    },
    OpCoverage: lambda op: {"engine": op.in_engines, "pytorch": op.in_pytorch, "no_work": op.idle},
    PrecisionFacts: lambda facts: {"asked": facts.precision, "stays_float32": facts.stays},
    LoweringLimit: lambda op: {"op": op.target, "reason": op.why, **_at(op.origin)},
    CompilationFacts: lambda facts: {"engines": [_engine(*each) for each in enumerate(facts.engines)]},
    EngineOutput: lambda port: {"shape": port.dims},
    ToldLayers: lambda told: {"why": told.why or None},
    LayerInfo: lambda layer: {"precision": layer.dtypes, "tactic": layer.tactic or None},
    LayerTensor: lambda tensor: {"dtype": tensor.dtype or None, "format": tensor.format or None},
    PointResult: lambda result: {
        **vars(result.point),
        **{why: getattr(result, why) or None for why in ("skipped", "failed", "unstable")},
    },
    OutputError: lambda output: {"why": output.why or None},
    Culprit: lambda culprit: {
        "engine": culprit.segment,
        **{key: culprit.origin and getattr(culprit.origin, key) for key in ("op", "node")},
        "source": culprit.origin and culprit.origin.frame,
        "sizes": culprit.point.sizes,
        "after": culprit.since,
        "note": culprit.note or None,
    },
    TriedEngine: lambda engine: {"bytes": engine.engine_bytes},
}
"""By type of fact, the keys of the report that are not its attributes."""


def _forms(analysis: Analysis) -> Mapping[type, Form]:
    """The same with those that need the whole analysis."""

    def verification(found: Verification) -> dict[str, Any]:
        how, difference = outcome(found), outcome_line(found)
        if found.culprit is not None:
            difference += f"; {culprit_line(found.culprit, analysis.program.words)}"
        return {
            "outcome": how,
            "difference": difference if how == "differs" else None,
            "points": found.results,
            "limit_s": found.total_s,
            "left_out": len(found.left_out),
        }

    parts = analysis.partition
    lowered = {} if parts is None else parts.plan.lowered.origins
    return {
        **_FORMS,
        Program: lambda _: {"op_nodes": analysis.op_nodes},
        SymbolFacts: lambda symbol: {"profile": analysis.profiles.get(symbol.symbol)},
        Segment: lambda segment: {} if parts is None else _segment(parts, segment),
        Fallback: lambda left: {
            "reason": left.limit.code,
            "why": left.limit.why,
            "fix": left.limit.fix,
            **_at(lowered.get(left.node)),
        },
        Origin: lambda origin: {**_at(lowered.get(origin.node)), "source": origin.frame},
        Verification: verification,
    }
