"""An analysis after its program was compiled: what was open before is answered, or stays open with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trtdiag.analysis.compilation import CompilationFacts
from trtdiag.analysis.not_checked import NO_ENGINE_BUILT, NOTHING_RUN
from trtdiag.analysis.result import Analysis
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.wording import amount


def after_compiling(analysis: Analysis, facts: CompilationFacts, stages: Sequence[StageTiming]) -> Analysis:
    """The analysis with what became of compiling; ``stages`` are all that were run, in order."""
    open_before = [text for text in analysis.not_checked if text not in (NO_ENGINE_BUILT, NOTHING_RUN)]
    return replace(
        analysis,
        compilation=facts,
        stages=tuple(stages),
        not_checked=(*_still_open(facts), *open_before),
    )


def _still_open(facts: CompilationFacts) -> Iterator[str]:
    if not facts.engines:
        yield "engines: none was built, since nothing goes into one"
    elif all(engine.manifest.tensorrt is None for engine in facts.engines):
        names = ", ".join(sorted({engine.manifest.backend for engine in facts.engines}))
        yield f"TensorRT: the {names} backend built the engines, no engine of TensorRT's was built"
    found = facts.verification
    if found is None or all(result.skipped for result in found.results):
        yield NOTHING_RUN
    if found is None:
        return
    for why, times in Counter(result.skipped for result in found.results if result.skipped).items():
        yield f"numerics at {amount(times, 'set')} of sizes: {why}"
    yield from (f"numerics: {note}" for note in found.notes)
