"""Engines that are built again from their networks: in Python and by the command."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import trtdiag
from trtdiag.cli.main import main


def _compiled(**changes: object) -> trtdiag.CompiledProgram:
    x = trtdiag.Input((1, 5), (4, 5), (8, 5))
    usual = {"backend": "reference", "target": "10.16", "verify": False, "min_segment_ops": 0}
    return trtdiag.compile(nn.Linear(5, 3).eval(), inputs=[x], **{**usual, **changes})  # type: ignore[arg-type]


def _ended(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    return int(ended.value.code or 0)


@pytest.mark.slow  # quick: test_the_command_writes_another_file
def test_a_program_is_rebuilt_as_it_was_compiled(tmp_path: Path) -> None:
    before = _compiled(portable=True, build_jobs=2, truncate_double=True)
    trtdiag.save(before, tmp_path / "a.ep")
    steps: list[str] = []
    again = trtdiag.rebuild(tmp_path / "a.ep", progress=steps.append)
    assert again.manifests[0].target == "10.16"
    assert again.manifests[0].inputs == before.manifests[0].inputs
    assert again.networks == before.networks
    assert again.options is not None
    assert (again.options.build_jobs, again.options.truncate_double, again.options.portable) == (2, True, True)
    assert again.build_s is not None
    assert any("building" in step for step in steps)
    x = torch.randn(7, 5)
    torch.testing.assert_close(again(x), before(x))


def test_what_is_named_counts_instead() -> None:
    before = _compiled()
    again = trtdiag.rebuild(before, "reference", target="8.6", optimization_level=1, portable=True)
    assert again.manifests[0].target == "8.6"
    assert again.options is not None
    assert (again.options.target, again.options.optimization_level) == ("8.6", 1)
    assert before.networks == ()
    assert len(again.networks) == 1  # an engine of the reference is its network
    plain = trtdiag.rebuild(before, options=trtdiag.CompileOptions(backend="reference"))
    assert plain.options is not None
    assert plain.options.optimization_level is None


def test_options_about_what_is_in_engines_are_refused() -> None:
    with pytest.raises(trtdiag.ArgumentError, match="there is no option 'precision'"):
        trtdiag.rebuild(_compiled(), precision="fp16")  # type: ignore[call-arg]
    with pytest.raises(trtdiag.UserError, match="is not a known target"):
        trtdiag.rebuild(_compiled(), target="3.1")
    with pytest.raises(trtdiag.UserError, match="there is no backend 'tensort'"):
        trtdiag.rebuild(_compiled(), "tensort")


def test_the_command_writes_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trtdiag.save(_compiled(portable=True), "a.ep")
    assert _ended("rebuild", "a.ep", "--target", "11.4", "--optimization-level", "2") == 0
    printed = capsys.readouterr().out
    assert "engine 0: reference for 11.4" in printed
    assert "rebuilt: a_rebuilt.pt2 (" in printed
    found = trtdiag.load("a_rebuilt.pt2")
    assert found.options is not None
    assert found.options.optimization_level == 2
    assert found(torch.randn(3, 5)).shape == (3, 3)
    assert _ended("rebuild", "a.ep", "-o", "a.ep") == 2
    assert "-o names COMPILED itself" in capsys.readouterr().err
    assert _ended("rebuild", "missing.ep", "-q") == 2
    assert _ended("rebuild", "a.ep", "--timing-cache", "a.ep") == 2
    assert "--timing-cache names COMPILED itself" in capsys.readouterr().err
