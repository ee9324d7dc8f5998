"""Bytes compressed by xz, which finds what repeats megabytes apart, or where Python came without it by zlib."""

from __future__ import annotations

import zlib

_XZ = b"\xfd7zXZ\x00"
_MOST_MEMORY = 1 << 28
"""Own choice: four times what reading takes of what is written here; a file could ask for gigabytes."""


class PackedError(ValueError):
    """Bytes that cannot be unpacked."""


def packed(content: bytes | bytearray) -> bytes:
    """The bytes compressed."""
    try:
        import lzma
    except ImportError:  # Python was built without the library
        return zlib.compress(content, 9)
    return lzma.compress(content)


def is_xz(content: bytes) -> bool:
    """Whether compressed bytes are those of xz."""
    return content.startswith(_XZ)


def unpacked(content: bytes, most: int) -> bytes:
    """What was compressed.

    Args:
        content: As ``packed`` gives it.
        most: How many bytes it may become.

    Raises:
        PackedError: It is damaged, cut off, or becomes more.
    """
    try:
        found, whole = _of_xz(content, most) if is_xz(content) else _of_zlib(content, most)
    except ImportError as error:
        raise PackedError(f"it is compressed by xz, which this Python came without: {error}") from error
    except zlib.error as error:
        raise PackedError(str(error)) from error
    if not whole:
        raise PackedError("it is cut off, or becomes far longer than anything of its kind")
    return found


def _of_xz(content: bytes, most: int) -> tuple[bytes, bool]:
    import lzma

    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    try:
        found = reader.decompress(content, most)
        # The end comes behind the last byte, and may still be waited for.
        more = b"" if reader.eof else reader.decompress(b"", 1)
    except (lzma.LZMAError, EOFError) as error:
        raise PackedError(str(error)) from error
    return found, reader.eof and not more


def _of_zlib(content: bytes, most: int) -> tuple[bytes, bool]:
    reader = zlib.decompressobj()
    found = reader.decompress(content, most)
    if not reader.eof and len(found) == most:
        found += reader.decompress(reader.unconsumed_tail, 1)
    return found, reader.eof and len(found) <= most
