"""Bytes are compressed so that nothing is lost, and nothing larger comes out than may."""

from __future__ import annotations

import lzma
import random
import sys
import zlib

import pytest

from trtdiag.files import packed_bytes
from trtdiag.files.packed_bytes import PackedError, is_xz, packed, unpacked

TEXTS = [b"", b"a", random.Random(3).randbytes(10_007), b"layer " * 5000]


@pytest.mark.parametrize("content", TEXTS)
def test_nothing_is_lost(content: bytes) -> None:
    for made in (packed(content), zlib.compress(content)):
        assert unpacked(made, len(content)) == content
        assert unpacked(made, len(content) + 1) == content
        if content:
            with pytest.raises(PackedError, match="becomes far longer"):
                unpacked(made, len(content) - 1)


def test_what_repeats_far_apart_is_found() -> None:
    """Code of kernels does so in engines; zlib looks back 32 KiB."""
    once = random.Random(5).randbytes(1 << 17)
    assert len(packed(once * 4)) < 1.01 * len(once) < len(zlib.compress(once * 4)) / 3.9


@pytest.mark.parametrize("make", [lzma.compress, zlib.compress])
def test_damage_is_told(make: type) -> None:
    made = bytes(make(TEXTS[2]))
    for damaged in (made[:-1], made[: len(made) // 2], made[:30] + b"??" + made[32:], b"", b"no such bytes"):
        with pytest.raises(PackedError):
            unpacked(damaged, 1 << 20)


def test_memory_of_reading_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file says how much it takes; what is written here takes 9 MiB."""
    made = packed(TEXTS[3])
    monkeypatch.setattr(packed_bytes, "_MOST_MEMORY", 1 << 23)
    with pytest.raises(PackedError, match="Memory"):
        unpacked(made, 1 << 20)
    monkeypatch.setattr(packed_bytes, "_MOST_MEMORY", 10 << 20)
    assert unpacked(made, 1 << 20) == TEXTS[3]


def test_a_python_without_xz(monkeypatch: pytest.MonkeyPatch) -> None:
    made = packed(TEXTS[3])
    monkeypatch.setitem(sys.modules, "lzma", None)
    other = packed(TEXTS[3])
    assert (is_xz(made), is_xz(other)) == (True, False)
    assert unpacked(other, 1 << 20) == TEXTS[3]
    with pytest.raises(PackedError, match="came without"):
        unpacked(made, 1 << 20)
