"""The reports of the command line: several formats at once, again from JSON, beside an earlier one, in the browser."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import click
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.compiling.programs import Asked, mlp, saved
from trtdiag.cli.analyze import analyze
from trtdiag.cli.compile import compile_command
from trtdiag.cli.main import main
from trtdiag.options import AnalyzeOptions, CompileOptions
from trtdiag.report.settings import flag_of, settings_of


class Sorts(nn.Module):
    """Something that no layer does between things that layers do."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.cummax(torch.relu(x) * 2 + 1, 1).values) + 3


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def sorts() -> Asked:
    return Sorts(), (torch.randn(3, 5),), {}, {"x": {0: Dim("rows", min=1, max=13)}}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "model.pt2").write_bytes(saved(sorts))
    (tmp_path / "plain.pt2").write_bytes(saved(mlp))
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".pt2")


@pytest.mark.slow  # quick: test_report_draws_the_same_page_without_the_model
def test_formats_are_written_beside_each_other(here: Path) -> None:
    assert run("analyze", "model.pt2", "-q", "--format", "html,json", "--format", "sarif,markdown") == 0
    assert names(here) == ["model.html", "model.json", "model.md", "model.sarif"]
    ids = [found["id"] for found in json.loads((here / "model.json").read_text())["findings"]]
    page, markdown = (here / "model.html").read_text(), (here / "model.md").read_text()
    assert ids
    for each in ids:
        assert page.count(f'id="{each}"') == 1
        assert f"**{each}**" in markdown


def test_single_flags_choose_places_and_standard_output(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("analyze", "model.pt2", "--no-html", "--sarif", "s.sarif", "--format", "html,json", "--markdown", "-")
    assert run(*arguments) == 0
    assert names(here) == ["model.json", "s.sarif"]
    assert capsys.readouterr().out.startswith("### ")


def test_an_unknown_format_is_told_before_the_work(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("analyze", "absent.pt2", "--format", "pdf") == 2
    assert "there is no report format 'pdf'" in capsys.readouterr().err


def test_report_draws_the_same_page_without_the_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("analyze", "model.pt2", "-q", "--format", "html,json") == 0
    (here / "model.pt2").unlink()
    assert run("report", "model.json", "-o", "again.html", "--markdown", "again.md") == 0
    assert (here / "again.html").read_bytes() == (here / "model.html").read_bytes()
    told = capsys.readouterr().out
    assert "report: again.html" in told
    assert "OPS501 aten.cummax.default" in told
    assert run("report", "model.json", "-q", "--format", "json,sarif", "-o", "third.html") == 0
    assert (here / "third.json").read_bytes() == (here / "model.json").read_bytes()


def test_report_refuses_what_is_no_report(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "odd.json").write_text("{}")
    assert run("report", "odd.json") == 2
    assert "cannot read the report odd.json" in capsys.readouterr().err
    assert run("report", "absent.json") == 2
    assert names(here) == ["odd.json"]


def test_analyze_compares_with_an_earlier_report(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("analyze", "model.pt2", "-q", "--no-html", "--json", "old.json") == 0
    capsys.readouterr()
    asked = ("analyze", "model.pt2", "--compare", "old.json", "--ignore", "OPS501", "--min-segment-ops", "1")
    assert run(*asked, "--json", "new.json") == 0
    told = capsys.readouterr().out
    assert "compared with old.json" in told
    assert "fixed OPS501-1" in told
    changes = json.loads((here / "new.json").read_text())["comparison"]
    assert [each["rule"] for each in changes["fixed"]] == ["OPS501", "PRT602"]
    assert '<section id="comparison"' in (here / "model.html").read_text()
    assert run("report", "new.json", "--compare", "old.json", "-q", "-o", "both.html") == 0
    assert '<section id="comparison"' in (here / "both.html").read_text()


def test_an_earlier_report_that_cannot_be_read_stops_before_the_work(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("analyze", "absent.pt2", "--compare", "absent.json") == 2
    assert "cannot read the report absent.json" in capsys.readouterr().err


def test_compile_compares_engines_and_their_bytes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("compile", "plain.pt2", "--backend", "reference", "--target", "11.4", "--no-html", "--no-verify")
    assert run(*asked, "--json", "old.json", "-q") == 0
    capsys.readouterr()
    assert (
        run(
            *asked,
            "--keep-in-torch",
            "aten.relu",
            "--min-segment-ops",
            "1",
            "--compare",
            "old.json",
            "--json",
            "new.json",
        )
        == 0
    )
    assert "1 engine became 2" in capsys.readouterr().out
    old, new = (json.loads((here / name).read_text()) for name in ("old.json", "new.json"))
    for report, side in ((old, "before"), (new, "after")):
        built = sum(engine["bytes"] for engine in report["compiled"]["engines"])
        assert new["comparison"]["engines"][side]["engine_bytes"] == built > 0


def test_open_shows_the_page_that_was_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert run("analyze", "model.pt2", "-q", "--open") == 0
    assert opened == [(here / "model.html").as_uri()]
    assert run("analyze", "model.pt2", "-q", "--no-html", "--open") == 0
    shown = Path(opened[1].removeprefix("file://"))
    assert 'id="OPS501-1"' in shown.read_text(encoding="utf-8")
    assert names(here) == ["model.html"]


@pytest.mark.parametrize(("command", "options"), [(analyze, AnalyzeOptions), (compile_command, CompileOptions)])
def test_the_command_in_a_report_names_options_that_there_are(command: click.Command, options: type) -> None:
    flags = {flag for parameter in command.params for flag in parameter.opts}
    names = [name for name, _, _ in settings_of(options())]
    assert len(names) > 5
    assert {flag_of(name) for name in names} <= flags
