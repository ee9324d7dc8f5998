"""Which engines this process built, or took from the engine cache that it was told to use."""

from __future__ import annotations

_DIGESTS: set[str] = set()


def note_built(engine_sha256: str) -> None:
    """Remember an engine by the digest of its bytes."""
    _DIGESTS.add(engine_sha256)


def built_here(engine_sha256: str) -> bool:
    """Whether this process made the engine: its code is then trusted as this process is."""
    return engine_sha256 in _DIGESTS
