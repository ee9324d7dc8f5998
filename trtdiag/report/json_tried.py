"""What the real builder said of planned engines, as JSON."""

from __future__ import annotations

from math import isfinite

from trtdiag.analysis.tried_builds import Refusal, TriedBuilds
from trtdiag.report.json_parts import Json, strings


def tried_builds_json(tried: TriedBuilds | None) -> Json:
    """Each engine with what became of it; ``null`` where no builder was asked.  Seconds are in ``timings``."""
    if tried is None:
        return None
    return {
        "builder": tried.builder,
        "target": tried.target,
        "gpus": strings(tried.gpus),
        "remedied": tried.remedied,
        "remedies": strings(tried.remedies),
        "limit_s": tried.limit_s if isfinite(tried.limit_s) else None,
        "unsearched": tried.unsearched,
        "engines": [
            {
                "index": engine.index,
                "layers": engine.layers,
                "gpus": strings(engine.gpus),
                "bytes": engine.engine_bytes,
                "warnings": strings(engine.warnings),
                "refusal": None if engine.refusal is None else _refusal_json(engine.refusal),
                "untried": strings(engine.untried),
            }
            for engine in tried.engines
        ],
    }


def _refusal_json(refusal: Refusal) -> Json:
    return {
        "gpus": strings(refusal.gpus),
        "message": refusal.message,
        "because": refusal.because,
        "fix": refusal.fix,
        "node": refusal.node,
    }
