"""What results show of themselves: a few lines, whatever they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import trtdiag
from trtdiag import Input
from trtdiag.benchmark.facts import Benchmark, SizeResult, Spread, WayResult
from trtdiag.verification.facts import OutputError, Point, PointResult, Tolerance, Verification
from trtdiag.wording import told_name

TOLERANCE = Tolerance(1e-4, 1e-6, "a test")
MANY = 500


class Many(nn.Module):
    def forward(self, *rest: Tensor) -> Tensor:
        return torch.relu(torch.stack(rest).sum(0))


def _point(label: str, **given: Any) -> PointResult:
    return PointResult(Point(label, {"n": 3}), **given)


def _output(passed: bool, name: str = "out", why: str = "") -> OutputError:
    return OutputError(name, "float32", (3,), 1.0, 0.25, 0.1, passed, why)


VERIFICATIONS: Mapping[str, tuple[Verification, str]] = {
    "agrees": (
        Verification((_point("example", outputs=(_output(True),)), _point("max", skipped="too large")), TOLERANCE),
        "Verification(1 of 1 points agree, 1 were not compared; out: at most 2.5e-01 of its magnitude off; "
        "allowed is 0.0001 of the magnitude)",
    ),
    "differs": (
        Verification((_point("example", outputs=(_output(True), _output(False, why="NaN"))),), TOLERANCE),
        "Verification(0 of 1 points agree; out: NaN; allowed is 0.0001 of the magnitude)",
    ),
    "fails": (
        Verification((_point("n max", failed="out of memory"),), TOLERANCE),
        "Verification(0 of 1 points agree; at n max it failed: out of memory)",
    ),
    "unknown": (
        Verification((_point("example", skipped="no example"),), TOLERANCE),
        "Verification(no point could be compared: no example)",
    ),
    "empty": (Verification((), TOLERANCE), "Verification(no point could be compared: there were none)"),
}


@pytest.mark.parametrize("name", VERIFICATIONS)
def test_a_verification_says_how_it_ended(name: str) -> None:
    found, words = VERIFICATIONS[name]
    assert repr(found) == words


def test_a_benchmark_has_a_line_for_each_set_of_sizes() -> None:
    times = Spread(1.25, 1.0, 1.5, 10), Spread(2.5, 2.0, 3.0, 10)
    ways = (
        WayResult("trtdiag", ms=times[0], ratio=1.0),
        WayResult("eager", ms=times[1], ratio=2.0),
        WayResult("onnx-trt"),
    )
    results = tuple(SizeResult(f"n={size}", {"n": size}, (), ways) for size in range(MANY))
    found = Benchmark("cpu", "reference", None, "2.13", "keep", 8, (), results)
    first, line, *_, last = repr(found).splitlines()
    assert first == "Benchmark on cpu, engines of reference, precision keep"
    assert line == "  n=0: trtdiag 1.25 ms, eager 2.5 ms (2.00x), onnx-trt cannot run here"
    assert last == "  and 496 more sizes"


def test_a_compiled_program_says_its_engines_and_what_it_takes() -> None:
    x = Input((1, 3), (2, 3), (8, 3))
    compiled = trtdiag.compile(Many(), inputs=[x] * 6, backend="reference", target="10.16", min_segment_ops=0)
    engines, takes, verdict = repr(compiled).splitlines()
    assert engines.startswith("CompiledProgram(1 engine of reference for 10.16, ")
    assert takes.startswith("  takes rest[0]: float32[1..8, 3], rest[1]: float32[1..8, 3], ")
    assert takes.endswith(", and 2 more")
    assert verdict == f"  {compiled.report.verdict})"  # type: ignore[attr-defined]
    again = trtdiag.CompiledProgram(compiled.exported_program)
    assert repr(again).count("\n") == 1
    exported = torch.export.export(nn.ReLU(), (torch.ones(2),))
    assert repr(trtdiag.CompiledProgram(exported)).startswith("CompiledProgram(0 engines, all runs in PyTorch\n")


def test_a_fix_says_what_changes() -> None:
    text = "Constraints violated (h)!\nSuggested fixes:\n  h = 8*_h\n"
    fix = trtdiag.fix_dims(text)
    first, *changes = repr(fix).splitlines()
    assert first == "Fix(label='the given text', changed, not proven, not exported)"
    assert len(changes) == 1
    assert "-> 8*_h" in changes[0]
    lines = "".join(f"  h{number} = 8*_h{number}\n" for number in range(30))
    many = trtdiag.fix_dims(f"Constraints violated (h0)!\nSuggested fixes:\n{lines}")
    assert repr(many).splitlines()[-1] == "  and 26 more"


def test_names_are_shown_on_one_line_and_cut() -> None:
    assert told_name("x.shape[0]") == "x.shape[0]"
    assert told_name("a\x1b[31mb\n") == r"'a\x1b[31mb\n'"
    assert len(told_name("x" * 10_000)) < 100
