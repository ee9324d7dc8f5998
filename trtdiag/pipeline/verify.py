"""``verify``: a saved program against the model that it was compiled from."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from trtdiag.analysis.after_compiling import after_compiling
from trtdiag.analysis.compilation import CompilationFacts, engine_facts
from trtdiag.analysis.result import StageTiming
from trtdiag.arguments import checked, function, instance, optional, path_or
from trtdiag.artifact.load import load
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.backend import get_backend
from trtdiag.errors import InternalError, TrtdiagError, UserError
from trtdiag.frontend.capture import Source
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.network import canonical_hash
from trtdiag.options import CompileOptions
from trtdiag.partition.engine_plan import EnginePlan
from trtdiag.pipeline.accuracy_repair import as_built
from trtdiag.pipeline.analyze import Progress, examine
from trtdiag.pipeline.compile import compare, diagnosis_options
from trtdiag.pipeline.plan_engines import convert_segments, plan_engines
from trtdiag.report.report import Report
from trtdiag.runtime.assemble import engine_buffers
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_layers import told_layers
from trtdiag.runtime.engine_nodes import EngineNode, engine_nodes, split_nodes
from trtdiag.runtime.engine_runs import EngineRuns
from trtdiag.targets.versions import get_target
from trtdiag.verification.by_reference import by_reference, told_not_run
from trtdiag.verification.facts import Verification
from trtdiag.verification.run import VerifyLimits

_NAME_IT = "name the original: verify(compiled, against=model), or trtdiag verify compiled.ep --model model.ep"


@dataclass(frozen=True)
class Verified:
    """A comparison, and what it was made with.

    Attributes:
        verification: The comparison.
        report: What the diagnosis of the original found, and the comparison.
        compiled: The compiled program.
    """

    verification: Verification
    report: Report
    compiled: CompiledProgram


_HOW_LIMITS = "give trtdiag.VerifyLimits(seconds=30)"


@checked(
    compiled=path_or(CompiledProgram),
    limits=optional(instance(VerifyLimits, how=_HOW_LIMITS)),
    progress=optional(function),
)
def verify(
    compiled: str | os.PathLike[str] | CompiledProgram,
    against: Source | None = None,
    *,
    limits: VerifyLimits | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compare a compiled program with its original at the example, the corners of all ranges, and in between.

    Args:
        compiled: A file that ``save`` wrote, or the program itself.
        against: The original, as for ``analyze``; the file that it was compiled from where it is not given.
        limits: What a point may cost; one beyond is skipped.
        progress: Called with the name of each stage as it begins.

    Raises:
        ArtifactError: The file is damaged, foreign, or its engines cannot run here.
        UserError: ``wrong-argument``; ``verify-without-original``: it is not known what to compare with.
    """
    return verify_saved(compiled, against, limits=limits, progress=progress).verification


def verify_saved(
    path: str | os.PathLike[str] | CompiledProgram,
    against: Source | None = None,
    *,
    progress: Progress | None = None,
    limits: VerifyLimits | None = None,
) -> Verified:
    """``verify`` with everything that was found on the way; takes and raises the same."""
    step = progress or (lambda _stage: None)
    step("load")
    compiled = path if isinstance(path, CompiledProgram) else load(path, to_run=False)
    original = original_of(compiled, against)
    options = compiled.options or CompileOptions()
    versions = {manifest.target for manifest in compiled.manifests}
    target = get_target(next(iter(versions), options.target))
    cannot_run = _cannot_run(compiled)
    report = examine(original, diagnosis_options(options, target), progress=step)
    step("verify")
    with TORCH_TURN:
        planned = _planned(compiled, report, options)
    plan, networks, (nodes, earlier) = planned or (None, (), (engine_nodes(compiled.exported_program), ()))
    run, runs = compiled, EngineRuns(nodes, options) if planned else None
    if cannot_run:
        if plan is None:
            raise _not_comparable(cannot_run)
        run = by_reference(plan, networks, report.analysis.program)
        runs = EngineRuns(split_nodes(run.exported_program, engine_buffers(plan.lowered, len(nodes)))[0], options)
    found = told_not_run(compare(report, plan, networks, run, options, limits, engines=runs, progress=step), cannot_run)
    converted = networks if planned else (None,) * len(nodes)
    told = told_layers(nodes, [None if one is None else one.network for one in converted], timed=False)
    engines = [
        engine_facts(node.manifest, node.engine.numel(), one, layers)
        for node, one, layers in zip(nodes, converted, told, strict=True)
    ] + [engine_facts(node.manifest, node.engine.numel()) for node in earlier]
    stages = (StageTiming("verify", "ok", found.seconds),)
    analysis = after_compiling(report.analysis, CompilationFacts(tuple(engines), found), stages)
    return Verified(found, replace(report, analysis=analysis), compiled)


def original_of(compiled: CompiledProgram, against: Source | None, fix: str = _NAME_IT) -> Source:
    """Return what a compiled program is to be compared with: what is given, else the file that it was compiled from.

    Args:
        compiled: The program.
        against: What was given.
        fix: How to give it.

    Raises:
        UserError: ``verify-without-original``: it is not known, or not there.
    """
    if against is not None:
        return against
    source: str | None = compiled.source
    if source is None:
        raise UserError(
            "it is not known what to compare with",
            because="the program was not compiled from a file",
            fix=fix,
            reference="verify-without-original",
        )
    if not os.path.exists(source):
        raise UserError(
            "the original is not there",
            because=f"it was compiled from {source}",
            fix=fix,
            reference="verify-without-original",
        )
    return source


def _cannot_run(compiled: CompiledProgram) -> str:
    """Why its engines cannot run here although their backend is here; empty where they can."""
    for manifest in compiled.manifests:
        why = get_backend(manifest.backend).cannot_run(manifest.compatibility.gpus)
        if why:
            return why
    return ""


def _not_comparable(why: str) -> UserError:
    return UserError(
        "the engines cannot be compared here",
        because=f"{why}, and the original gives other networks than they were built from",
        fix="verify on a machine with such a GPU, or compare with the original that was compiled",
        reference="verify-elsewhere",
    )


def _planned(
    compiled: CompiledProgram, report: Report, options: CompileOptions
) -> tuple[EnginePlan, tuple[ConvertedSegment, ...], tuple[tuple[EngineNode, ...], tuple[EngineNode, ...]]] | None:
    """The original planned again, where that gives the networks that the engines were built from; their calls, too."""
    analysis = report.analysis
    if analysis.checked is None:
        return None
    target = get_target(analysis.target).on(options.gpu)
    try:
        plan = plan_engines(analysis.program, analysis.checked, analysis.dims, target, options)
        plan, converted = convert_segments(plan, analysis.program)
    except InternalError:
        raise
    except TrtdiagError:
        return None  # the original is another program, which does not come apart like this one
    nodes = split_nodes(compiled.exported_program, engine_buffers(plan.lowered, len(converted)))
    manifests = [node.manifest for node in nodes[0]]
    if len(converted) == len(manifests):  # some may have been mended
        pairs = zip(converted, manifests, strict=True)
        converted = tuple(replace(one, network=as_built(one.network, manifest)) for one, manifest in pairs)
    ours = [canonical_hash(one.network) for one in converted]
    return (plan, converted, nodes) if ours == [manifest.network_hash for manifest in manifests] else None
