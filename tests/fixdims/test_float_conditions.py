"""Conditions on sizes in floating point: what is answered runs at every size that it admits, and loses none beside."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

import trtdiag
from tests.harness.rows import each
from trtdiag.fixdims.fix import Fix

LOW, HIGH = 24, 56


class Decides(nn.Module):
    """Goes one way or the other by its two sizes."""

    def __init__(self, wide: Callable[[int, int], bool]) -> None:
        super().__init__()
        self.wide = wide

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if self.wide(x.shape[0], x.shape[1]) else x - 1


class LongestSide(nn.Module):
    """As images are scaled: int(49 * (64 / 49)) is 63."""

    def forward(self, x: Tensor) -> Tensor:
        scale = 64 / max(x.shape)
        side = math.trunc(max(x.shape) * scale)
        if side != 64:
            return x
        return x * 2


class SquareOfTokens(nn.Module):
    """Takes a square number of tokens."""

    def forward(self, x: Tensor) -> Tensor:
        side = math.trunc(x.shape[1] ** 0.5)
        return x.reshape(x.shape[0], side, side).relu()


class FirstTokens(nn.Module):
    """Keeps as many tokens as the root says."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, : math.trunc(torch.sym_sqrt(x.shape[1]))] * 2


class Levels(nn.Module):
    """A logarithm of a size is in no expression that is read."""

    def forward(self, x: Tensor) -> Tensor:
        levels = math.trunc(torch._sym_log2(torch.sym_float(x.shape[1])))
        return x.reshape(x.shape[0], levels, -1).relu()


