"""A compiled program beside the one that was diagnosed, and what there is to say of its engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from trtdiag.analysis.compilation import EngineFacts, engine_facts
from trtdiag.analysis.result import Analysis
from trtdiag.engine.backend import BUILDERS, get_backend
from trtdiag.engine.isolated_builds import isolated_builds
from trtdiag.engine.reference import borrowed_weights
from trtdiag.engine.tensorrt.engine_per_gpu import unpacked
from trtdiag.errors import DimsError
from trtdiag.frontend.program import Program
from trtdiag.options import CompileOptions, Progress
from trtdiag.pipeline.build import by_reference
from trtdiag.pipeline.state import State
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.engine_layers import told_layers
from trtdiag.runtime.engine_nodes import EngineNode
from trtdiag.runtime.replace_engines import EngineRuns
from trtdiag.shapes.memory import live_bytes
from trtdiag.shapes.opt_sizes import EngineSizes
from trtdiag.shapes.size_profiles import SizeProfile, size_profiles
from trtdiag.symbolic import mul
from trtdiag.symbolic.expr import Expr
from trtdiag.verification.bisect import first_difference
from trtdiag.verification.facts import Culprit, Point, Tolerance, Verification
from trtdiag.verification.limits import VerifyLimits, usual_total_s
from trtdiag.verification.points import elements_of, input_ranges
from trtdiag.verification.run import Comparison
from trtdiag.verification.sides import beside, inputs_of
from trtdiag.verification.ties import judged_ties
from trtdiag.verification.undefined_writes import undefined_outputs


def compared(
    state: State,
    options: CompileOptions,
    limits: VerifyLimits | None,
    cannot_run: str,
    progress: Progress,
    *,
    made_s: float = 0.0,
) -> Verification:
    """Compare a compiled program with the one that was diagnosed, at the corners of its ranges.

    Args:
        state: It has a compiled program; without a plan the op at which a difference begins is not looked for.  Where
            other engines of it were compared before, it is compared at least where they were.
        options: What it was compiled with.
        limits: What it may cost; the time of ``options`` for all points where not given.
        cannot_run: Why its engines cannot run here: the reference functions run their networks in their place then.
        progress: Called before each set of sizes.
        made_s: What the export and the build took, in seconds: as long it takes at most where nothing else is asked.
    """
    facts, plan, before = state.analysis, state.planned, state.verification
    run = by_reference(state) if cannot_run else state.compiled
    nodes = state.engine_nodes(run)[0]
    engines = EngineRuns(nodes, options)
    names = {node.manifest.backend for node in nodes}
    backend = get_backend(next((name for name in BUILDERS if name in names), "reference"))

    questions: dict[str, Any] = {}
    if plan is not None:

        def locate(point: Point, flat: Sequence[Any], tolerance: Tolerance) -> Culprit | None:
            inputs = inputs_of(facts.program, flat)
            return first_difference(
                plan.lowered, state.converted, engines.run, point, inputs, tolerance, build=engines.build
            )

        def asked(question: Callable[..., Any]) -> Callable[..., Any]:
            return lambda flat, *rest: question(plan.lowered, inputs_of(facts.program, flat), *rest)

        questions = {"locate": locate, "undefined": asked(undefined_outputs), "ties": asked(judged_ties)}
    limits = limits or VerifyLimits(total_s=options.verify_limit_s)
    if limits.total_s is None:
        limits = replace(limits, total_s=usual_total_s(made_s))
    program = facts.program
    parts = _profiles(program, options) if options.profiles else ()
    volumes = _computed(facts)
    borrowed = borrowed_weights(one.network for one in state.converted)
    with isolated_builds(backend, options) as engines.builder, borrowed as borrowing:
        found = Comparison(
            beside(facts.program, run),
            run,
            facts.dims.given(),
            precision=options.precision,
            limits=limits,
            elements=elements_of(volumes) if volumes else None,
            live=partial(_live_bytes, facts),
            progress=progress,
            boxes=[(each.name, each.box, each.opt) for each in parts],
            again=[*_tuned(state), *_compared(before)],
            **questions,
        ).run()
    if borrowing.runners:
        CACHE.drop(borrowing.runners)
        run.load_anew()
    if not cannot_run:
        return found
    note = f"no engine was run ({cannot_run}): the reference functions ran their networks in their place"
    return replace(found, notes=(note, *found.notes))


def _profiles(program: Program, options: CompileOptions) -> Sequence[SizeProfile]:
    try:
        return size_profiles(program, EngineSizes(program).box, options.profiles, options.opt)
    except DimsError as error:
        if error.reference != "unknown-dim":
            raise
        raise DimsError(
            "the original has other names of dims than the profiles of the program were compiled with",
            because=f"{error.message}; {error.because}",
            fix="name what was compiled, such as --model package.module:factory: a file has lost the names of its Dims",
            reference="profiles-of-other-names",
        ) from error


def _computed(facts: Analysis) -> list[Expr]:
    """The volume of each tensor that the program computes; weights are there anyway."""
    exported = facts.program.exported
    if facts.shapes is None or exported is None:
        return []
    given = {node.name for node in exported.graph.nodes if node.op != "call_function"}
    tensors = [each for name, found in facts.shapes.tensors.items() if name not in given for each in found]
    return [mul(1, *(dim.expr for dim in tensor.dims)) for tensor in tensors]


def _live_bytes(facts: Analysis, sizes: Mapping[str, int]) -> int | None:
    return None if facts.checked is None or facts.shapes is None else live_bytes(facts.checked, facts.shapes, sizes)


def _tuned(state: State) -> list[Point]:
    """The sizes that engines are tuned for, where code of AOTInductor may be for these alone."""
    if state.planned is None:
        return []
    names, opt = input_ranges(state.program), state.planned.sizes.opt
    return [Point("tuned for", {name: opt[name] for name in names})] if names and names.keys() <= opt.keys() else []


def _compared(before: Verification | None) -> list[Point]:
    return [] if before is None else [result.point for result in before.results if not result.skipped]


def engines_of(state: State, *, timed: bool) -> tuple[EngineFacts, ...]:
    """The facts of the engines of a compiled program: its own, compiled PyTorch, those of an earlier compilation.

    Args:
        state: It has a compiled program.
        timed: Whether to run each engine some times, which tells the time of each layer.
    """
    nodes, earlier = state.engine_nodes()
    converted = state.converted or (None,) * len(nodes)
    saved = [engine.saved for engine in state.engines] or [None] * len(nodes)
    own = (
        replace(
            engine_facts(node.manifest, node.engine.numel(), one, told_layers(node, one, timed=timed), saved=kept),
            gpu_bytes=_gpu_bytes(node),
        )
        for node, one, kept in zip(nodes, converted, saved, strict=True)
    )
    others = (*(state.pytorch_segment_calls() if state.pytorch_segments else ()), *earlier)
    return (*own, *(engine_facts(node.manifest, node.engine.numel()) for node in others))


def _gpu_bytes(node: EngineNode) -> dict[str, int]:
    """The bytes for each GPU generation of an engine that holds one for each; empty for others."""
    if not node.manifest.compatibility.gpus:
        return {}
    return {gpu: len(blob) for gpu, blob in (unpacked(node.engine.cpu().numpy().data) or {}).items()}
