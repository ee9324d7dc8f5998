"""One model of ``benchmarks/zoo.py`` in a process of its own: what it prints last is its row as JSON."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import operator
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from side_by_side import best_of_each, torch_gib
from torch.fx import Interpreter, Node
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from tests.models import zoo
from tests.partition.checks import quiet, torch_partitioner, torch_segments
from trtdiag.analysis.fallback_hits import calls, reasons
from trtdiag.analysis.fallbacks import FallbackGroup
from trtdiag.errors import TrtdiagError
from trtdiag.frontend.capture import capture
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.lower.concrete_values import Point, UnplaceableError
from trtdiag.options import AnalyzeOptions, CompileOptions, PartitionOptions, Precision
from trtdiag.partition.facts import EnginePlan, Partitioned
from trtdiag.partition.partition import partition, symbol_sizes
from trtdiag.pipeline.analyze import examine
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.stages import Clock
from trtdiag.pipeline.state import State
from trtdiag.report.compile_words import movement_words
from trtdiag.shapes.profile import DimProfile
from trtdiag.verification import engine_search, run
from trtdiag.verification.facts import Culprit
from trtdiag.verification.limits import VerifyLimits

Row = dict[str, Any]
EXPORT = Path(__file__).with_name("zoo_export.py")


class _Flops(Interpreter):
    """Counts the floating-point operations of each node, on tensors without content."""

    def __init__(self, plan: EnginePlan, hints: dict[str, int]) -> None:
        super().__init__(plan.lowered.graph_module)
        self._point = Point(hints)
        self.by_node: dict[str, int] = {}

    def run_node(self, n: Node) -> Any:
        if n.op == "output":
            return None
        try:
            placed = self._point.place(n.meta.get("val"))
        except UnplaceableError:
            return None
        if callable(n.target) and n.target is not operator.getitem:
            self._count(n, n.target)
        return self._made(placed)

    def _made(self, placed: Any) -> Any:
        if isinstance(placed, tuple):
            return [self._made(item) for item in placed]
        return self._point.tensor(placed) if hasattr(placed, "sizes") else placed

    def _count(self, n: Node, target: Callable[..., Any]) -> None:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        counter = FlopCounterMode(display=False)
        with contextlib.suppress(Exception), counter, self._point.mode:
            target(*args, **kwargs)
        self.by_node[n.name] = counter.get_total_flops()


def _shares(plan: EnginePlan, hints: dict[str, int]) -> tuple[int, int, int, int]:
    """Ops, ops in segments, FLOPs, FLOPs in segments."""
    inside = {name for segment in plan.partitioned.segments for name in segment.ops}
    flops = _Flops(plan, hints)
    nodes = [n for n in plan.lowered.graph_module.graph.nodes if n.op == "call_function"]
    ops = [n for n in nodes if classify(n) in (NodeKind.OP, NodeKind.NO_OP, NodeKind.HIGHER_ORDER)]
    placeholders = [n for n in plan.lowered.graph_module.graph.nodes if n.op == "placeholder"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flops.run(*[None for _ in placeholders], enable_io_processing=False)
    total = sum(flops.by_node.values())
    return (
        len(ops),
        sum(n.name in inside for n in ops),
        total,
        sum(count for name, count in flops.by_node.items() if name in inside),
    )


def _beside_torch(plan: EnginePlan, symbols: Mapping[str, DimProfile], most_gib: float) -> Row:
    """Segments and CPU seconds of our partitioner and of torch.fx's, on the same ops.

    torch.fx's is left out where it takes more than ``most_gib``: its memory grows with the square of the nodes.

    Both get what they work on prepared: torch.fx's the answers of its support, ours what compiling gives it, with the
    reader that has read the metadata.  torch.fx's is timed with size nodes as supported and without, and has the
    better time.
    """
    module = plan.source.graph_module
    held, reader = [node.name for node in plan.source.held], plan.source.reader
    options = PartitionOptions(min_segment_ops=0)

    def split() -> Partitioned:
        return partition(module, plan.support.limits, options, symbols=symbols, held=held, reader=reader)

    parts, gib = split(), torch_gib(module.graph)
    if gib > most_gib:
        (ours,) = best_of_each(split, runs=4)
        return {"every_segment": len(parts.segments), "partition_s": ours, "torch_gib": gib}
    with_sizes, without = (torch_partitioner(parts, module, sizes=sizes) for sizes in (True, False))
    with quiet():
        # Nobody runs right after its own code, which would still be in the processor's caches.
        times = best_of_each(split, with_sizes, split, without)
    return {
        "every_segment": len(parts.segments),
        "torch_segments": torch_segments(parts, module, sizes=True),
        "torch_gib": gib,
        "partition_s": min(times[::2]),
        "torch_partition_s": min(times[1::2]),
    }


def _verified(compilation: State) -> Row:
    found = compilation.verification
    if found is None:
        return {}
    worst, facts = found.worst, compilation.report.analysis.compilation
    return {
        "passed": found.passed,
        "points": sum(not r.skipped for r in found.results),
        "compared": [f"{r.point.label} {dict(r.point.sizes)}" for r in found.results if not r.skipped],
        "skipped": [f"{r.point.label} {dict(r.point.sizes)}: {r.skipped}" for r in found.results if r.skipped],
        "failed": [f"{r.point.label} {dict(r.point.sizes)}: {r.failed}" for r in found.results if r.failed][:3],
        "unstable": [f"{r.point.label} {dict(r.point.sizes)}: {r.unstable}" for r in found.unstable],
        "off": [
            f"{r.point.label} {dict(r.point.sizes)} {o.output} {o.dtype} {list(o.shape)} abs {o.max_abs:.2g} "
            f"rel {o.max_rel:.2g} allowed {o.allowed:.2g} {o.why or movement_words(o)}"
            for r in found.results
            for o in r.outputs
            if not o.passed
        ][:4],
        "worst_rel": worst.max_rel if worst else None,
        "culprit": _culprit(found.culprit),
        "notes": [*found.notes, *(facts.notes if facts is not None else ())],
    }


def _culprit(culprit: Culprit | None) -> str | None:
    if culprit is None:
        return None
    return f"segment {culprit.segment} {culprit.origin or ''} {culprit.layer} abs {culprit.max_abs:.2g}"


def _row(name: str, compilation: State, program: Any, most_gib: float) -> Row:
    plan = compilation.plan
    ops, inside, flops, flops_inside = _shares(plan, dict(program.hints))
    reasons = Counter(f"{f.op}: {f.limit.code}" for f in plan.partitioned.fallback if f.computes)
    seconds: dict[str, float] = {}
    for stage in compilation.stages:
        seconds[stage.name] = seconds.get(stage.name, 0.0) + stage.seconds
    return {
        "model": name,
        "state": "compiled",
        "ops": ops,
        "inside": inside,
        "flops": flops,
        "flops_inside": flops_inside,
        "segments": len(plan.partitioned.segments),
        "fallback": dict(reasons.most_common(8)),
        "layers": sum(len(one.network.layers) for one in compilation.converted),
        "engine_mib": round(sum(len(one.blob) for one in compilation.engines) / 2**20, 1),
        "seconds": {key: round(value, 3) for key, value in seconds.items()},
        "verify": _verified(compilation),
        **(_beside_torch(plan, symbol_sizes(program.ranges, program.hints), most_gib) if most_gib else {}),
    }


def _planned(case: Row, source: Any) -> Row:
    """What would go into engines, and what the ops that stay are and cost: by default, and with what brings in more."""
    default = AnalyzeOptions(target=case["target"], precision=Precision(case["precision"]))
    more = replace(default, truncate_double=True, partition=PartitionOptions(random="engine"))
    plans = {}
    for name, options in {"by default": default, "--random engine --truncate-double": more}.items():
        facts = examine(source, options, Clock(lambda stage: print("in", stage, file=sys.stderr, flush=True)))
        assert facts.partition is not None
        ops, inside, flops, flops_inside = _shares(facts.partition.plan, dict(facts.program.hints))
        told = {left.node for group in facts.partition.groups for left in group.left}
        others = [f for f in facts.partition.plan.partitioned.fallback if f.node not in told]
        plans[name] = {
            "ops": ops,
            "inside": inside,
            "flops": flops,
            "flops_inside": flops_inside,
            "segments": len(facts.partition.plan.partitioned.segments),
            "others": dict(Counter(f"{one.op}: {one.limit.code}" for one in others)),
            "left": [_left(group) for group in facts.partition.groups],
        }
    return {"model": case["model"], "state": "planned", "plans": plans}


def _left(group: FallbackGroup) -> Row:
    return {
        "ops": calls(group),
        "count": len(group.left),
        "reason": f"{group.code}: {reasons(group)}",
        "engines": group.engines_saved,
        "other_ops": group.drawn_along,
        "bytes": group.crossing.opt,
    }


def _live(case: Row) -> tuple[str, Any]:
    """The program of a model that is exported here: what became of that, and the program."""
    try:
        module, args, kwargs, dims = zoo.build(case["model"])
    except ModuleNotFoundError as error:
        return f"needs {error.name}", None
    module = module.to(case["export_on"])
    args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor.to(case["export_on"]), (args, kwargs))
    program = capture((module, args, kwargs, dims))
    if program.failure is not None or program.exported is None:
        said = program.failure.message.strip().splitlines() if program.failure is not None else [""]
        return f"refused by torch.export on {case['export_on']}: {said[0][:300]}", None
    return "exported", program.exported


def _file(case: Row, folder: str) -> tuple[str, Any]:
    """The same for a model that another interpreter exports into a file."""
    path = f"{folder}/model.pt2"
    command = [*case["export_with"].split(), str(EXPORT), case["model"], path, case["export_on"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return f"died while exporting: {(done.stderr.strip().splitlines() or ['no output'])[-1][:300]}", None
    return json.loads(lines[-1])["state"], path


def _kept(case: Row) -> Path | None:
    """The file of a model that was exported before, after its library brought the ops of its own that are in it."""
    path = Path(case["programs"]) / f"{case['model']}.pt2"
    if not case["programs"] or not path.exists():
        return None
    with contextlib.suppress(ModuleNotFoundError):
        zoo.build(case["model"])
    return path


def _exported(case: Row, folder: str) -> tuple[str, Any]:
    kept = _kept(case)
    if kept is not None:
        return "exported", kept
    return _file(case, folder) if case["export_with"] else _live(case)


def _compiled(case: Row, folder: str) -> Row:
    state, source = _exported(case, folder)
    if source is None or state != "exported":
        return {"model": case["model"], "state": state}
    if case["plan_only"]:
        return _planned(case, source)
    if case["backend"] == "reference-cuda":
        import benchmarks.reference_elsewhere  # noqa: F401  # adds the backend
    options = CompileOptions(
        target=case["target"],
        backend=case["backend"],
        precision=Precision(case["precision"]),
        force=case["force"],
        optimization_level=case["level"],
        workspace_mib=case["workspace_mib"],
    )
    # Looking inside an engine builds others, which takes longer than all that is compared here.
    engine_search.MOST_BUILDS = case["search_builds"]
    if case["points"]:
        every = run.points_of
        run.points_of = lambda *args: [point for point in every(*args) if point.label in case["points"].split(",")]
    limits = VerifyLimits(seconds=case["point_s"], elements=int(case["elements"]), total_s=0)
    # A model that is killed for its time says in which stage it was.
    stage = partial(print, "in", file=sys.stderr, flush=True)
    found = compile_in_stages(source, options, limits=limits, progress=stage)
    program = found.report.analysis.program
    return _row(case["model"], found, program, case["torch_gib"] if case["backend"].startswith("reference") else 0)


def main() -> None:
    """Runs the case that the command line describes."""
    case: Row = json.loads(sys.argv[1])
    row: Row = {"model": case["model"]}
    warnings.simplefilter("ignore")
    faulthandler.enable()  # a library that ends the process says where
    torch.set_num_threads(1)
    # PyTorch in float32 is what engines are compared with; TF32 keeps 10 bits of its 23.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
        try:
            row = _compiled(case, folder)
        except torch.OutOfMemoryError as error:
            row["state"] = f"out of memory: {error}"[:600]
        except TrtdiagError as error:
            row["state"] = f"{type(error).__name__}: {error.message}: {error.because}"[:1500]
        except Exception as error:  # a crash is a row of the table, too
            row["state"] = f"crash {type(error).__name__}: {error}"[:1500]
            row["traceback"] = traceback.format_exc()[-4000:]
    # What is freed at the end may end the process, too: the row is out before.
    print(json.dumps(row), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    main()
