"""What was not checked, in the words of the report: by an analysis alone, and after its program was compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trtdiag.analysis.compilation import CompilationFacts
from trtdiag.analysis.result import Analysis
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.analysis.tried_builds import TriedBuilds
from trtdiag.verification.limits import left_out_words
from trtdiag.wording import amount

NO_ENGINE_BUILT = "engines: what goes into them is planned, none was built"
ENGINES_TRIED = "engines: those planned were built to see whether they can be, none was kept or run"
NOTHING_RUN = "numerics: nothing was run on data"
NO_WEIGHTS = "what depends on the values of weights: they are on the meta device, which has none"


def engines_not_checked(tried: TriedBuilds | None) -> Iterator[str]:
    """What is open of the planned engines, where a builder was asked (``tried``) or not."""
    if tried is None:
        yield NO_ENGINE_BUILT
        return
    yield ENGINES_TRIED
    for engine in tried.engines:
        if engine.untried:
            yield f"engine {engine.index}: not built to the end for {', '.join(engine.untried)} (--build-limit)"
    if tried.unsearched:
        yield f"the op that is refused: {tried.unsearched}"


def after_compiling(analysis: Analysis, facts: CompilationFacts, stages: Sequence[StageTiming]) -> Analysis:
    """The analysis with what became of compiling; ``stages`` are all that were run, in order."""
    open_before = [text for text in analysis.not_checked if text not in (NO_ENGINE_BUILT, NOTHING_RUN)]
    return replace(
        analysis,
        compilation=facts,
        stages=tuple(stages),
        not_checked=(*_still_open(facts, analysis.program.words), *open_before),
    )


def _still_open(facts: CompilationFacts, names: Mapping[str, str]) -> Iterator[str]:
    if not facts.engines:
        yield "engines: none was built, since nothing goes into one"
    elif all(engine.manifest.tensorrt is None for engine in facts.engines):
        backends = ", ".join(sorted({engine.manifest.backend for engine in facts.engines}))
        yield f"TensorRT: the {backends} backend built the engines, no engine of TensorRT's was built"
    found = facts.verification
    if found is None or all(result.skipped for result in found.results):
        yield NOTHING_RUN
    if found is None:
        return
    late = left_out_words(found, names)
    if late:
        yield f"numerics at {late}"
    others = (result for result in found.results if result.skipped and result.point not in found.left_out)
    for why, times in Counter(result.skipped for result in others).items():
        yield f"numerics at {amount(times, 'set')} of sizes: {why}"
    yield from (f"numerics: {note}" for note in found.notes)
