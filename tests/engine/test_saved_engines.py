"""The folder of engines: what is found again, what is not taken for it, and what goes when there is too much."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.logged import Logged
from trtdiag.engine.saved_engines import SavedEngines
from trtdiag.errors import UserError
from trtdiag.files.unfinished import make_unfinished

KIB = 2**10


def _folder(path: Path, limit_kib: int = 1000) -> SavedEngines:
    return SavedEngines(path, limit_kib * KIB)


def _age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.parametrize("size", [0, 1, 65_537])
def test_an_engine_is_found_by_what_was_said_of_it(size: int, tmp_path: Path) -> None:
    blob = os.urandom(size)
    saved = _folder(tmp_path)
    assert saved.find("this") is None
    assert saved.keep("this", blob)
    assert saved.find("this") == (blob, ())
    assert saved.find("that") is None
    assert len(list(tmp_path.iterdir())) == 1


def _cut(content: bytes) -> bytes:
    return content[:-1]


def _flipped(content: bytes) -> bytes:
    return content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]


def _longer(content: bytes) -> bytes:
    return content + b"\0"


def _headless(content: bytes) -> bytes:
    return content[:20]


def _huge_head(content: bytes) -> bytes:
    at = content.index(b"\n") + 1
    return content[:at] + b"\xff" * 8 + content[at + 8 :]


def _no_json(content: bytes) -> bytes:
    at = content.index(b"{")
    return content[:at] + b"[" + content[at + 1 :]


def _foreign(content: bytes) -> bytes:
    return b"PK\x03\x04" * 100


def _with_head(head: bytes) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        start = content[: content.index(b"\n") + 1]
        return start + len(head).to_bytes(8, "little") + head + b"engine" * 100

    return change


def _said(**changes: object) -> Callable[[bytes], bytes]:
    blob = b"engine" * 100
    said = {"about": "this", "sha256": hashlib.sha256(blob).hexdigest(), "bytes": len(blob), "notes": []}
    return _with_head(json.dumps(said | changes).encode())


def _beyond_the_end(content: bytes) -> bytes:
    """A head whose length leads past the end of the file, and says so of the engine behind it."""
    head = json.dumps({"about": "this", "sha256": "0" * 64, "bytes": -7, "notes": []}).encode()
    return content[: content.index(b"\n") + 1] + (len(head) + 7).to_bytes(8, "little") + head


DEEP = [_with_head(b"[" * 200_000), _with_head(b'{"about":' * 100_000)]
WRONG_TYPES = [
    _with_head(head) for head in (b"", b"null", b"3", b'"this"', b"[]", b"{}", b"\xff\xfe", b"9" * 100_000, b"NaN")
] + [
    _said(about=["this"]),
    _said(bytes=str(600)),
    _said(bytes=-1),
    _said(bytes=2**70),
    _said(bytes=None),
    _said(sha256=None),
    _said(sha256=["0"]),
    _said(notes=5),
    _said(notes={"a": 1}),
    _said(notes=[["deep"]]),
]


@pytest.mark.parametrize("change", [*DEEP, *WRONG_TYPES, _beyond_the_end])
def test_a_hostile_head_counts_as_none_and_is_replaced(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    saved = _folder(tmp_path)
    saved.keep("this", b"engine" * 100)
    path = saved._path("this")
    path.write_bytes(change(path.read_bytes()))
    assert saved.find("this") is None
    assert saved.keep("this", b"again", ("one",))
    assert saved.find("this") == (b"again", ("one",))


def _fifo(path: Path, _foreign: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path, _foreign: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # names of sockets are short
        made.bind(path.name[:60])
        os.rename(path.name[:60], path.name)


def _empty_folder(path: Path, _foreign: Path) -> None:
    path.mkdir()


def _full_folder(path: Path, _foreign: Path) -> None:
    path.mkdir()
    (path / "mine.txt").write_text("mine")


def _link_to_a_file(path: Path, foreign: Path) -> None:
    path.symlink_to(foreign / "mine.txt")


def _link_to_an_engine(path: Path, foreign: Path) -> None:
    other = _folder(foreign)
    other.keep("this", b"foreign engine")
    path.symlink_to(other._path("this"))


def _link_to_a_folder(path: Path, foreign: Path) -> None:
    path.symlink_to(foreign)


def _link_to_itself(path: Path, _foreign: Path) -> None:
    path.symlink_to(path)


def _link_to_nothing(path: Path, foreign: Path) -> None:
    path.symlink_to(foreign / "nothing")


def _link_to_a_device(path: Path, _foreign: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no FIFOs, and links only for administrators")
@pytest.mark.parametrize(
    "put",
    [
        _fifo,
        _socket,
        _empty_folder,
        _full_folder,
        _link_to_a_file,
        _link_to_an_engine,
        _link_to_a_folder,
        _link_to_itself,
        _link_to_nothing,
        _link_to_a_device,
    ],
)
def test_what_is_no_file_is_not_opened_and_gives_way(
    put: Callable[[Path, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "mine.txt").write_text("mine")
    saved = SavedEngines.at(str(tmp_path / "cache"), 1)
    put(saved._path("this"), foreign)
    there = {path: path.read_bytes() for path in foreign.iterdir()}
    for _ in range(2):  # cleaning meets it, too
        assert saved.keep("that", os.urandom(600 * KIB))
        assert saved.find("this") is None
    assert saved.keep("this", b"engine")
    assert saved.find("this") == (b"engine", ())
    assert not saved._path("this").is_symlink()
    assert {path: path.read_bytes() for path in foreign.iterdir()} == there
    if put is _full_folder:
        (moved,) = saved.folder.glob("*.moved")
        assert (moved / "mine.txt").read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32" or os.getuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read_is_replaced(tmp_path: Path) -> None:
    saved = _folder(tmp_path)
    saved.keep("this", b"engine")
    saved._path("this").chmod(0)
    assert saved.find("this") is None
    assert saved.keep("this", b"again")
    assert saved.find("this") == (b"again", ())


@pytest.mark.skipif(sys.platform != "linux", reason="sparse files and their limit of memory are Linux's")
def test_a_huge_file_takes_no_memory(tmp_path: Path) -> None:
    saved = _folder(tmp_path)
    saved.keep("this", b"engine")
    path = saved._path("this")
    content = path.read_bytes()
    head = json.loads(content[content.index(b"{") : content.index(b"}") + 1])
    for size in (2**40, 2**20):  # more than the folder may hold, and less
        said = json.dumps(head | {"bytes": size}).encode()
        with path.open("wb") as file:
            file.write(content[: content.index(b"\n") + 1] + len(said).to_bytes(8, "little") + said)
            file.truncate(file.tell() + size)
        tracemalloc.start()
        found = _folder(tmp_path, 2**10 + 10).find("this")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found is None
        assert most < 4 * 2**20


@pytest.mark.parametrize("change", [_cut, _flipped, _longer, _headless, _huge_head, _no_json, _foreign, lambda _: b""])
def test_a_damaged_or_foreign_file_counts_as_none_and_is_replaced(
    change: Callable[[bytes], bytes], tmp_path: Path, logged: Logged
) -> None:
    saved = _folder(tmp_path)
    saved.keep("this", b"engine" * 100)
    (path,) = tmp_path.iterdir()
    path.write_bytes(change(path.read_bytes()))
    with logged.at_level(logging.WARNING):
        assert saved.find("this") is None
    assert "damaged" in logged.text
    assert saved.keep("this", b"again")
    assert saved.find("this") == (b"again", ())


def test_what_is_told_of_an_engine_is_kept_with_it(tmp_path: Path) -> None:
    saved = _folder(tmp_path)
    saved.keep("this", b"one", ("a layer was let go",))
    saved.keep("that", b"two")
    wanted = {"this": (b"one", ("a layer was let go",)), "that": (b"two", ()), "none": None}
    assert {about: saved.find(about) for about in wanted} == wanted
    whole = saved._path("this").read_bytes()
    for change in (_cut, _headless, _huge_head, _no_json, _foreign, lambda _: b""):
        saved._path("this").write_bytes(change(whole))
        assert saved.find("this") is None


def test_an_engine_under_the_name_of_another_is_not_taken(tmp_path: Path) -> None:
    saved = _folder(tmp_path)
    saved.keep("this", b"one")
    (path,) = tmp_path.iterdir()
    saved.keep("that", b"other")
    (other,) = set(tmp_path.iterdir()) - {path}
    other.write_bytes(path.read_bytes())
    assert saved.find("that") is None
    assert saved.find("this") == (b"one", ())


def test_those_that_were_not_used_for_longest_go(tmp_path: Path) -> None:
    saved = _folder(tmp_path, 10)
    for name in ("a", "b", "c"):
        saved.keep(name, os.urandom(3 * KIB))
    paths = {name: saved._path(name) for name in "abcd"}
    for age, name in enumerate(("c", "b", "a")):
        _age(paths[name], 100 * (age + 1))
    assert saved.find("a")  # the oldest, used again
    assert saved.keep("d", os.urandom(3 * KIB))
    assert {name for name, path in paths.items() if path.exists()} == {"a", "c", "d"}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 10 * KIB


def test_an_engine_that_alone_is_too_large_is_not_kept(tmp_path: Path, logged: Logged) -> None:
    saved = _folder(tmp_path, 4)
    saved.keep("small", b"x")
    with logged.at_level(logging.WARNING):
        assert not saved.keep("large", os.urandom(4 * KIB))
    assert "not kept" in logged.text
    assert saved.find("large") is None
    assert saved.find("small") == (b"x", ())


def test_other_files_stay_and_what_a_killed_program_left_goes(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("my.engine", "film.part", "note.txt", ".hidden.part")]
    for path in kept:
        path.write_bytes(bytes(20 * KIB))
        _age(path, 1e7)
    left, closed = make_unfinished(tmp_path / f"{'0a' * 32}.engine", 0o600)
    os.close(closed)
    written, descriptor = make_unfinished(tmp_path / f"{'0b' * 32}.engine", 0o600)
    saved = _folder(tmp_path, 10)
    assert saved.keep("this", b"engine")
    assert saved.find("this") == (b"engine", ())
    assert all(path.exists() for path in (*kept, written))
    assert not left.exists()
    os.close(descriptor)


@pytest.mark.parametrize("place", ["file", "file/below", "\0"])
def test_a_folder_that_cannot_be_is_refused_at_once(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError) as caught:
        SavedEngines.at(str(tmp_path / place), 1)
    assert caught.value.reference == "engine-cache-folder"


def test_a_folder_is_made_and_may_be_below_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    saved = SavedEngines.at("~/a/b", 3)
    assert saved.folder == tmp_path / "a" / "b"
    assert saved.folder.is_dir()
    assert saved.limit_bytes == 3 * 2**20


def test_what_cannot_be_written_is_said_and_no_error(tmp_path: Path, logged: Logged) -> None:
    saved = _folder(tmp_path / "gone")
    with logged.at_level(logging.WARNING):
        assert not saved.keep("this", b"engine")
    assert "not kept" in logged.text


PROGRAM = """
import sys
from pathlib import Path
from trtdiag.engine.saved_engines import SavedEngines
saved, seen = SavedEngines(Path(sys.argv[1]), 40 * 1024), 0
for turn in range(150):
    name = str(turn // 2 % 12)
    found = saved.find(name)
    if found is None:
        saved.keep(name, name.encode() * 5000)
    else:
        assert found[0] == name.encode() * 5000, name
        seen += 1
print(seen)
"""


@pytest.mark.slow  # quick: threads that use a cache at once, in tests/compiling/test_side_by_side.py
def test_several_programs_use_a_folder_at_once(tmp_path: Path) -> None:
    # Room for 7 of 12 engines of 5 to 10 KB: each program removes what others wrote, while they read it.  Each name is
    # asked for twice: one after the other, 12 names never find what room for 7 has kept of the round before.
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path)]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    ended = [(program, *program.communicate(timeout=120)) for program in programs]
    for program, out, err in ended:
        assert program.returncode == 0, err
        assert int(out) > 0
    assert all(path.suffix == ".engine" for path in tmp_path.iterdir())
