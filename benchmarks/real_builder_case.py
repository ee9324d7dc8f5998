"""One model of ``benchmarks/real_builder.py`` in a process of its own, which tells one dict for each step.

The first says what became of the export, with the dims of ``fix_dims`` where those that the model asks for are refused.
Then comes one for each run: the program's engines are planned, and handed to the builder, in a process that is forked
for it, since a process has one release of the builder.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import io
import json
import multiprocessing
import os
import re
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch._export.serde.serialize import SerializeError
from zoo_export import refused_by_export

import trtdiag
from tests.models import zoo
from tests.models.registry import LIBRARIES
from tests.models.torchvision_ops import declare_missing_ops
from trtdiag.analysis.tried_builds import Refusal, TriedBuilds
from trtdiag.engine.tensorrt.engine_per_gpu import unpacked
from trtdiag.errors import TrtdiagError
from trtdiag.options import CompileOptions, Precision
from trtdiag.pipeline import try_build
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.report import Report
from trtdiag.targets.versions import EVERY_GPU

Row = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent


def live(name: str) -> tuple[Row, torch.export.ExportedProgram | None]:
    """The model exported in this process, with the dims of ``fix_dims`` where its own are refused."""
    try:
        module, args, kwargs, dims = zoo.build(name)
    except ModuleNotFoundError as error:
        return {"state": f"needs {error.name}"}, None
    try:
        return {"state": "exported", "dims": "asked"}, torch.export.export(module, args, kwargs, dynamic_shapes=dims)
    except Exception as error:  # whatever export raises is the answer
        state = refused_by_export(error, "cpu")
    fix = trtdiag.fix_dims(zoo.build(name))
    if fix.outcome.value == "impossible":
        return {"state": state, "dims": f"fix_dims finds none: {fix.failure or ''}"[:300]}, None
    return {"state": "exported", "dims": "fix_dims"}, fix.program


def exported(name: str, folder: Path) -> tuple[Row, torch.export.ExportedProgram | None]:
    """The model's program as its file gives it, from the folder where it is there; what became of the export."""
    kept = {"asked": folder / f"{name}.pt2", "fix_dims": folder / f"{name}.by-fix-dims.pt2"}
    for dims, path in kept.items():
        if path.exists():
            with contextlib.suppress(ModuleNotFoundError):
                zoo.build(name)  # its library brings the ops of its own that are in the program
            return {"state": "exported", "dims": dims}, torch.export.load(path)
    row, program = live(name)
    if program is None:
        return row, None
    path = kept[row["dims"]]
    try:
        torch.export.save(program, path)
    except SerializeError:  # torch exports it and cannot save it
        path.unlink(missing_ok=True)
        return row, program
    return row, torch.export.load(path)


def built(program: torch.export.ExportedProgram, run: Row, case: Row) -> Row:
    """The builder's word on each planned engine of a program."""
    began, began_cpu = time.perf_counter(), _children_cpu_s()
    report = trtdiag.analyze(
        program,
        target=run["target"],
        precision=run["precision"],
        gpu=tuple(case["gpus"]),
        try_build=True,
        build_limit_s=case["build_limit_s"],
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
        "build_cpu_s": round(_children_cpu_s() - began_cpu, 2),
        "all_s": round(time.perf_counter() - began, 2),
        "in_pytorch": 0 if split is None else sum(entry.computes for entry in split.fallback),
        "refusals": [_refusal(report, e.index, e.refusal) for e in tried.engines if e.refusal is not None],
        "remedies": [note.replace(f"{ROOT}/", "") for note in tried.remedies],
        "warnings": list(dict.fromkeys(text for engine in tried.engines for text in engine.warnings))[:8],
    }


