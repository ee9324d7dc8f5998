"""How findings say quantities: bytes, counts, lists, identifiers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trtdiag.graph.source import Frame
from trtdiag.targets.target import Target


def counted(count: int, noun: str) -> str:
    """``1 node``, ``3 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(items: Sequence[str], most: int = 5) -> str:
    """The first ``most`` items, and how many more there are."""
    shown = ", ".join(items[:most])
    return f"{shown} and {len(items) - most:,} more" if len(items) > most else shown


def shortened(text: str, most: int = 120) -> str:
    """The text for a headline: cut in the middle where it is long; the evidence holds the whole."""
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def sized(byte_count: int) -> str:
    """Bytes in the unit in which they read best: ``512 bytes``, ``3.2 MiB``, ``17.0 GiB``."""
    if byte_count < 1024:
        return f"{byte_count} bytes"
    amount = float(byte_count)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:,.1f} TiB"


def identifier(name: str) -> str:
    """A Python identifier for a user's name of a dim (``x.shape[2]`` -> ``x_shape_2``)."""
    word = re.sub(r"\W+", "_", name).strip("_")
    return word if word.isidentifier() else f"dim_{word}"


def at_line(frame: Frame | None) -> str:
    """`` at model.py:41``, ``, in timm/layers/pos_embed.py:9`` where that line leads to a library's, or nothing."""
    if frame is None:
        return ""
    return f" at {frame}" if frame.inside is None else f" at {frame}, in {frame.inside.short}"


def stated_by(target: Target, statement: str) -> str:
    """Where a target's statement (``max_volume``) was read; the version's name where no source is kept."""
    sources = (f"{kind} ({where})" for kind, where in target.sources if kind.partition(":")[0] == statement)
    return next(sources, target.name)
