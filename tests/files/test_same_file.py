"""Which paths are one file: links, spellings, folders that are not there yet, standard streams."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from trtdiag.errors import UserError
from trtdiag.files import same_file
from trtdiag.files.same_file import Named, refuse_same

posix = pytest.mark.skipif(os.name != "posix", reason="links and devices of POSIX")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "m").write_text("m")
    (tmp_path / "sub" / "other").write_text("other")
    os.link("m", "hard")
    for name, to in {
        "soft": "m",
        "turn": "sub/../m",
        "back": "sub",
        "dangling": "sub/made",
        "away": "absent/made",
    }.items():
        (tmp_path / name).symlink_to(to)
    return tmp_path


ONE = [
    ("m", "m"),
    ("m", "./m"),
    ("m", "sub/../m"),
    ("m", "hard"),
    ("hard", "soft"),
    ("soft", "turn"),
    ("sub/other", "back/other"),
    ("new", "./new"),
    ("new", "sub/../new"),
    ("sub/new", "back/new"),
    ("dangling", "sub/made"),
    ("dangling", "back/made"),
    ("absent/made", "away"),
    ("absent/a/b", "absent/./a//b"),
    ("sub", "back"),
]
TWO = [
    ("m", "sub/other"),
    ("m", "new"),
    ("new", "other"),
    ("new", "sub/new"),
    ("absent/a", "absent/b"),
    ("absent/a", "a"),
    ("/dev/null", "/dev/null"),
    ("", ""),
    ("a\0b", "a\0b"),
    ("m/below", "m/below"),
]


def _is_refused(written: str, read: str) -> bool:
    """Whether writing to one path is refused for what the other leads to."""
    try:
        refuse_same([Named("SOURCE", read)], [Named("--json", written)])
    except UserError:
        return True
    return False


@posix
@pytest.mark.parametrize(("one", "other"), ONE)
def test_one_file(folder: Path, one: str, other: str) -> None:
    for first, second in ((one, other), (other, one), (str(folder / one), other)):
        assert _is_refused(first, second)


@posix
@pytest.mark.parametrize(("one", "other"), TWO)
def test_two_files(folder: Path, one: str, other: str) -> None:
    assert not _is_refused(one, other)
    assert not _is_refused(other, one)


PAIRS = [("New.ep", "new.EP"), ("é.ep", unicodedata.normalize("NFD", "é.ep")), ("n" * 99 + "a", "n" * 99 + "A")]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=range(len(PAIRS)))
@pytest.mark.parametrize("heeds", [True, False])
def test_spellings_are_tried_on_the_file_system(
    folder: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str, heeds: bool
) -> None:
    """A file system that does not heed case is played, for this machine may have none; the trial leaves nothing."""
    before = sorted(os.listdir(folder))
    if not heeds:
        real = os.stat

        def stat(path: os.PathLike[str] | str, **rest: bool) -> os.stat_result:
            place, name = os.path.split(os.path.abspath(path))
            alike = [each for each in os.listdir(place) if same_file._folded(each) == same_file._folded(name)] or [name]
            return real(os.path.join(place, alike[0]), **rest)

        monkeypatch.setattr(os, "stat", stat)
        monkeypatch.setattr(Path, "stat", stat)  # Python 3.10 keeps the function of before
    elif _is_refused(one, other):
        pytest.skip("this file system does not heed case")
    assert _is_refused(one, other) is not heeds
    assert not _is_refused(one, f"x{other}")
    assert sorted(os.listdir(folder)) == before


def test_what_is_told(folder: Path) -> None:
    with pytest.raises(UserError) as caught:
        refuse_same([Named("SOURCE", "m"), Named("--compare", "m")], [Named("--json", "./hard")])
    assert caught.value.message == "--json names SOURCE itself: ./hard"
    assert caught.value.because == "it is read, and would be written over (m and ./hard are the same file)"
    assert caught.value.fix == "name another file for --json"
    assert caught.value.reference == "same-file"
    with pytest.raises(UserError) as caught:
        refuse_same([Named("SOURCE", "m")], [Named("-o", "new"), Named("--json", "x"), Named("--sarif", "new")])
    assert caught.value.message == "-o and --sarif name one file: new"
    assert caught.value.because == "only one of the two would be left"
    refuse_same([Named("SOURCE", "m"), Named("--compare", "soft")], [Named("-o", "new"), Named("--json", "x")])


def test_standard_output_is_one_place(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="name one file: standard output"):
        refuse_same([], [Named("--json", "-"), Named("--sarif", "-")])
    refuse_same([Named("SOURCE", "-")], [Named("--json", "-")])


@posix
def test_what_standard_streams_lead_to_counts(folder: Path) -> None:
    """``trtdiag fix-dims - --json log < log``, and a report appended to the file that it is made of."""
    kept = [os.dup(stream) for stream in (0, 1)]
    opened = os.open("m", os.O_RDWR)
    try:
        os.dup2(opened, 0)
        with pytest.raises(UserError, match="--json names SOURCE itself: hard"):
            refuse_same([Named("SOURCE", "-")], [Named("--json", "hard")])
        os.dup2(kept[0], 0)
        os.dup2(opened, 1)
        for place in ("-", "/dev/stdout"):
            with pytest.raises(UserError, match="--json names SAVED itself"):
                refuse_same([Named("SAVED", "m")], [Named("--json", place)])
    finally:
        for stream, saved in enumerate(kept):
            os.dup2(saved, stream)
            os.close(saved)
        os.close(opened)