class ScaledPositions(nn.Module):
    """As DINO scales its table of positions: torch.export makes numbers of the factors."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 2, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[0] // 8, x.shape[1] // 8
        return F.interpolate(self.table, scale_factor=((h + 0.1) / 4, (w + 0.1) / 4), mode="bicubic") + x.mean()


def fixed(model: nn.Module, height: int, width: int, low: int = LOW, high: int = HIGH) -> Fix:
    h, w = Dim("h", min=low, max=high), Dim("w", min=low, max=high)
    return trtdiag.fix_dims(model, (torch.ones(height, width),), dynamic_shapes={"x": {0: h, 1: w}})


def taken(fix: Fix, model: nn.Module) -> int:
    """How many sizes the exported answer takes; along its border it does what the model does."""
    args = fix.args if fix.args is not None else (torch.ones(40, 30),)
    program = torch.export.export(model, tuple(args), dynamic_shapes=fix.dynamic_shapes)
    shape = next(node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder")
    ranges = [program.range_constraints[size.node.expr] for size in shape]
    heights, widths = (range(max(LOW, int(r.lower)), min(HIGH, int(r.upper)) + 1) for r in ranges)
    module = program.module()
    for height, width in product(heights, widths):
        if height in (heights[0], heights[-1]) or width in (widths[0], widths[-1]):
            x = torch.ones(height, width)
            assert torch.equal(module(x), model(x)), (height, width)
    return len(heights) * len(widths)


# 50 * 0.6 is 30.0, 40 * 1.1 is more than 44.0, 33 / 30 is 1.1.
DECIDING: dict[str, Callable[[int, int], bool]] = {
    "0.6*h >= w": lambda h, w: h * 0.6 >= w,
    "1.1*h > w": lambda h, w: h * 1.1 > w,
    "h/w >= 1.1": lambda h, w: h / w >= 1.1,
}


@pytest.mark.slow  # quick: such comparisons are held to Python's in tests/symbolic
@each("name", DECIDING)
def test_factors_and_quotients_are_compared_as_python_does(name: str) -> None:
    wide = DECIDING[name]
    model = Decides(wide)
    fix = fixed(model, 40, 30)
    assert fix.proven
    if wide(40, 30):
        kept = [(HIGH + 1 - h) * (w + 1 - LOW) for h in range(LOW, 41) for w in range(30, HIGH + 1) if wide(h, w)]
    else:
        kept = [(h + 1 - LOW) * (HIGH + 1 - w) for h in range(40, HIGH + 1) for w in range(LOW, 31) if not wide(h, w)]
    assert taken(fix, model) == max(kept)


@pytest.mark.slow  # quick: tests/symbolic holds such expressions to Python's
def test_a_quotient_that_is_told_by_its_float_is_found() -> None:
    model = Decides(lambda h, w: h / w == 20 / 13)
    fix = fixed(model, 40, 26)
    assert fix.proven
    assert taken(fix, model) > 1


@pytest.mark.slow  # quick: tests/symbolic holds such expressions to Python's
def test_the_scale_of_the_longest_side_is_no_fraction() -> None:
    model = LongestSide()
    fix = fixed(model, 40, 30)
    assert fix.proven
    assert fix.outcome.value == "changed"  # at 49 the side is 63
    assert taken(fix, model) == 25 * 25


@pytest.mark.slow  # quick: tests/symbolic holds such a sum to Python's
def test_a_factor_with_a_tenth_more_is_one_number_of_patches() -> None:
    model = ScaledPositions()
    fix = fixed(model, 40, 30)
    assert fix.proven
    assert [change.kept for change in fix.changes] == [(8, 33), (8, 33)]
    assert all("size=..." in change.model_change.text for change in fix.changes if change.model_change)
    program = fix.program.module()
    for size in ((40, 24), (47, 31), (43, 29)):
        x = torch.rand(size)
        assert torch.equal(program(x), model(x))


def test_a_condition_that_is_not_read_offers_no_programs_and_ends_in_no_traceback() -> None:
    asked = (Levels(), (torch.ones(2, 16),), {}, {"x": {1: Dim("n", min=1, max=64)}})
    assert {finding.rule for finding in trtdiag.analyze(asked).findings} >= {"GRD305"}
    fix = trtdiag.fix_dims(asked)
    assert fix.proven
    assert fix.several is None


def test_a_root_keeps_all_sizes_that_have_one() -> None:
    model = FirstTokens()
    fix = trtdiag.fix_dims(model, (torch.ones(2, 36),), dynamic_shapes={"x": {1: Dim("n", min=1, max=90)}})
    assert fix.proven
    (change,) = fix.changes
    assert change.kept == (87, 90)  # the root of 1 to 3 is 1, which torch.export takes for a constant
    program = fix.program.module()
    for size in (4, 8, 9, 48, 49, 80, 81, 90):
        x = torch.rand(2, size)
        assert torch.equal(program(x), model(x)), size


@pytest.mark.slow  # quick: a root that any size has
def test_squares_that_are_evenly_apart_are_one_dim() -> None:
    model = SquareOfTokens()
    fix = trtdiag.fix_dims(model, (torch.ones(2, 36),), dynamic_shapes={"x": {1: Dim("n", min=1, max=64)}})
    assert fix.proven
    assert [change.kept for change in fix.changes] == [(2, 64)]  # 25 and 36, and no three squares lie evenly
    program = fix.program.module()
    for size in (25, 36):
        x = torch.rand(2, size)
        assert torch.equal(program(x), model(x))


class JoinedWindows(nn.Module):
    """As windows of attention are put together again: the batch from the number of windows."""

    def __init__(self, left_open: bool = False) -> None:
        super().__init__()
        self.left_open = left_open

    def forward(self, x: Tensor) -> Tensor:
        windows = x.reshape(-1, 4)
        if self.left_open:
            batch = math.trunc(windows.shape[0] / (x.shape[1] / 4))
        else:
            batch = int(windows.shape[0] / (x.shape[1] / 4))
        return windows.view(batch, x.shape[1] // 4, 4).sum(1)


def test_a_batch_that_int_makes_a_number_is_said_of_int_and_not_of_the_view_behind_it() -> None:
    asked = {"x": {0: Dim("b", max=6), 1: 4 * Dim("_t", min=2, max=8)}}
    fix = trtdiag.fix_dims(JoinedWindows(), (torch.rand(3, 20),), dynamic_shapes=asked)
    (change,) = fix.changes
    assert len(change.why) == 1
    assert change.model_change.text.startswith("export with strict=True, or write math.trunc(...) in place of int(...)")
    assert change.model_change.kept is None  # a batch of 1 stays out


@pytest.mark.slow  # quick: that this is advised
def test_windows_that_are_counted_without_int_take_every_batch() -> None:
    asked = {"x": {0: Dim("b", max=6), 1: 4 * Dim("_t", min=2, max=8)}}
    model = JoinedWindows(left_open=True)
    program = torch.export.export(model, (torch.rand(3, 20),), dynamic_shapes=asked).module()
    for size in ((2, 8), (5, 32), (6, 20)):
        x = torch.rand(size)
        assert torch.equal(program(x), model(x))