def built_for_each_gpu(program: torch.export.ExportedProgram, run: Row, case: Row) -> Row:
    """A compiled program with engines of their own for every GPU generation: their bytes and seconds."""
    del case
    began, clock = time.perf_counter(), _Generations()
    options = CompileOptions(
        target=run["target"],
        backend=try_build.BACKEND,
        precision=Precision(run["precision"]),
        gpu=(EVERY_GPU,),
        engine_per_gpu=True,
        force=True,
        verify=False,
    )
    made = compile_in_stages(program, options, progress=clock)
    sizes: Counter[str] = Counter()
    for engine in made.engines:
        sizes.update({gpu: len(blob) for gpu, blob in (unpacked(memoryview(engine.blob)) or {}).items()})
    return {
        "state": "built" if made.engines else "no engine",
        "engines": len(made.engines),
        "layers": sum(len(one.network.layers) for one in made.converted),
        "bytes": sum(sizes.values()),
        "bytes_of": dict(sizes),
        "build_s": round(sum(clock.seconds.values()), 2),
        "build_cpu_s": round(sum(clock.cpu_seconds.values()), 2),
        "seconds_of": {gpu: round(seconds, 2) for gpu, seconds in clock.seconds.items()},
        "cpu_seconds_of": {gpu: round(seconds, 2) for gpu, seconds in clock.cpu_seconds.items()},
        "all_s": round(time.perf_counter() - began, 2),
        "in_pytorch": sum(entry.computes for entry in made.plan.partitioned.fallback),
        "notes": list(made.report.analysis.compilation.notes) if made.report.analysis.compilation else [],
    }


def _children_cpu_s() -> float:
    """Processor time of this process's children that ended: builds, those of a search too, and exports before them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class _Generations:
    """Listens to a compilation: wall and processor seconds of each GPU generation's engines."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.cpu_seconds: Counter[str] = Counter()
        self._gpu, self._since, self._cpu_since = "", 0.0, 0.0

    def __call__(self, step: str) -> None:
        """Begin another generation, or end the last one."""
        named = re.search(r": for (sm\d+)$", step)
        if step.startswith("building") and named is None:
            return  # a step of the same build
        now, cpu = time.perf_counter(), time.process_time()
        if self._gpu:
            self.seconds[self._gpu] += now - self._since
            self.cpu_seconds[self._gpu] += cpu - self._cpu_since
        self._gpu, self._since, self._cpu_since = named[1] if named else "", now, cpu


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
    told = [f"{stage.name}: {stage.message}" for stage in report.analysis.stages if stage.state != "ok"]
    return "; ".join(told)[:600]


def answer(work: Callable[[], Row]) -> Row:
    """What a step came to; what it raises is an answer, too."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return work()
        except TrtdiagError as error:
            return {"state": f"{type(error).__name__}: {error.message}: {error.because}"[:1500]}
        except Exception as error:  # a crash is a row of the table, too
            state = f"crash {type(error).__name__}: {error}"[:1500]
            return {"state": state, "traceback": traceback.format_exc()[-4000:]}


def apart(work: Callable[[], Row], release: str | None) -> Row:
    """The answer of a forked process, in which the builder is that of a folder; none for the installed one."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_serve, args=(work, release, theirs))
    child.start()
    theirs.close()
    try:
        row: Row = json.loads(ours.recv_bytes())
    except EOFError:
        row = {}
    child.join()
    return row or {"state": f"the process ended ({child.exitcode})"}


def _serve(work: Callable[[], Row], release: str | None, pipe: Connection) -> None:
    if release is not None:
        sys.path.insert(0, release)
        importlib.invalidate_caches()
    pipe.send_bytes(json.dumps(answer(work)).encode())


def import_libraries() -> None:
    """Import what the zoo's models are made with, as far as it is installed."""
    declare_missing_ops()  # torchvision's, before timm imports it
    for name in LIBRARIES:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)


def all_steps(case: Row, pipe: Connection) -> None:
    """Export a model and do each of its runs, in a group of processes of its own; each row goes into the pipe."""
    os.setpgid(0, 0)
    warnings.simplefilter("ignore")
    faulthandler.enable()
    torch.set_num_threads(1)
    found: list[torch.export.ExportedProgram | None] = []

    def export() -> Row:
        row, program = exported(case["model"], Path(case["programs"]))
        found.append(program)
        return row

    pipe.send_bytes(json.dumps(answer(export)).encode())
    program = found[0] if found else None
    if program is None:
        return
    work = built_for_each_gpu if case["each_gpu"] else built
    for run in case["runs"]:
        pipe.send_bytes(json.dumps(apart(partial(work, program, run, case), run["release"])).encode())
