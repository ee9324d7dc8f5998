"""What GitHub Actions is given: annotations at the user's lines, and the report as the summary of the step."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_analysis import analysis, clean_analysis, finding

from tests.harness.odd_rows_factory import FACTORY
from trtdiag.analysis.finding import Finding, Fix, Place, Severity
from trtdiag.cli.main import main
from trtdiag.errors import UserError
from trtdiag.graph.source import Frame
from trtdiag.report.github import MOST_OF_A_LEVEL, MOST_SUMMARY_BYTES, annotation_lines, append_summary


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    return tmp_path


def at(file: Path | str, number: int = 1, **changes: object) -> Finding:
    place = Place("n", "n", Frame(str(file), 40))
    return finding(number, "GRD301", Severity.ERROR, "50% of h\r\nis refused", places=(place,), **changes)


def told(*findings: Finding) -> list[str]:
    return list(annotation_lines(analysis(findings=findings)))


def test_a_line_of_the_workspace_is_annotated(workspace: Path) -> None:
    found = at(workspace / "my, model" / "a:b.py", fix=Fix("declare 8*_h"))
    assert told(found) == [
        "::error file=my%2C model/a%3Ab.py,line=40,title=trtdiag GRD301::"
        r"50%25 of h\x0d%0Ais refused%0Afix: declare 8*_h"
    ]


def test_another_line_is_named_in_the_message(workspace: Path) -> None:
    assert told(at("/opt/net.py")) == ["::error title=trtdiag GRD301::50%25 of h\\x0d%0Ais refused%0Aat /opt/net.py:40"]


def test_without_a_workspace_the_working_directory_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    (line,) = told(at(tmp_path / "net.py"))
    assert line.startswith("::error file=net.py,line=40,")


def test_levels_and_counts(workspace: Path) -> None:
    levels = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
    many = [
        finding(number, f"{severity.name}{number}", severity, "a", places=())
        for severity in levels
        for number in range(MOST_OF_A_LEVEL + 3)
    ]
    lines = told(*many)
    for word in levels.values():
        assert sum(line.startswith(f"::{word} title=") for line in lines) == MOST_OF_A_LEVEL
    alike = [
        finding(n, "SYM201", Severity.ERROR, f"{name} has no upper bound", places=()) for n, name in enumerate("hwd")
    ]
    assert told(*alike) == ["::error title=trtdiag SYM201 x3::h has no upper bound%0Aalso: w, d"]
    assert list(annotation_lines(clean_analysis())) == []


def test_the_summary_is_appended_and_never_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place))
    place.write_text("before\n")
    append_summary("# Report\nähnlich\n")
    assert place.read_text() == "before\n# Report\nähnlich\n"
    append_summary("ä" * 99 + "\n" + ("é" * 49 + "\n") * MOST_SUMMARY_BYTES)
    assert MOST_SUMMARY_BYTES - 120 < place.stat().st_size <= MOST_SUMMARY_BYTES
    assert place.read_text().endswith("é" * 49)  # whole characters
    append_summary("no room")
    assert place.stat().st_size <= MOST_SUMMARY_BYTES


def test_without_a_summary_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(tmp_path)
    append_summary("# Report")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    with pytest.raises(UserError, match="summary of the job cannot be written"):
        append_summary("# Report")


def test_a_step_of_a_workflow(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(workspace / "summary.md"))
    (workspace / "github_factory.py").write_text(FACTORY)
    with pytest.raises(SystemExit) as ended:
        main(["analyze", "github_factory:build", "--github", "--no-html", "-q"])
    assert ended.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("::error file=github_factory.py,line=7,title=trtdiag GRD301::guard ")
    assert all(line.startswith("::") for line in lines)
    assert "GRD301" in (workspace / "summary.md").read_text()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(workspace))
    with pytest.raises(SystemExit) as ended:
        main(["analyze", "github_factory:build", "--github", "--no-html", "-q"])
    told = capsys.readouterr()
    assert (ended.value.code, told.out.splitlines()) == (2, lines)
    assert "the summary of the job cannot be written" in told.err
    with pytest.raises(SystemExit) as ended:
        main(["analyze", "github_factory:build", "--github", "--json", "-", "--no-html"])
    assert ended.value.code == 2
    assert "--github cannot be given beside a report on standard output" in capsys.readouterr().err
