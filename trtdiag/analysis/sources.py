"""Where what findings say was read: source lines, and the statements of targets."""

from __future__ import annotations

from trtdiag.analysis.finding import Evidence
from trtdiag.graph.source import Frame
from trtdiag.targets.target import Target


def at_line(frame: Frame | None) -> str:
    """`` at model.py:41``, ``, in timm/layers/pos_embed.py:9`` where that line leads to a library's, or nothing."""
    if frame is None:
        return ""
    return f" at {frame}" if frame.inside is None else f" at {frame}, in {frame.inside.short}"


def line_evidence(frame: Frame | None) -> list[Evidence]:
    """The line as it stands in the file; nothing where it is not known."""
    return [] if frame is None else [Evidence(frame.code or f"in {frame.function}", str(frame))]


def stated_by(target: Target, statement: str) -> str:
    """Where a target's statement (``max_volume``) was read; the version's name where no source is kept."""
    sources = (f"{kind} ({where})" for kind, where in target.sources if kind.partition(":")[0] == statement)
    return next(sources, target.name)
