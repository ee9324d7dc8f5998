"""Files as memory: what is seen of a file that is changed, cut or replaced meanwhile, and when it goes."""

from __future__ import annotations

import gc
import os
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trtdiag.files import memory_map
from trtdiag.files.memory_map import FileChangedError, MappedFile, file_at, map_file, scratch_file

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a file that is mapped cannot be replaced on Windows")
CONTENT = bytes(range(256)) * 77


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "file"
    place.write_bytes(CONTENT)
    os.utime(place, ns=(1, 1))  # whatever writes to it from now on gives it another time
    return place


def opened(path: Path) -> MappedFile:
    with path.open("rb") as file:
        found = map_file(file.fileno(), str(path))
    assert found is not None
    return found


def test_what_is_written_to_the_memory_stays_there(path: Path) -> None:
    file = opened(path)
    file[5] = 99
    assert path.read_bytes() == CONTENT
    assert not file.changed
    assert b"".join(file.pieces(0, len(CONTENT))) == CONTENT  # the file's, beside the memory
    file.drop()
    assert file[:] == CONTENT


def _cut(path: Path) -> None:
    os.truncate(path, 100)


def _written(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"x")


def _replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"x")
    other.rename(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_cut, "it had 19,712 bytes when it was opened, and has 100 now"),
        (_written, "it was written to after it was opened"),
        (_replaced, ""),
        (os.unlink, ""),
    ],
)
def test_what_becomes_of_the_file(path: Path, change: Callable[[Path], None], told: str) -> None:
    file = opened(path)
    change(path)
    assert file.changed == told
    if change is _cut:
        with pytest.raises(FileChangedError, match="100 now"):
            list(file.pieces(0, len(CONTENT)))
    elif not told:
        assert b"".join(file.pieces(7, 300)) == CONTENT[7:307] == file[7:307]


def test_it_is_found_by_its_memory_and_goes_with_its_last_user(path: Path) -> None:
    gc.collect(1)  # what the tests just before have left
    file = opened(path)
    seen, gone = np.frombuffer(file, np.uint8)[8:], weakref.ref(file)
    address = int(seen.__array_interface__["data"][0])
    assert file_at(address) == (file, 8)
    descriptors = len(os.listdir("/dev/fd"))
    del file
    assert gone() is not None
    del seen
    gc.collect(0)  # both are new
    assert gone() is None
    assert file_at(address) is None
    assert len(os.listdir("/dev/fd")) == descriptors - 2  # Python's map has one of its own


def test_an_empty_file_is_not_mapped(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open("rb") as file:
        assert map_file(file.fileno(), "empty") is None


def test_a_scratch_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = scratch_file((CONTENT, b"end"), len(CONTENT) + 3)
    assert made is not None
    assert made[:] == CONTENT + b"end"
    assert list(tmp_path.iterdir()) == []


def test_there_is_none_where_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert scratch_file((CONTENT,), 1 << 60) is None
    monkeypatch.setattr(memory_map, "map_file", lambda *_: None)
    assert scratch_file((CONTENT,), len(CONTENT)) is None
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert scratch_file((CONTENT,), len(CONTENT)) is None
