"""Files are written whole or not at all, devices and pipes written through, and what killed programs left goes."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trtdiag.files.atomic_write import begin, whole_file, write_entry, write_whole
from trtdiag.files.destination import check_destination, open_descriptor, written_through
from trtdiag.files.unfinished import SUFFIX, make_unfinished, remove_abandoned, unfinished_name

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="devices, pipes and locks of POSIX")


def test_a_file_is_new_or_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, [b"one ", bytearray(b"two "), memoryview(b"three")])
    assert path.read_bytes() == b"one two three"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    write_whole(path, [])
    assert path.read_bytes() == b""
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [found.name for found in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127, "new\nline", "-", "~nosuchuser"], ids=range(5))
def test_every_name_that_the_system_takes_is_written(name: str, tmp_path: Path) -> None:
    write_whole(tmp_path / name, [b"x"])
    assert [found.name for found in tmp_path.iterdir()] == [name]


REFUSED = {
    "": "empty",
    "a\0b": "no file can have that name",
    "\ud800": "no file can have that name",
    "n" * 256: "too long",
    "absent/a": "No such file",
    "file/a": "Not a directory",
    "folder": "it is a directory",
}


@pytest.mark.parametrize("name", REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_written_is_an_error_of_the_system(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    path = f"{tmp_path}/{name}" if name else name
    with pytest.raises(OSError, match=REFUSED[name]):
        write_whole(path, [b"new"])
    assert sorted(found.name for found in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("name", REFUSED, ids=range(len(REFUSED)))
def test_it_is_known_before_the_work(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=REFUSED[name]):
        check_destination(f"{tmp_path}/{name}" if name else name)
    check_destination(tmp_path / "file")
    check_destination(tmp_path / "new")


def test_an_error_in_the_block_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def stopped() -> None:
        with whole_file(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


def test_a_write_that_fails_is_told_by_settle_and_put(tmp_path: Path) -> None:
    """Not by ``write``: the archive writer of PyTorch ends the process where that raises."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with begin(path) as writing:
        os.close(writing._written.fileno())  # as good as a disk that is full
        assert writing.file.write(b"n" * 100_000) == 100_000
        assert writing.file.write(b"m") == 1
        with pytest.raises(OSError, match="Bad file descriptor"):
            writing.settle()
        with pytest.raises(OSError, match="Bad file descriptor"):
            writing.put()
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


def test_a_file_is_written_from_its_start_to_its_end(tmp_path: Path) -> None:
    """PyTorch goes back to the start of what it has written, which a pipe cannot; nothing can be written there."""
    with begin(tmp_path / "a") as writing:
        writing.file.write(b"all")
        assert writing.file.tell() == 3
        with pytest.raises(OSError, match="from their start"):
            writing.file.seek(1)
        assert writing.file.seek(0) == 0
        writing.put()
    assert (tmp_path / "a").read_bytes() == b"all"
    with begin(tmp_path / "b") as writing:
        writing.file.seek(0)
        writing.file.write(b"over")
        with pytest.raises(OSError, match="at its end"):
            writing.put()
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


@posix
def test_a_link_stays_a_link_and_an_entry_of_a_cache_replaces_one(tmp_path: Path) -> None:
    real, link, dangling = tmp_path / "real", tmp_path / "link", tmp_path / "dangling"
    real.write_bytes(b"old")
    link.symlink_to("real")
    dangling.symlink_to("made")
    write_whole(link, [b"new"])
    write_whole(dangling, [b"new"])
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert real.read_bytes() == (tmp_path / "made").read_bytes() == b"new"
    write_entry(link, [b"entry"])
    assert not link.is_symlink()
    assert real.read_bytes() == b"new"


