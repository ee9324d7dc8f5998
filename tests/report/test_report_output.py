"""Report as a value: save, repr, notebook; the summary in the terminal."""

from __future__ import annotations

import io
import json
import os
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from sample_analysis import HOSTILE_NAMES, analysis, clean_analysis, dim_system, finding, program

from trtdiag.analysis.finding import Evidence, Place, Severity
from trtdiag.analysis.result import Analysis
from trtdiag.errors import UserError
from trtdiag.graph.source import Frame
from trtdiag.report.report import Report
from trtdiag.report.terminal import print_summary
from trtdiag.wording import one_line


def printed(made: Analysis, width: int = 100, *, color: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, color_system="truecolor" if color else None)
    print_summary(made, console, ["model.html"])
    return out.getvalue()


def hostile(name: str) -> Analysis:
    row = replace(dim_system().rows[1], site=name, declared=name, allowed=name, suggested=name)
    found = finding(
        1, "MET101", Severity.ERROR, name, evidence=(Evidence(name, name),), places=(Place(name, name, Frame(name, 1)),)
    )
    return analysis(findings=(found,), dims=replace(dim_system(), rows=(row,)), program=program(label=name))


def test_counts_by_severity() -> None:
    report = Report(analysis())
    assert [len(report.findings), len(report.errors), len(report.warnings)] == [4, 1, 2]
    assert report.verdict.startswith("1 error, 2 warnings, 1 note: GRD301")


def test_repr_says_verdict_and_findings() -> None:
    lines = repr(Report(analysis())).splitlines()
    assert lines[0] == "<trtdiag report on model.pt2>"
    assert lines[1].startswith("1 error, 2 warnings, 1 note")
    assert sum(line.startswith("  ") for line in lines) == 4


def test_repr_of_many_findings_ends() -> None:
    many = tuple(finding(at, "A", Severity.ERROR, "a") for at in range(1, 501))
    assert "and 450 more" in repr(Report(analysis(findings=many)))
    assert "A x500" in Report(analysis(findings=many))._repr_html_()
    unlike = tuple(finding(1, f"A{at}", Severity.ERROR, "a") for at in range(1, 501))
    assert "and 450 more" in Report(analysis(findings=unlike))._repr_html_()


@pytest.mark.parametrize("suffix", [".html", ".json", ".sarif", ".HTML"])
def test_save_by_suffix(tmp_path: Path, suffix: str) -> None:
    report = Report(clean_analysis())
    place = report.save(tmp_path / f"model{suffix}")
    text = place.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") if suffix.lower() == ".html" else json.loads(text)
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


def test_save_replaces_and_gives_the_usual_mode(tmp_path: Path) -> None:
    place = tmp_path / "model.json"
    mask = os.umask(0o027)
    try:
        Report(clean_analysis()).save(place)
        assert stat.S_IMODE(place.stat().st_mode) == 0o640
        place.chmod(0o600)
        Report(analysis()).save(str(place))
    finally:
        os.umask(mask)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert json.loads(place.read_text())["verdict"]["status"] == "error"


@pytest.mark.parametrize("name", ["model.txt", "model", "model.html.gz"])
def test_unknown_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="no report format") as caught:
        Report(clean_analysis()).save(tmp_path / name)
    assert caught.value.reference == "report-format-unknown"
    assert list(tmp_path.iterdir()) == []


def test_unwritable_places_are_told(tmp_path: Path) -> None:
    directory = tmp_path / "model.html"
    directory.mkdir()
    file = tmp_path / "file"
    file.write_text("")
    for place in (directory, tmp_path / "absent" / "model.html", file / "model.html", tmp_path / f"{'n' * 300}.html"):
        with pytest.raises(UserError, match="cannot write the report") as caught:
            Report(clean_analysis()).save(place)
        assert caught.value.reference == "report-not-writable"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "model.html"]


def test_failed_save_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "model.json"
    Report(clean_analysis()).save(place)
    before = place.read_text()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(UserError, match="cannot write"):
        Report(analysis()).save(place)
    assert place.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_hostile_names_in_notebooks_and_repr(name: str) -> None:
    report = Report(hostile(name))
    snippet = report._repr_html_()
    snippet.encode("utf-8")
    tags = set(re.findall(r"</?([a-z]+)", snippet))
    assert tags == {"div", "p", "code", "b", "table", "tr", "td", "span"}
    repr(report).encode("utf-8")
    assert len(repr(report)) < 4000


UNBROKEN = ("report: ", "next: ", "h = ", "_h = ", "dynamic_shapes", "from ", '"')


@pytest.mark.parametrize("width", [20, 40, 71, 72, 100, 200])
def test_terminal_says_the_same_at_every_width(width: int) -> None:
    text = printed(analysis(), width)
    # Code to copy and the report's path keep their lines; less than 24 columns are taken for 24.
    kept = [line for line in text.splitlines() if len(line.rstrip()) > max(width, 24)]
    assert all(line.lstrip().startswith(UNBROKEN) for line in kept), kept
    squeezed = re.sub(r"\s", "", text)
    for part in ("GRD301", "1 error, 2 warnings, 1 note", "report: model.html", "8*_h", "dtypes failed"):
        assert part.replace(" ", "") in squeezed
    assert "\x1b" not in text


def test_terminal_colours_are_only_colours() -> None:
    assert re.sub(r"\x1b\[[0-9;]*m", "", printed(analysis(), color=True)) == printed(analysis())


def test_terminal_without_trouble_shows_no_tables() -> None:
    assert printed(clean_analysis()).split("\n") == ["model.pt2: No findings", "", "report: model.html", ""]


@pytest.mark.parametrize("width", [40, 100])
@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_hostile_names_in_the_terminal(name: str, width: int) -> None:
    text = printed(hostile(name), width)
    text.encode("utf-8")
    assert not set(text) & {"\x1b", "\x07", "\x00", "\u202e"}
    assert re.sub(r"\s", "", one_line(name))[:24] in re.sub(r"\s", "", text)


def test_lines_below_the_working_directory_are_told_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here, elsewhere = Frame(str(tmp_path / "models" / "unet.py"), 40), Frame("/opt/other/net.py", 7)
    found = [
        finding(at, "GRD301", Severity.ERROR, "a guard breaks", places=(Place("n", "n", frame),))
        for at, frame in enumerate((here, elsewhere), 1)
    ]
    shown = printed(analysis(findings=tuple(found)), width=160)
    assert "error GRD301 x2  a guard breaks\n  models/unet.py:40, /opt/other/net.py:7" in shown
