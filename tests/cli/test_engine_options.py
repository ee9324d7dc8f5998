"""Options about what goes into engines: on the command line, in the file, and which of them wins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import export, save

from trtdiag.cli.main import main


class Small(nn.Module):
    """Two ops that an engine takes, an op that none takes, and an op on float64."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cummax(torch.relu(x * 2), 1).values, y * 3


Analyzed = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def analyzed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Analyzed:
    save(export(Small(), (torch.randn(3, 5), torch.randn(3, 5).double())), tmp_path / "small.pt2")
    monkeypatch.chdir(tmp_path)

    def run(*options: str) -> tuple[int, list[dict[str, Any]]]:
        with pytest.raises(SystemExit) as ended:
            main(["analyze", "small.pt2", "--no-html", "--json", "-", *options])
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)["findings"]

    return run


def rules(found: list[dict[str, Any]]) -> set[str]:
    return {finding["rule"] for finding in found if finding["rule"][:3] in ("OPS", "PRT")}


@pytest.mark.slow  # quick: the file sets them and the command line wins, below
def test_the_command_line_says_what_goes_into_engines(analyzed: Analyzed) -> None:
    code, plain = analyzed()
    assert code == 0
    assert rules(plain) == {"OPS501", "OPS502", "PRT602"}
    assert rules(analyzed("--min-segment-ops", "1")[1]) == {"OPS501", "OPS502"}
    assert "OPS502" not in rules(analyzed("--truncate-double")[1])
    assert "OPS501" not in rules(analyzed("--keep-in-torch", "aten.cummax,aten.relu")[1])
    code, full = analyzed("--require-full")
    assert code == 1
    assert {f["severity"] for f in full if f["rule"] == "OPS501"} == {"error"}


@pytest.mark.slow  # quick: test_the_file_sets_them_and_the_command_line_wins
def test_precision_on_the_command_line_and_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], analyzed: Analyzed
) -> None:
    def told(*options: str) -> dict[str, Any] | None:
        with pytest.raises(SystemExit):
            main(["analyze", "small.pt2", "--no-html", "--json", "-", *options])
        found: dict[str, Any] | None = json.loads(capsys.readouterr().out)["partition"]["precision"]
        return found

    assert told() is None
    half = told("--precision", "fp16", "--keep-fp32", "aten.relu,no.such")
    assert half is not None
    assert half["asked"] == "fp16"
    assert half["unmatched"] == ["no.such"]
    (tmp_path / "pyproject.toml").write_text("[tool.trtdiag]\nprecision = 'fp16'\nkeep-fp32 = ['no.other']\n")
    half = told()
    assert half is not None
    assert half["unmatched"] == ["no.other"]
    assert told("--precision", "keep") is None


def test_the_file_sets_them_and_the_command_line_wins(analyzed: Analyzed, tmp_path: Path) -> None:
    table = "min-segment-ops = 1\nkeep-in-torch = ['aten.cummax']\ntruncate-double = true\nrequire-full = false\n"
    (tmp_path / "pyproject.toml").write_text("[tool.trtdiag]\n" + table)
    assert rules(analyzed()[1]) == set()
    assert rules(analyzed("--keep-in-torch", "aten.relu")[1]) == {"OPS501"}
    assert "PRT602" in rules(analyzed("--min-segment-ops", "4", "--keep-in-torch", "aten.sin")[1])


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("min-segment-ops = true", "a number from 0"),
        ("min-segment-ops = -1", "a number from 0"),
        ("require-full = 1", "true or false"),
        ("keep-in-torch = 'aten.relu'", "a list of strings"),
        ("keep-fp32 = 'aten.relu'", "a list of strings"),
        ("precision = 'fp8'", "write one of keep, fp16, bf16"),
    ],
)
def test_a_wrong_kind_is_refused_with_the_right_one(
    line: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.trtdiag]\n{line}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["analyze", "missing.pt2"])
    assert ended.value.code == 2
    assert wanted in capsys.readouterr().err
