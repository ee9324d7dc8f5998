"""Folders that appear as a whole, or not at all."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from trtdiag.files.atomic_folder import atomic_folder, temporary_folder
from trtdiag.files.unfinished import SUFFIX


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "made"
    with atomic_folder(place) as work:
        (work / "inner").mkdir()
        (work / "inner" / "file").write_text("content")
        assert not place.exists()
    assert (place / "inner" / "file").read_text() == "content"
    assert list(tmp_path.iterdir()) == [place]
    with pytest.raises(FileExistsError), atomic_folder(place):
        pass
    with atomic_folder(place, replace=True) as work:
        (work / "other").write_text("new")
    assert [path.name for path in place.iterdir()] == ["other"]
    assert list(tmp_path.iterdir()) == [place]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "made"
    place.mkdir()
    (place / "old").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_folder(place, replace=True) as work:
        (work / "new").write_text(str(1 // 0))
    assert [path.name for path in place.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.skipif(os.name != "posix", reason="elsewhere there are no locks that tell a killed program's folder")
def test_what_a_killed_program_left_is_removed_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from trtdiag.files.atomic_folder import atomic_folder\n"
        "with atomic_folder(Path(sys.argv[1])) as work:\n  (work / 'half').write_text('half'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "killed")], check=False).returncode == 9
    assert [path.name.endswith(SUFFIX) for path in tmp_path.iterdir()] == [True]
    with atomic_folder(tmp_path / "first") as living:
        assert list(tmp_path.iterdir()) == [living]
        with atomic_folder(tmp_path / "second"):
            pass
        assert living.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


@pytest.mark.skipif(os.name != "posix", reason="elsewhere there are no locks that tell a killed program's folder")
def test_temporary_folders_of_killed_programs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "trtdiag-timings-of-another").mkdir()
    with temporary_folder("trtdiag-timings") as living:
        killed = os.fork()
        if not killed:
            with temporary_folder("trtdiag-timings") as left:
                (left / "timings").write_text("measured")
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(killed, 0)
        assert len(list(tmp_path.iterdir())) == 3
        with temporary_folder("trtdiag-inductor") as work:
            assert stat.S_IMODE(work.stat().st_mode) == 0o700
            assert {living, work} < set(tmp_path.iterdir())
            assert len(list(tmp_path.iterdir())) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["trtdiag-timings-of-another"]


@pytest.mark.skipif(os.name != "posix", reason="elsewhere there are no locks that tell a killed program's folder")
def test_a_folder_that_is_taken_for_a_left_one_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made: list[Path] = []
    mkdir = os.mkdir

    def looked_at(path: Path, mode: int = 0o777) -> None:
        """As where another program removes what is not locked yet."""
        mkdir(path, mode)
        made.append(path)
        if len(made) == 1:
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", looked_at)
    with temporary_folder("trtdiag-timings") as work:
        assert work.is_dir()
    assert len(made) == 2
