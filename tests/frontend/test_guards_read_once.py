"""The guards of a program are read once, whichever stage asks; what is read goes with the program."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
import torch
from torch.export import Dim

from trtdiag.frontend import read_guards
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program, RawGuard
from trtdiag.pipeline.analyze import analyze


class Windows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0] // 7, 7, 3).sum(1) if x.shape[0] > 20 else x


def _program() -> Program:
    return capture((Windows(), (torch.randn(28, 3),), {}, {"x": {0: 7 * Dim("windows", min=3, max=9)}}))


@pytest.mark.slow  # quick: what is read of guards, in tests/dims
def test_an_analysis_reads_every_guard_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    for name in ("from_sympy", "parse_condition"):
        original = getattr(read_guards, name)
        monkeypatch.setattr(read_guards, name, lambda what, *more, do=original: seen.append(what) or do(what, *more))
    program = _program()
    assert program.guards
    assert program.exported is not None

    report = analyze(program.exported)

    assert len(seen) == len(report.analysis.program.guards)


def test_a_guard_that_cannot_be_read_says_why() -> None:
    program = replace(_program(), guards=(RawGuard("L['y'].size()[0] > 3", "test"), RawGuard("x.shape[0] + 1", "test")))

    unnamed, number = read_guards.read_guards(program)

    assert (unnamed.condition, number.condition) == (None, None)
    assert unnamed.why == "L['y'].size()[0] is no dim of an input"
    assert "it is a number, not a condition" in number.why


def test_what_is_read_goes_with_the_program() -> None:
    gc.freeze()  # what other tests left is not looked through below
    program = _program()
    found = read_guards.read_guards(program)
    assert read_guards.read_guards(program) is found
    changed = replace(program, guards=program.guards[:1])
    assert len(read_guards.read_guards(changed)) == 1
    key = id(program)
    assert key in read_guards._READ
    del program, found
    gc.collect()
    assert key not in read_guards._READ
