"""Paths in messages, as terminal, notebook and pull request show them."""

from __future__ import annotations

import importlib
import io
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from sample_fixes import fix

import trtdiag
from tests.harness.packed_pages import packed_texts
from trtdiag.fixdims.fix import Alternative
from trtdiag.graph.source import Frame
from trtdiag.report.fix_notebook import fix_snippet
from trtdiag.report.fix_text import fix_text
from trtdiag.report.shown_paths import file_address, short_paths, with_short_paths
from trtdiag.report.source_context import source_view
from trtdiag.report.terminal import print_summary


def test_paths_below_the_working_directory_are_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_paths(f"int64 at {tmp_path}/nets/model.py:41, in block") == "int64 at nets/model.py:41, in block"
    assert short_paths(f"at {tmp_path}x/model.py:41") == f"at ../{tmp_path.name}x/model.py:41"
    assert short_paths(f"at /data{tmp_path}/model.py:41") == f"at /data{tmp_path}/model.py:41"


def test_paths_beside_it_go_up_and_those_in_homes_name_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home, work = tmp_path / "ada", tmp_path / "ada" / "a" / "b" / "c" / "d"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    files = [work / "net.py", home / "a/b/c/net.py", home / "a/b/net.py", home / "a/net.py", home / "net.py"]
    assert [file_address(str(file)) for file in files] == [
        "net.py", "../net.py", "../../net.py", "~/a/net.py", "~/net.py",
    ]  # fmt: skip
    monkeypatch.chdir(home)
    assert [file_address(str(file)) for file in (home / "net.py", tmp_path / "net.py")] == [
        "net.py", str(tmp_path / "net.py"),
    ]  # fmt: skip


@pytest.mark.parametrize("home", ["/home/bob", "/Users/bob", "/root", "C:\\Users\\bob", "file:///home/bob"])
def test_other_homes_are_homes(home: str) -> None:
    told = f'File "{home}/nets/bob.py", line 3, and at {home}/nets/x.py:4'
    assert short_paths(told).replace("file://", "") == 'File "~/nets/bob.py", line 3, and at ~/nets/x.py:4'


def test_nothing_is_cut_from_divisions_where_commands_run_in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert short_paths("h//2 == w//2 at /srv/net.py:3") == "h//2 == w//2 at /srv/net.py:3"


NET = """import torch
from torch.export import Dim


class Net(torch.nn.Module):
    def forward(self, x):
        import torch.nn.functional as F

        y = x.double().cumsum(0)
        return F.relu(y).float()


def build():
    return torch.export.export(Net(), (torch.ones(3, 4),), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
"""


def test_code_stays_as_it_was_written() -> None:
    part = {"code": "load('/home/bob/x')", "told": ["at /home/bob/net.py:3", 7], "file": "/home/bob/net.py"}
    assert with_short_paths(part) == {"code": "load('/home/bob/x')", "told": ["at ~/net.py:3", 7], "file": "~/net.py"}


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


def test_nothing_that_is_written_of_a_model_names_the_folder_of_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page with its packed downloads, JSON, SARIF, Markdown, notebook and text of a model and a file elsewhere.

    No format has links that open an editor, which alone would need a whole path.
    """
    home = tmp_path / "home" / "ada-lovelace"
    nets, runs = home / "work" / "nets", home / "work" / "runs"
    nets.mkdir(parents=True)
    runs.mkdir()
    (nets / "adas_net.py").write_text(NET)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.syspath_prepend(str(nets))
    monkeypatch.chdir(runs)
    saved = nets / "net.pt2"
    torch.export.save(importlib.import_module("adas_net").build(), saved)
    report = trtdiag.analyze(str(saved))
    assert {finding.rule for finding in report.findings} >= {"TYP402", "SYM201"}, "findings with places and messages"
    written = {name: report.rendering.text(name) for name in ("html", "json", "sarif", "markdown")}
    written["html"] += "".join(packed_texts(written["html"]).values())
    console = Console(file=io.StringIO(), width=100)
    print_summary(report.analysis, console)
    told = console.file.getvalue()
    written |= {"notebook": report._repr_html_() + repr(report), "text": told}
    for name, text in written.items():
        assert "ada-lovelace" not in text, name
    for name in ("html", "markdown", "notebook", "text"):
        assert "../nets/adas_net.py:9" in written[name], name
    assert '"file": "../nets/adas_net.py"' in written["json"]
    assert '"uriBaseId": "HOME"' in written["sarif"], "it is not below the working directory"


def test_what_fix_dims_advises_names_lines_as_its_reasons_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    advised = replace(fix().changes[0], model_change=Alternative(f"write -1 at {tmp_path}/net.py:17: x.view(3)"))
    answer = replace(fix(), changes=(advised,), notes=(f"not exported: {tmp_path}/net.py",))
    assert "or model  write -1 at net.py:17" in fix_text(answer)
    for text in (fix_text(answer), fix_snippet(answer)):
        assert "not exported: net.py" in text
        assert str(tmp_path) not in text
