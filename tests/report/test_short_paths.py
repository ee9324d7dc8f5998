"""Paths in messages, as terminal, notebook and pull request show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtdiag.graph.source import Frame
from trtdiag.report.source_context import short_paths, source_view


def test_paths_below_the_working_directory_are_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_paths(f"int64 at {tmp_path}/nets/model.py:41, in block") == "int64 at nets/model.py:41, in block"
    assert short_paths(f"at {tmp_path}x/model.py:41") == f"at {tmp_path}x/model.py:41"


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_paths_of_packages_begin_with_the_package(folder: str) -> None:
    where = f"/home/u/.venv/lib/python3.11/{folder}/timm/layers/mlp.py:88"
    assert short_paths(f"made at {where}: x = 1, and at {where}") == (
        "made at timm/layers/mlp.py:88: x = 1, and at timm/layers/mlp.py:88"
    )
    assert short_paths(f"the wheel goes to {folder}/timm") == f"the wheel goes to {folder}/timm"


def test_other_paths_stay() -> None:
    text = "guard h/2 == w/2 at /srv/model.py:3, Mod(h, 8)//2"
    assert short_paths(text) == text


def test_lines_of_code_end_with_the_last_that_is_written(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("\n\ndef f(x):\n    y = x\n\n    return y\n\n\n\n")
    view = source_view(Frame(str(file), 6, "f", "return y"))
    assert view is not None
    assert [(line["number"], line["text"]) for line in view["lines"]] == [
        ("3", "def f(x):"), ("4", "    y = x"), ("5", ""), ("6", "    return y"),
    ]  # fmt: skip
