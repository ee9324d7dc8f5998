"""Every code block of the README and of the tutorials is run, and what they show is what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import torch

from tests.documents.pages import ROOT, blocks, commands
from tests.documents.run_page import Page
from tests.documents.shown import missing
from trtdiag.cli.commands import cli

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
README = ROOT / "README.md"
BESIDE_ANOTHER = ROOT / "docs" / "how-to" / "torch-tensorrt.md"
QUANTIZE = ROOT / "docs" / "how-to" / "quantize.md"
MOST_README_LINES = 130
# Four exports in child processes, or two and a comparison at ten sizes: over two seconds each.
QUICK = {"README.md"}


def as_case(page: Path) -> object:
    marks = () if page.name in QUICK else (pytest.mark.slow,)
    return pytest.param(page, id=page.stem, marks=marks)


@pytest.mark.parametrize("page", [as_case(page) for page in (README, BESIDE_ANOTHER, QUANTIZE, *TUTORIALS)])
def test_a_page_does_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page is README and torch.__version__ < "2.12":
        pytest.skip("torch 2.11 also asks that windows of a pooling divide their input, which is told, too")
    assert Page(page, tmp_path, monkeypatch).run() > 0


PAGES = [README, *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "adr")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_in_pages_have_options_that_there_are(page: Path) -> None:
    context = click.Context(cli)
    for line in page.read_text(encoding="utf-8").splitlines():
        for words in re.findall(r"\btrtdiag ((?:[a-z-]+)(?: [^`#|)]*)?)", line):
            name, *rest = words.split()
            command = cli.get_command(context, name)
            if command is None:
                continue
            known = {each for option in command.get_params(context) for each in (*option.opts, *option.secondary_opts)}
            asked = {each.rstrip(",;:.") for each in rest if each.startswith("--")}
            assert asked <= known, f"{page.name}: {line.strip()} asks for {asked - known}"


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MOST_README_LINES


def test_blocks_know_their_file_and_commands_their_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('Text.\n\n```python title="a/b.py"\nx = 1\n```\n\n```console\n$ one\nout\n\n$ two\n```\n')
    module, console = blocks(page)
    assert (module.language, module.title, module.text, module.line) == ("python", "a/b.py", "x = 1\n", 4)
    assert [(each.words, each.shown, each.line) for each in commands(console)] == [
        ("one", ("out", ""), 8),
        ("two", (), 11),
    ]


@pytest.mark.parametrize("text", ["```python\nx\n", "text\n\n    indented\n", "``` {.odd}\n```\n"])
def test_code_that_no_test_would_run_is_told(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="fence"):
        blocks(page)


@pytest.mark.parametrize(
    ("shown", "printed", "wrong"),
    [
        (("a", "...", "d"), "a\nb\nc\nd\n", None),
        (("a", "..."), "a\n", None),
        (("off by 1.3e-07 ...", "saved (7 bytes)"), "off by 4.1e-08 of all\nsaved (7,123 bytes)\n", None),
        (("off by 1.3e-07",), "off by 1.3e-03\n", "off by 1.3e-07"),
        (("a", "c"), "a\nb\nc\n", "c"),
        (("a",), "a\nb\n", "nothing, where 'b' was printed"),
        (("b",), "", "b"),
        ((), "", None),
    ],
)
def test_shown_output_is_held_to_what_was_printed(shown: tuple[str, ...], printed: str, wrong: str | None) -> None:
    assert missing(shown, printed) == wrong
