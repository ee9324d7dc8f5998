"""What files are called that nobody named: sources of one project do not write over each other's reports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trtdiag.cli.default_names import name_after
from trtdiag.cli.main import main

FACTORY = """import torch
def build():
    return torch.nn.{kind}(), (torch.randn(3, 5),), {{}}, {{"input": {{0: torch.export.Dim("n", min=1, max=13)}}}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, kind in (("unet", "ReLU"), ("detector", "Sigmoid")):
        (tmp_path / f"{name}.py").write_text(FACTORY.format(kind=kind))
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.mark.slow  # quick: test_files_of_one_name_in_two_folders_have_pages_of_two
def test_factories_of_one_name_have_reports_of_two(here: Path) -> None:
    for source in ("unet:build", "detector:build"):
        assert run("analyze", source, "-q", "--format", "html,json") == 0
    written = {path.name for path in here.iterdir() if path.suffix in (".html", ".json")}
    assert written == {"unet.build.html", "unet.build.json", "detector.build.html", "detector.build.json"}
    for name in ("unet", "detector"):
        assert f"{name}:build" in (here / f"{name}.build.html").read_text(encoding="utf-8")


def test_factories_of_one_name_have_compiled_programs_of_two(here: Path) -> None:
    for source in ("unet:build", "detector:build"):
        assert run("compile", source, "-q", "--backend", "reference", "--no-verify", "--min-segment-ops", "0") == 0
    written = {path.name for path in here.iterdir() if path.suffix in (".html", ".pt2")}
    assert written == {"unet.build_trt.pt2", "unet.build_trt.html", "detector.build_trt.pt2", "detector.build_trt.html"}


def test_an_analysis_of_a_compiled_program_leaves_the_report_of_its_compilation(here: Path) -> None:
    for formats in ("html", "json"):
        assert run("compile", "unet:build", "-q", "--backend", "reference", "-o", "unet.pt2", "--format", formats) == 0
        made = (here / f"unet.{formats}").read_bytes()
        for _ in range(2):
            assert run("analyze", "unet.pt2", "-q", "--format", "html,json") == 0
        assert (here / f"unet.{formats}").read_bytes() == made
        assert {path.name for path in here.glob("unet.*.*")} == {"unet.analysis.html", "unet.analysis.json"}
        for path in here.glob("unet*.[hj]*"):
            path.unlink()


def test_files_of_one_name_in_two_folders_have_pages_of_two(here: Path) -> None:
    assert run("analyze", "unet:build", "-q", "--json", "old/saved.json", "--no-html") == 2  # there is no such folder
    for folder in ("old", "new"):
        (here / folder).mkdir()
        assert run("analyze", "unet:build", "-q", "--no-html", "--json", f"{folder}/saved.json") == 0
        assert run("report", f"{folder}/saved.json", "-q") == 0
    assert {path.name for path in here.glob("*.html")} == {"old.saved.html", "new.saved.html"}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("model.pt2", "model"),
        ("./model.pt2", "model"),
        ("models/model.pt2", "models.model"),
        ("models/big/../unet.v1.ep", "models.unet.v1"),
        ("{here}/models/unet.pt2", "models.unet"),
        ("/data/elsewhere/unet.pt2", "unet"),
        ("../unet.pt2", "unet"),
        (".cache/unet.pt2", "cache.unet"),
        ("package.unet:build", "package.unet.build"),
        ("unet:Net.build", "unet.Net.build"),
        ("", "report"),
        ("..", "report"),
    ],
)
def test_a_name_says_its_source(source: str, name: str, here: Path) -> None:
    assert name_after(source.format(here=here)) == name


@pytest.mark.parametrize("letter", ["a", "é", "漢", "\ud800"])
def test_long_names_stay_names_and_apart(letter: str, here: Path) -> None:
    names = [name_after(f"{letter * 400}{end}:build") for end in ("x", "y")]
    names += [name_after(f"{start}{letter * 400}:build") for start in ("x", "y")]
    assert len(set(names)) == 4
    assert all(len(each.encode()) <= 200 for each in names)


def test_a_source_with_a_colon_that_is_a_file(here: Path) -> None:
    (here / "a:b.pt2").write_bytes(b"")
    assert name_after("a:b.pt2") == "a:b"
