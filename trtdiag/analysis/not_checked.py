"""What no analysis alone checks, in the words of the report."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.tried_builds import TriedBuilds

NO_ENGINE_BUILT = "engines: what goes into them is planned, none was built"
ENGINES_TRIED = "engines: those planned were built to see whether they can be, none was kept or run"
NOTHING_RUN = "numerics: nothing was run on data"


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
