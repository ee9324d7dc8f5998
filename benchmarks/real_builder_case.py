"""One step of ``benchmarks/real_builder.py`` in a process of its own: what it prints last is JSON.

    python benchmarks/real_builder_case.py '{"export": "espcn", "program": "espcn.pt2"}'
    python benchmarks/real_builder_case.py '{"model": "espcn", "program": "espcn.pt2", "target": "rtx-1.7", ...}'

The first exports a model into a file, with the dims of ``fix_dims`` where those that it asks for are refused.  The
second plans the file's engines, and hands each to the builder.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from zoo_export import state_of

import trtdiag
from tests.models import zoo
from trtdiag import trying_builds
from trtdiag.analysis.tried_builds import Refusal, TriedBuilds
from trtdiag.errors import TrtdiagError
from trtdiag.report.report import Report

Row = dict[str, Any]


def exported(case: Row) -> Row:
    """What became of an export: the file is there where ``state`` is ``exported``."""
    name, path = case["export"], case["program"]
    state = state_of(name, path, "cpu")
    if not state.startswith("refused"):
        return {"state": state, "dims": "asked"}
    fix = trtdiag.fix_dims(zoo.build(name))
    if fix.outcome.value == "impossible":
        return {"state": state, "dims": f"fix_dims finds none: {fix.failure or ''}"[:300]}
    torch.export.save(fix.program, path)
    return {"state": "exported", "dims": f"fix_dims: {fix.outcome.value}"}


def built(case: Row) -> Row:
    """The builder's word on each planned engine of a program."""
    with contextlib.suppress(ModuleNotFoundError):
        zoo.build(case["model"])  # its library brings the ops of its own that are in the program
    trying_builds.LIMIT_S = case["engine_s"]
    began = time.perf_counter()
    report = trtdiag.analyze(
        case["program"],
        target=case["target"],
        precision=case["precision"],
        gpu=tuple(case["gpus"]),
        try_build=True,
    )
    analysis = report.analysis
    tried = analysis.tried
    if tried is None:
        return {"state": f"not planned: {_failed_stages(report)}"}
    split = None if analysis.partition is None else analysis.partition.partitioned
    return {
        "state": _state(tried),
        "builder": tried.builder,
        "gpus": list(tried.gpus),
        "engines": len(tried.engines),
        "layers": sum(engine.layers for engine in tried.engines),
        "bytes": sum(engine.engine_bytes or 0 for engine in tried.engines),
        "build_s": round(sum(engine.seconds for engine in tried.engines), 2),
        "all_s": round(time.perf_counter() - began, 2),
        "in_pytorch": 0 if split is None else sum(entry.computes for entry in split.fallback),
        "refusals": [_refusal(report, e.index, e.refusal) for e in tried.engines if e.refusal is not None],
        "remedies": list(tried.remedies),
        "warnings": list(dict.fromkeys(text for engine in tried.engines for text in engine.warnings))[:8],
    }


def _state(tried: TriedBuilds) -> str:
    if not tried.engines:
        return "no engine"
    refused = [engine.refusal for engine in tried.engines if engine.refusal is not None]
    if not refused:
        return "built"
    if tried.remedied:
        return "refused, then built otherwise"
    ended = [one for one in refused if "did not end in order" in one.message]
    return "the builder's process ended" if ended else "refused"


def _refusal(report: Report, index: int, refusal: Refusal) -> Row:
    partition, op, frame = report.analysis.partition, None, None
    if partition is not None and refusal.node is not None:
        lowered = partition.plan.lowered
        origin = lowered.origins.get(refusal.node)
        frame = None if origin is None else origin.stack.best
        op = next((str(n.target) for n in lowered.graph_module.graph.nodes if n.name == refusal.node), None)
    return {
        "engine": index,
        "gpus": list(refusal.gpus),
        "op": op,
        "line": None if frame is None else f"{Path(frame.file).name}:{frame.line}",
        "message": refusal.message[:600],
        "because": refusal.because[:1200],
    }


def _failed_stages(report: Report) -> str:
    told = [f"{stage.name}: {stage.message}" for stage in report.analysis.stages if stage.status != "ok"]
    return "; ".join(told)[:600]


def main() -> None:
    """Runs the step that the command line describes."""
    case: Row = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    faulthandler.enable()
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            row = exported(case) if "export" in case else built(case)
        except TrtdiagError as error:
            row = {"state": f"{type(error).__name__}: {error.message}: {error.because}"[:1500]}
        except Exception as error:  # a crash is a row of the table, too
            row = {
                "state": f"crash {type(error).__name__}: {error}"[:1500],
                "traceback": traceback.format_exc()[-4000:],
            }
    print(json.dumps(row), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    main()
