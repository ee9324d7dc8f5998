"""An engine for each GPU generation as one text of bytes, of which a machine reads the one that it can run."""

from __future__ import annotations

import json
from collections.abc import Mapping

from trtdiag.errors import ArtifactError

_MAGIC = b"trtdiag-engines/1\n"
_LENGTH_BYTES = 8
_MOST_HEAD_BYTES = 4096
"""Own choice: some dozens of generations; what is longer is no head."""


def packed(engines: Mapping[str, bytes]) -> bytes:
    """Engines by generation: a head that says where each begins and ends, and their bytes."""
    places, begin = {}, 0
    for gpu, blob in engines.items():
        places[gpu] = [begin, begin + len(blob)]
        begin += len(blob)
    head = json.dumps(places).encode("ascii")
    return b"".join((_MAGIC, len(head).to_bytes(_LENGTH_BYTES, "little"), head, *engines.values()))


def unpacked(blob: bytes | memoryview) -> dict[str, memoryview] | None:
    """The engines of ``packed`` by generation, not copied; ``None`` for the bytes of one engine.

    Raises:
        ArtifactError: ``engine-damaged``.
    """
    view = memoryview(blob)
    if bytes(view[: len(_MAGIC)]) != _MAGIC:
        return None
    at = len(_MAGIC) + _LENGTH_BYTES
    length = int.from_bytes(view[len(_MAGIC) : at], "little")
    if length > _MOST_HEAD_BYTES:
        raise _damaged(f"their head has {length} bytes")
    rest = view[at + length :]
    try:
        places = json.loads(bytes(view[at : at + length]))
        found = {str(gpu): (int(begin), int(end)) for gpu, (begin, end) in places.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(str(error)) from error
    if not all(0 <= begin <= end <= len(rest) for begin, end in found.values()):
        raise _damaged("an engine is not whole")
    return {gpu: rest[begin:end] for gpu, (begin, end) in found.items()}


def _damaged(why: str) -> ArtifactError:
    return ArtifactError(
        "the engines for several GPU generations cannot be read",
        because=why,
        fix="compile the program again",
        reference="engine-damaged",
    )
