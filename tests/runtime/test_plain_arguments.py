"""Numbers, texts and ``None`` among the arguments: those that may vary, and those that a program was exported for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export, save

import trtdiag
from trtdiag.errors import ShapeOutOfRangeError, UserError
from trtdiag.runtime.compiled import CompiledProgram

CONSTANTS = {"k": 2, "f": 0.5, "b": True, "s": "relu", "t": None}


class Constants(nn.Module):
    def forward(self, x: Tensor, given: dict[str, Any]) -> Tensor:
        y = x * given["k"] + given["f"] + int(given["b"])
        y = y.relu() if given["s"] == "relu" else y
        return y if given["t"] is None else y + given["t"]


class First(nn.Module):
    """The first ``k`` rows, as of a cache that is filled so far."""

    def forward(self, x: Tensor, k: int) -> tuple[Tensor, int]:
        return x[:k] * k, k + x.shape[0]


def first() -> ExportedProgram:
    dims = {"x": {0: Dim("n", min=6, max=16)}, "k": Dim.DYNAMIC(min=2, max=9)}
    return export(First(), (torch.randn(9, 3), 3), dynamic_shapes=dims)


@pytest.fixture(scope="module")
def constants() -> CompiledProgram:
    return trtdiag.compile(export(Constants(), (torch.randn(4, 3), CONSTANTS)), backend="reference", min_segment_ops=0)


@pytest.fixture(scope="module")
def integer() -> CompiledProgram:
    return trtdiag.compile(first(), backend="reference", min_segment_ops=0)


def refusal(call: Any, *args: Any) -> tuple[str, str]:
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            call(*args)
    return caught.value.reference, f"{caught.value.message}; {caught.value.because}"


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"k": 3}, "it is 3; it takes 2"),
        ({"k": 2.0}, "it is 2.0; it takes 2"),  # of integers it would make floats
        ({"k": torch.tensor(2)}, "it is a Tensor; it takes 2"),
        ({"f": 0.25}, "it is 0.25; it takes 0.5"),
        ({"b": False}, "it is False; it takes True"),
        ({"b": 1}, "it is 1; it takes True"),
        ({"s": "gelu"}, "it is 'gelu'; it takes 'relu'"),
        ({"t": torch.ones(3)}, "it is a Tensor; it takes None"),  # torch's own module does not look at it
        ({"t": 0}, "it is 0; it takes None"),
    ],
)
def test_what_a_program_was_not_exported_for_is_refused(
    constants: CompiledProgram, changes: dict[str, Any], because: str
) -> None:
    x, (name,) = torch.randn(4, 3), changes
    assert torch.equal(constants(x, CONSTANTS), Constants()(x, CONSTANTS))
    told = f"the input given['{name}'] is not what the program was compiled for; {because}"
    assert refusal(constants, x, {**CONSTANTS, **changes}) == ("input-value", told)


@pytest.mark.parametrize(
    ("k", "reference", "because"),
    [
        (1, "input-value", "it is 1; it takes 2 to 9"),
        (10, "input-value", "it is 10; it takes 2 to 9"),
        (-3, "input-value", "it is -3; it takes 2 to 9"),
        (3.0, "input-kind", "it is 3.0; it takes an int"),
        (True, "input-kind", "it is True; it takes an int"),
        (None, "input-kind", "it is None; it takes an int"),
        (torch.tensor(3), "input-kind", "it is a Tensor; it takes an int"),
    ],
)
def test_an_integer_outside_of_its_range_is_refused(
    integer: CompiledProgram, k: Any, reference: str, because: str
) -> None:
    told = f"the input k is not what the program was compiled for; {because}"
    assert refusal(integer, torch.randn(8, 3), k) == (reference, told)


def test_an_integer_that_a_guard_refuses_beside_a_size_is_told_with_it(integer: CompiledProgram) -> None:
    with pytest.raises(ShapeOutOfRangeError) as caught:
        integer(torch.randn(6, 3), 7)
    assert caught.value.because == "x.shape[0] is 6, k is 7; allowed is k >= 0 and k <= x.shape[0]"


def test_a_program_is_compared_at_other_integers_than_its_example(integer: CompiledProgram) -> None:
    facts = integer.report.analysis.compilation  # type: ignore[attr-defined]
    points = [result.point.sizes for result in facts.verification.results if not result.skipped]
    (k,) = {symbol for symbol, name in integer.report.analysis.program.names.items() if name == "k"}  # type: ignore[attr-defined]
    assert {2, 3, 9} <= {sizes[k] for sizes in points}, "it was compared at the example's alone"
    for rows, first_rows in ((6, 2), (9, 9), (16, 7)):
        x = torch.randn(rows, 3)
        got, want = integer(x, first_rows), First()(x, first_rows)
        assert torch.equal(got[0], want[0])
        assert got[1] == want[1]


def test_guards_on_integers_are_read_from_files_too(tmp_path: Path) -> None:
    save(first(), tmp_path / "first.pt2")
    report = trtdiag.analyze(tmp_path / "first.pt2")
    assert report.analysis.dims.unparsed == ()
    guards = {each.text: each.verdict.value for each in report.analysis.dims.constraints}
    assert guards["k <= x.shape[0]"] == "breaks"  # 9 rows of 6
    (finding,) = report.analysis.findings
    # No Dim can say it of an integer, and calls of the compiled program refuse it.
    assert (finding.rule, finding.severity.value) == ("GRD301", "warning")
    assert finding.fix.title == "give k the values that work, as Dim.DYNAMIC(min=..., max=...); calls refuse all others"


def test_what_fix_dims_does_not_solve_for_is_not_called_proven() -> None:
    dims = {"x": {0: Dim("n", min=9, max=16)}, "k": Dim.DYNAMIC(min=2, max=9)}
    fix = trtdiag.fix_dims(First(), (torch.randn(10, 3), 3), dynamic_shapes=dims)
    assert not fix.proven
    assert {each.why for each in fix.unread} == {"it speaks of k, an integer, and only sizes are solved for"}


@pytest.mark.slow  # quick: sizes that are made of symbols, in calls as they are, in test_compiled_calls.py
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_compiled_program_inside_torch_compile_takes_sizes_and_integers_that_vary(dynamic: bool | None) -> None:
    """Sizes were divided as fractions, which Dynamo traces into Python's own module, and cannot."""
    program = trtdiag.compile(first(), backend="reference", min_segment_ops=0, verify=False)
    torch._dynamo.reset()
    fast = torch.compile(lambda x, k: program(x + 1, k), backend="eager", dynamic=dynamic)
    for rows, k in ((9, 3), (8, 4), (16, 9), (7, 7)):
        x = torch.randn(rows, 3)
        got, want = fast(x, k), First()(x + 1, k)
        assert torch.equal(got[0], want[0])
        assert got[1] == want[1]
    with pytest.raises(ShapeOutOfRangeError, match=r"x\.shape\[0\] is 17|the input x has a size"):
        fast(torch.randn(17, 3), 4)


class Pairs(nn.Module):
    def forward(self, x: Tensor, k: int) -> Tensor:
        return x.reshape(x.shape[0] // 2, 2, 3)[:k].sum(1)


def test_an_integer_has_its_name_where_the_export_is_refused_for_a_size() -> None:
    dims = {"x": {0: Dim("n", min=6, max=16)}, "k": Dim.DYNAMIC(min=2, max=3)}
    fix = trtdiag.fix_dims(Pairs(), (torch.randn(10, 3), 3), dynamic_shapes=dims)
    texts = [reason.text for change in fix.changes for reason in change.why]
    assert any(text.startswith("k ") for text in texts), texts
    assert not any(re.search(r"\bs\d+", text) for text in texts), texts
    # It was read: what follows from it is not worked out.
    assert str(fix).startswith(f"n must change: not proven ({len(fix.unread)} conditions speak of integers)")
    assert "\nNot solved for, so nothing is proven:\n" in str(fix)
