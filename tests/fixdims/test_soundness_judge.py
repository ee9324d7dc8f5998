"""The judge of exports: it must refuse what is known to be unsound, and accept what is known to be sound."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.harness.admitted import Ask, admitted, asked_dims
from tests.harness.best_dim import best_progression, measured_values
from tests.harness.soundness import Judgement, judge, repeated


class Rows(nn.Module):
    """Takes lengths that are multiples of ``step``."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1] // self.step, self.step).sum(-1)


class Added(nn.Module):
    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.cat([a, b], 1) + c


class Cut(nn.Module):
    """Reads how much to keep from data; ``count`` rows are written into a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, *, x: Tensor, count: Tensor) -> Tensor:
        self.seen.add_(1)
        return x[:, : count.item()].sum(1) + self.seen


def judged(ask: Ask, asked: Any = None) -> Judgement:
    program = torch.export.export(ask.model, ask.args, dict(ask.kwargs) or None, dynamic_shapes=ask.dynamic_shapes)
    return judge(program, ask, asked_dims(ask) if asked is None else asked)


@pytest.mark.slow  # quick: what else this judge of tests refuses
def test_a_derived_dim_whose_guard_torch_never_compares_is_refused() -> None:
    half = Dim("half", min=4, max=100)
    found = judged(Ask(Rows(8), (torch.ones(3, 16),), {}, ({1: 2 * half},)))
    assert not found.sound
    refused = {failure.point["half"] for failure in found.failures}
    # 2*half must be a multiple of 8, and 8 itself is taken for a constant 1 by the export.
    assert refused == {value for value in range(4, 101) if value % 4 or value == 4}


def test_the_right_derived_dim_is_accepted() -> None:
    part = Dim("part", min=2, max=25)
    found = judged(Ask(Rows(8), (torch.ones(3, 16),), {}, ({1: 8 * part},)))
    assert found.sound
    assert found.guarded == 24
    assert 10 < found.points <= 24


def test_sizes_outside_the_asked_range_do_not_count() -> None:
    part, wide = Dim("part", min=1, max=25), Dim("length", min=9, max=200)
    example = (torch.ones(3, 16),)
    asked = asked_dims(Ask(Rows(8), example, {}, ({1: wide},)))
    assert not judged(Ask(Rows(8), example, {}, ({1: 8 * part},)), ()).sound
    assert judged(Ask(Rows(8), example, {}, ({1: 8 * part},)), asked).sound


@pytest.mark.slow  # quick: the right derived dim is accepted, and bounds of hints
def test_a_dim_that_torch_makes_follow_others_in_silence_is_refused_where_it_was_declared_free() -> None:
    a, b, c = Dim("a", min=2, max=50), Dim("b", min=2, max=50), Dim("c", min=4, max=100)
    example = (torch.ones(2, 5), torch.ones(2, 7), torch.ones(2, 12))
    free = Ask(Added(), example, {}, ({1: a}, {1: b}, {1: c}))
    assert not judged(free).sound
    follows = Ask(Added(), example, {}, ({1: a}, {1: b}, {1: Dim.AUTO}))
    found = judged(follows)
    assert found.sound
    program = torch.export.export(Added(), example, dynamic_shapes=follows.dynamic_shapes)
    of = admitted(program, follows, asked_dims(free))
    assert [len(of.kept(one)) for one in of.asked] == [49, 49, 97]  # c from 4 to 100


@pytest.mark.slow  # quick: what else this judge of tests refuses
def test_the_bounds_of_a_hint_are_a_promise() -> None:
    ask = Ask(nn.Linear(4, 4), (torch.ones(3, 4),), {}, ({0: Dim.DYNAMIC(min=1, max=64)},))
    program = torch.export.export(ask.model, ask.args, dynamic_shapes=ask.dynamic_shapes)
    (axis,) = admitted(program, ask).axes
    assert (axis.low, axis.high) == (1, 64)
    assert judge(program, ask).sound
    promised = Ask(Rows(8), (torch.ones(3, 16),), {}, ({1: Dim.DYNAMIC(min=9, max=200)},))
    assert not judged(promised).sound


def test_real_tensors_are_used_where_values_are_read() -> None:
    ask = Ask(
        Cut(), (), {"x": torch.randn(2, 9), "count": torch.tensor(4)}, {"x": {1: Dim("n", max=64)}, "count": None}
    )
    found = judged(ask)
    assert found.sound
    assert found.real == found.points > 0


@pytest.mark.parametrize("size", [1, 4, 7, 17])
def test_examples_are_repeated_or_cut(size: int) -> None:
    made = repeated(torch.arange(6).reshape(2, 3), (2, size))
    assert made.shape == (2, size)
    assert made[1].tolist() == [3 + index % 3 for index in range(size)]


def test_measured_texts_give_their_values() -> None:
    assert measured_values("640..1600 step 320", 4) == [640, 960, 1280, 1600]
    assert measured_values("6..12 with v%3 in [0, 1]", 5) == [6, 7, 9, 10, 12]
    assert measured_values("{32}", 1) == [32]
    assert measured_values("17..40 with v%8 in [1, 2]..(3)", 9) == [17, 18, 19, 25, 26, 27, 33, 34, 35]
    assert measured_values("17..40 with v%8 in [1, 2]..(3)", 8) is None
    assert measured_values("irregular n=1014 8..1024", 1014) is None


def test_the_best_progression_has_the_example_in_it() -> None:
    values = [8, 11, 12, *range(14, 30)]
    assert best_progression(values, 16) == 16
    assert best_progression(values, 8) == 8  # 8, 11, 14, ..., 29: by 1 and by 2 the next one is missing
    assert best_progression(values, 9) == 0
