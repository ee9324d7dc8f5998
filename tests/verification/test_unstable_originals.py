"""What the original itself does not keep is no fault of the compiled program; nothing else is let off with it."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import pytest
import torch
from rich.console import Console

from tests.harness.rows import thinned
from tests.verification.masked_attention import (
    CHANNELS,
    Compiled,
    attention,
    exported,
    given_inputs,
    only,
    runs_of_the_original,
    verified,
)
from trtdiag.options import Precision
from trtdiag.report.compile_text import verification_text
from trtdiag.verification.facts import Tolerance, Verification


def test_other_rounding_at_a_threshold_passes_and_is_told() -> None:
    model, program = attention(spread=5e-3)
    found = verified(program, model.otherwise)
    result, output = only(found)
    assert found.passed
    assert found.unstable == (result,)
    usual = found.tolerance.absolute + found.tolerance.relative * float(model(*given_inputs(program)).abs().max())
    assert usual < output.max_abs <= output.allowed
    assert output.moved is not None
    assert output.allowed == pytest.approx(4 * output.moved)
    assert result.unstable == (
        f"the original itself moves by {output.moved:.1e} there when its inputs change by one unit in the last place; "
        f"the compiled program differs by {output.max_abs:.1e}"
    )
    (note,) = found.notes
    for words in ("at 1 set of sizes", "4 times its movement", "1e-02 of their magnitude", result.unstable):
        assert words in note


def test_a_wrong_program_at_a_threshold_fails() -> None:
    model, program = attention(spread=5e-3)
    found = verified(program, lambda x: model.otherwise(x) * 1.01)
    result, output = only(found)
    assert not found.passed
    assert (result.unstable, found.unstable, found.notes) == ("", (), ())
    assert output.moved is not None
    assert 0 < output.allowed < output.max_abs


def test_an_original_that_keeps_few_digits_does_not_let_everything_off() -> None:
    """It moves by more than the fault is large, and still half of the digits must agree."""
    model, program = attention(spread=1.0)
    found = verified(program, lambda x: model(x) * 1.05)
    _, output = only(found)
    assert not found.passed
    assert output.moved is not None
    assert output.max_abs < 4 * output.moved
    assert output.allowed == pytest.approx(1e-2 * float(model(*given_inputs(program)).abs().max()))


def test_a_fault_of_a_stable_program_fails() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 4)
    found = verified(exported(model, torch.rand(5, 16)), lambda x: model(x) + 2e-4 * model(x).abs().max())
    result, output = only(found)
    assert not found.passed
    assert result.unstable == ""
    assert output.moved is not None
    assert 0 < output.moved < output.max_abs / 100


HALF = Tolerance(4e-2, 1e-3, "that of float16")


def test_a_half_precision_is_beside_changes_of_its_own_size() -> None:
    """Every threshold is off by what float16 rounds and float32 does not."""
    model, program = attention(spread=0.5, off=2.0**-14)

    def compiled(x: torch.Tensor) -> torch.Tensor:
        return model.attended((x * (1 + 2.0**-12) * model.weight).cumsum(-1))

    found = verified(program, compiled, precision=Precision.FP16)
    result, output = only(found)
    assert found.passed
    assert found.tolerance.relative == HALF.relative
    assert "when its inputs change by 2**-11 of themselves" in result.unstable
    assert output.max_abs > HALF.absolute + HALF.relative * float(model(*given_inputs(program)).abs().max())
    kept = verified(program, compiled, tolerance=HALF)
    assert not kept.passed
    assert only(kept)[1].moved == 0


class Chooses(torch.nn.Module):
    """Which rows are above a threshold, and which of two columns is the greater one."""

    def __init__(self, threshold: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("threshold", threshold)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x[:, 0] * 2
        return y > self.threshold, torch.stack([y, self.threshold, y - 10], -1).argmax(-1)


def _chosen(change: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]) -> Verification:
    x = torch.rand(8, 2, generator=torch.Generator().manual_seed(1)) + 2
    (given,) = given_inputs(exported(Chooses(torch.zeros(8)), x))
    threshold = given[:, 0] * 2
    threshold[4:] = 0  # far from it
    model = Chooses(threshold)
    return verified(exported(model, x), lambda x: change(*model(x)))


def test_integers_and_bools_pass_where_the_original_gives_the_same_in_one_of_its_runs() -> None:
    first = torch.arange(8) < 4
    found = _chosen(lambda above, greatest: (above ^ first, torch.where(first, 1 - greatest, greatest)))
    assert found.passed
    (result,) = found.results
    assert [output.unstable for output in result.outputs] == [True, True]
    for change in (
        lambda above, greatest: (~above, greatest),  # in elements, too, that the original keeps
        lambda above, greatest: (above, torch.where(first, 2, greatest)),  # the column that is never the greatest
    ):
        found = _chosen(change)
        assert not found.passed
        assert found.unstable == ()


# Quick: the ends.
@thinned(
    ("change", "why"),
    [
        (lambda y: torch.where(torch.arange(CHANNELS) < 1, math.nan, y), "not finite"),
        (lambda y: torch.where(torch.arange(CHANNELS) < 1, math.inf, y), "not finite"),
        (lambda y: y[:, :-1], f", {CHANNELS - 1}), not ("),
        (lambda y: y.double(), "it is torch.float64, not torch.float32"),
    ],
    every=9,
)
def test_what_no_movement_explains_fails(change: Compiled, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of_the_original(monkeypatch)
    model, program = attention(spread=5e-3)
    found = verified(program, lambda x: change(model.otherwise(x)))
    _, output = only(found)
    assert not found.passed
    assert why in output.why
    told = io.StringIO()
    Console(file=told, width=200).print(verification_text(found, {}))
    assert ("max abs" in told.getvalue()) is output.compared is ("finite" in why)
    assert len(runs) == 1


class Selects(torch.nn.Module):
    """As many rows as are above a threshold."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > self.threshold]


def test_an_original_whose_shape_moves_has_no_movement() -> None:
    x = torch.full((8,), 0.3)
    model = Selects(float(torch.nextafter(x[0], torch.tensor(0.0))))
    found = verified(exported(model, x), lambda x: model(x) * 1.001)
    _, output = only(found)
    assert (found.passed, output.shape, output.moved) == (False, (8,), None)