@posix
def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, [b"a" * 200_000, b"b"])
    reader.join(timeout=30)
    assert found == [b"a" * 200_000 + b"b"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_entry(pipe, [b"entry"])  # a name of ours does not wait for a reader
    assert pipe.read_bytes() == b"entry"


@posix
def test_devices_take_bytes_or_refuse_them_and_stay(tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    for path in ("/dev/null", link):
        write_whole(path, [b"x" * 100_000])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    if os.path.exists("/dev/full"):
        for size in (1, 100_000):
            with pytest.raises(OSError, match="No space left"):
                write_whole("/dev/full", [b"x" * size])


@posix
def test_a_socket_is_refused_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # an address of a socket is short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        for refuse in (check_destination, lambda path: write_whole(path, [b"x"])):
            with pytest.raises(OSError, match="socket"):
                refuse("s")
        assert stat.S_ISSOCK(os.stat("s").st_mode)


@posix
@pytest.mark.parametrize("way", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link", "/proc/self/task/{pid}/fd/1"])
def test_an_open_file_is_written_where_it_stands(way: str, tmp_path: Path) -> None:
    """What the shell appends to keeps what it has: ``trtdiag ... --json /dev/stdout >> log``."""
    if way.startswith("/proc") and not os.path.exists("/proc/self/fd"):
        pytest.skip("there is no /proc")
    (tmp_path / "link").symlink_to("/dev/stdout")
    log = tmp_path / "log"
    log.write_text("old\n")
    code = (
        "import os, sys; from trtdiag.files.atomic_write import write_whole;"
        "write_whole(sys.argv[1].format(pid=os.getpid()), [b'new\\n']); print('after')"
    )
    with log.open("a") as out:
        subprocess.run(
            [sys.executable, "-c", code, way],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=out,
            check=True,
        )
    assert log.read_text() == "old\nnew\nafter\n"


@posix
def test_open_files_are_told_from_others(tmp_path: Path) -> None:
    assert open_descriptor("/dev/fd/7") == 7
    assert open_descriptor("/dev/null") is None
    assert open_descriptor(tmp_path / "fd" / "1") is None
    (tmp_path / "round").symlink_to("round")
    assert open_descriptor(tmp_path / "round") is None
    with pytest.raises(OSError, match="symbolic links"):
        written_through(tmp_path / "round")


@posix
def test_what_a_killed_program_left_goes_and_all_else_stays(tmp_path: Path) -> None:
    code = (
        "import os, sys; from trtdiag.files.atomic_write import begin\n"
        "with begin(sys.argv[1]) as writing:\n"
        "    writing.file.write(b'x' * 100_000)\n"
        "    print('begun', flush=True)\n"
        "    sys.stdin.read()\n"
        "    writing.put()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "model.ep")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed, living = (
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    )
    for child in (killed, living):
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
    assert len(list(tmp_path.iterdir())) == 2
    killed.kill()
    assert killed.wait(timeout=30) == -signal.SIGKILL
    # Names that look alike, and are of others.
    others = [
        ".model.ep.part",
        "model.ep.0123456789abcdef.trtdiag.part",
        f".m.0123456789ABCDEF{SUFFIX}",
        ".m.0123.part",
    ]
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / f".folder.{'0' * 16}{SUFFIX}").mkdir()
    (tmp_path / f".link.{'0' * 16}{SUFFIX}").symlink_to(".model.ep.part")
    os.mkfifo(tmp_path / f".pipe.{'0' * 16}{SUFFIX}")
    before = len(list(tmp_path.iterdir()))
    write_whole(tmp_path / "other.json", [b"{}"])
    # One file more, and one less.
    assert len(list(tmp_path.iterdir())) == before
    assert all((tmp_path / name).read_text() == "mine" for name in others)
    living.communicate(b"go", timeout=30)
    assert living.returncode == 0
    assert (tmp_path / "model.ep").stat().st_size == 100_000
    killed.communicate(timeout=30)


def test_of_several_writers_one_wins(tmp_path: Path) -> None:
    """Each looks for what killed programs left, and takes none of the others' for that."""
    path = tmp_path / "a"
    wholes = [bytes([letter]) * 200_000 for letter in range(8)]
    failed: list[BaseException] = []

    def write(content: bytes) -> None:
        try:
            for _ in range(10):
                write_whole(path, [content], durable=False)
                assert path.read_bytes() in wholes
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(content,)) for content in wholes]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)
    assert failed == []
    assert path.read_bytes() in wholes
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


@posix
def test_a_file_taken_away_before_it_was_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, stolen = os.open, []

    def open_and_steal(path: Path, flags: int, mode: int = 0o777) -> int:
        descriptor = real(path, flags, mode)
        if not stolen:
            stolen.append(path)
            remove_abandoned(tmp_path)
        return descriptor

    monkeypatch.setattr(os, "open", open_and_steal)
    path, descriptor = make_unfinished(tmp_path / "a", 0o600)
    os.close(descriptor)
    assert path != stolen[0]
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_names_of_unfinished_files_differ_and_fit() -> None:
    names = {unfinished_name("n" * 255) for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"\.n{64}\.[0-9a-f]{16}\.trtdiag\.part", name) for name in names)
    assert len(os.fsencode(unfinished_name("é" * 127))) < 255
