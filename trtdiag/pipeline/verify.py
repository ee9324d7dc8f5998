"""``verify``: a saved program against the model that it was compiled from."""

from __future__ import annotations

import os
from dataclasses import replace

from trtdiag.analysis.compilation import CompilationFacts
from trtdiag.analysis.not_checked import after_compiling
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.arguments import checked, function, instance, optional, path_or
from trtdiag.artifact.load import load
from trtdiag.engine.backend import get_backend
from trtdiag.errors import InternalError, TrtdiagError, UserError
from trtdiag.frontend.capture import Source
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.network import canonical_hash
from trtdiag.options import CompileOptions, Progress
from trtdiag.pipeline.accuracy_repair import as_built
from trtdiag.pipeline.analyze import diagnosis_options, examine
from trtdiag.pipeline.compare import compared, engines_of
from trtdiag.pipeline.plan_engines import convert_segments, planned
from trtdiag.pipeline.quantize import AS_QUANTIZED, again
from trtdiag.pipeline.stages import Clock
from trtdiag.pipeline.state import State
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.targets import Target, get_target
from trtdiag.verification.facts import Verification
from trtdiag.verification.limits import VerifyLimits

_NAME_IT = "name the original: verify(compiled, against=model), or trtdiag verify compiled.pt2 --model model.pt2"

_ANOTHER = (
    "the original is not what was compiled: it gives other networks than the engines were built from, as after another "
    "training or export; compile it again, or name the one that was compiled with --model"
)
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
        limits: What a set of sizes, and all together, may cost; one beyond is skipped.  As long as reading the original
            and the build took, at least 30 s, where no time is given: ``VerifyLimits(total_s=0)`` compares all.
        progress: Called with the name of each stage as it begins.

    Raises:
        ArtifactError: The file is damaged, foreign, or its engines cannot run here.
        UserError: ``wrong-argument``; ``verify-without-original``: it is not known what to compare with.
    """
    return verify_saved(compiled, against, limits=limits, progress=progress).verified


def verify_saved(
    path: str | os.PathLike[str] | CompiledProgram,
    against: Source | None = None,
    *,
    progress: Progress | None = None,
    limits: VerifyLimits | None = None,
) -> State:
    """``verify`` with everything that was found on the way; takes and raises the same."""
    clock = Clock(progress)
    clock.progress("load")
    compiled = path if isinstance(path, CompiledProgram) else load(path, to_run=False)
    original = original_of(compiled, against)
    options = compiled.options or CompileOptions()
    versions = {manifest.target for manifest in compiled.manifests}
    target = get_target(next(iter(versions), options.target))
    # Why its engines cannot run here although their backend is here; empty where they can.
    reasons = (get_backend(each.backend).cannot_run(each.compatibility.gpus) for each in compiled.manifests)
    cannot_run = next(filter(None, reasons), "")
    prepared = None if compiled.quantizers is None else again(compiled.quantizers)
    analysis = examine(original, diagnosis_options(options, target), clock, prepared=prepared)
    state = State(analysis, assembled=compiled)
    clock.progress("verify")
    with TORCH_TURN:
        state = _planned(state, options, get_target(state.analysis.target).on(options.gpu))
    if cannot_run and state.planned is None:
        raise UserError(
            "the engines cannot be compared here",
            because=f"{cannot_run}, and the original gives other networks than they were built from",
            fix="verify on a machine with such a GPU, or compare with the original that was compiled",
            reference="verify-elsewhere",
        )
    made_s = clock.seconds("capture") + (compiled.build_s or 0.0)
    found = compared(state, options, limits or VerifyLimits(), cannot_run, clock.progress, made_s=made_s)
    if found.differs and state.planned is None:
        found = replace(found, notes=(_ANOTHER, *found.notes))
    if compiled.quantizers is not None:
        found = replace(found, notes=(AS_QUANTIZED, *found.notes))
    clock.stages.append(StageTiming("verify", "ok", found.seconds))
    facts = CompilationFacts(engines_of(state, timed=False), found)
    return replace(state, verification=found, analysis=after_compiling(state.analysis, facts, clock.stages))


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
    if source is not None and os.path.exists(source):
        return source
    known = source is not None
    unknown = "the program names no file: it was compiled without one, or was given other weights since"
    raise UserError(
        "the original is not there" if known else "it is not known what to compare with",
        because=f"it was compiled from {source}" if known else unknown,
        fix=fix,
        reference="verify-without-original",
    )


def _planned(state: State, options: CompileOptions, target: Target) -> State:
    """The state with the plan of the original, where that gives the networks that the engines were built from."""
    if state.analysis.checked is None:
        return state
    try:
        plan, converted = convert_segments(planned(state.analysis, options, target))
    except InternalError:
        raise
    except TrtdiagError:
        return state  # the original is another program, which does not come apart like this one
    again = replace(state, planned=plan, converted=converted)
    manifests = [node.manifest for node in again.engine_nodes()[0]]
    if len(converted) == len(manifests):  # some may have been mended
        pairs = zip(converted, manifests, strict=True)
        again = replace(again, converted=tuple(replace(one, network=as_built(one.network, its)) for one, its in pairs))
    ours = [canonical_hash(one.network) for one in again.converted]
    return again if ours == [manifest.network_hash for manifest in manifests] else state
