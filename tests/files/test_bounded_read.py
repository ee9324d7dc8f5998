"""Reading files that a user named: whole, bounded, and never something that blocks or has no end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.whole_file_kinds import NOT_FILES, SPARSE_BYTES
from trtdiag.files.bounded_read import is_there, open_regular, read_whole, reason

SAID = {
    "pipe": "it is a named pipe",
    "endless": "it is a device",
    "directory": "it is a directory",
    "loop": "Too many levels of symbolic links",
    "socket": "it is a socket",
    "sparse": f"it has {SPARSE_BYTES:,} bytes; at most 1,000 are read",
}


@pytest.mark.parametrize("size", [0, 1, 997, 1000])
def test_a_file_is_read_to_its_end(size: int, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4
    (tmp_path / "file").write_bytes(content[:size])
    (tmp_path / "link").symlink_to("file")
    assert read_whole(tmp_path / "file", 1000) == read_whole(str(tmp_path / "link"), 1000) == content[:size]


def test_one_byte_more_is_too_many(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1001)
    with pytest.raises(OSError, match="it has 1,001 bytes; at most 1,000 are read"):
        read_whole(tmp_path / "file", 1000)


@pytest.mark.parametrize("kind", NOT_FILES)
def test_what_is_no_file_is_refused_by_what_it_is(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "odd"
    NOT_FILES[kind](place)
    with pytest.raises(OSError) as caught:  # noqa: PT011 -- what it says is asserted below
        read_whole(place, 1000)
    assert reason(caught.value).startswith(SAID[kind])


def test_a_file_that_says_it_is_empty_is_read_up_to_the_limit() -> None:
    there = Path("/proc/self/maps")  # Linux: its size is 0, its text is not
    if not there.is_file():
        pytest.skip("no /proc on this system")
    assert len(read_whole(there, 1 << 24)) > 100
    with pytest.raises(OSError, match="it has more bytes"):
        read_whole(there, 10)


def test_a_pipe_in_the_place_of_a_file_that_was_looked_at_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    seen = os.stat(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(os, "stat", lambda *_, **__: seen)
    with pytest.raises(OSError, match="named pipe"):
        open_regular(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["absent", "n" * 300, "nul\0", "half\ud800", "file/below"])
def test_names_that_lead_nowhere(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError) as caught:  # noqa: PT011 -- the words are the system's
        read_whole(tmp_path / name, 10)
    assert reason(caught.value)


def test_what_is_there(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert is_there(tmp_path)
    assert is_there(tmp_path / "pipe")
    assert not is_there(tmp_path / "absent")
    assert not is_there(tmp_path / "pipe" / "below")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        is_there(tmp_path / "loop")
