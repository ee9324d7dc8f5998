"""Rotary position embedding in the ways that models write it: one layer where TensorRT has it, the same bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache

import pytest
import torch
from _pytest.mark import ParameterSet
from torch import nn
from torch.export import Dim, ExportedProgram, export

from tests.harness.rows import thinned
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State

Turn = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
BATCH, STEPS = Dim("batch", min=1, max=5), Dim("steps", min=1, max=13)
SIZES = ((1, 1), (2, 7), (5, 13))
TARGETS = ("10.16", "11.4", "rtx-1.4", "rtx-1.7")
_FREQUENCIES = 1 / 100 ** (torch.arange(5) / 5)


def _angles(positions: torch.Tensor) -> torch.Tensor:
    return positions[..., None].float() * _FREQUENCIES


def _half(x: torch.Tensor) -> torch.Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), -1)


def _neighbour(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def llama(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    doubled = torch.cat((_angles(positions),) * 2, -1)
    cos, sin = ((turn * 1.5).to(x.dtype).unsqueeze(1) for turn in (doubled.cos(), doubled.sin()))
    return x * cos + _half(x) * sin


def the_other_way_round(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    doubled = torch.cat((_angles(positions),) * 2, -1)
    return doubled.sin()[:, None] * _half(x) + doubled.cos()[:, None] * x


def one_position_for_all(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    doubled = torch.cat((_angles(torch.arange(positions.shape[1])[None]),) * 2, -1)
    return x * doubled.cos()[:, None] + _half(x) * doubled.sin()[:, None]


def rows_of_a_table(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    table = torch.cat((_angles(torch.arange(20)),) * 2, -1)
    cos, sin = table.cos()[positions][:, None], table.sin()[positions][:, None]
    return x * cos + _half(x) * sin


def heads_behind_steps(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    doubled = torch.cat((_angles(positions),) * 2, -1)
    cos, sin, y = doubled.cos()[:, :, None], doubled.sin()[:, :, None], x.transpose(1, 2)
    return (y * cos + _half(y) * sin).transpose(1, 2)


def gpt_j(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    angles = _angles(positions)
    cos, sin = (torch.repeat_interleave(turn, 2, -1)[:, None] for turn in (angles.cos(), angles.sin()))
    return x * cos + _neighbour(x) * sin


def halves_of_their_own(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    cos, sin = _angles(positions).cos()[:, None], _angles(positions).sin()[:, None]
    first, second = torch.chunk(x, 2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def a_part(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    return torch.cat((llama(x[..., :10], positions), x[..., 10:]), -1)


FORMS: dict[str, tuple[Turn, int]] = {
    "llama": (llama, 10),
    "the_other_way_round": (the_other_way_round, 10),
    "one_position_for_all": (one_position_for_all, 10),
    "rows_of_a_table": (rows_of_a_table, 10),
    "heads_behind_steps": (heads_behind_steps, 10),
    "gpt_j": (gpt_j, 10),
    "halves_of_their_own": (halves_of_their_own, 10),
    "a_part": (a_part, 13),
}


QUICK = ("llama",)


def _slow(names: Iterable[str]) -> list[ParameterSet]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


class _Both(nn.Module):
    """Queries and keys, as in a model."""

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn

    def forward(self, query: torch.Tensor, key: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.turn(query, positions), self.turn(key, positions)


def _inputs(batch: int, steps: int, width: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    query, key = torch.randn(batch, 6, steps, width), torch.randn(batch, 2, steps, width)
    return query.to(dtype), key.to(dtype), torch.randint(0, 20, (batch, steps))


@cache
def _exported(turn: Turn, width: int, dtype: torch.dtype) -> ExportedProgram:
    dims = {"query": {0: BATCH, 2: STEPS}, "key": {0: BATCH, 2: STEPS}, "positions": {0: BATCH, 1: STEPS}}
    return export(_Both(turn).eval(), _inputs(2, 7, width, dtype), dynamic_shapes=dims)


def _compiled(turn: Turn, width: int, target: str, dtype: torch.dtype = torch.float32) -> State:
    return compile_in_stages(_exported(turn, width, dtype), CompileOptions(target, "reference", verify=False))


def _kinds(found: State) -> Counter[str]:
    (one,) = found.converted
    return Counter(placed.layer.kind for placed in one.network.layers if placed.layer.kind != "Constant")


def _agrees(found: State, turn: Turn, width: int, dtype: torch.dtype = torch.float32) -> None:
    for batch, steps in SIZES:
        inputs = _inputs(batch, steps, width, dtype)
        for got, want in zip(found.compiled(*inputs), _Both(turn)(*inputs), strict=True):
            assert torch.equal(got, want)


@pytest.mark.parametrize("form", _slow(FORMS))
def test_a_form_becomes_one_layer(form: str) -> None:
    turn, width = FORMS[form]
    found, old = _compiled(turn, width, "11.4"), _compiled(turn, width, "8.6")
    assert _kinds(found)["RotaryEmbedding"] == 2
    assert _kinds(old)["RotaryEmbedding"] == 0
    assert _kinds(found).total() < _kinds(old).total()
    _agrees(found, turn, width)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_that_has_it(target: str) -> None:
    assert _kinds(_compiled(llama, 10, target))["RotaryEmbedding"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_fewer_bits(dtype: torch.dtype) -> None:
    found = _compiled(llama, 10, "11.4", dtype)
    assert _kinds(found)["RotaryEmbedding"] == 2
    _agrees(found, llama, 10, dtype)


@pytest.mark.slow
def test_a_part_is_taken_by_the_layer_itself() -> None:
    kinds = _kinds(_compiled(a_part, 13, "11.4"))
    assert kinds["Concatenation"] == _kinds(_compiled(llama, 10, "11.4"))["Concatenation"]


# What looks like it: the halves of cosines differ, a sign or a place is another, or x is.
def _cosines_of_their_own(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    wide = torch.cat((_angles(positions), _angles(positions) + 1), -1)
    return x * wide.cos()[:, None] + _half(x) * wide.sin()[:, None]


def _sines_of_their_own(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    doubled = torch.cat((_angles(positions),) * 2, -1)
    other = torch.cat((_angles(positions), _angles(positions) * 2), -1)
    return x * doubled.cos()[:, None] + _half(x) * other.sin()[:, None]


def _turned_back(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    doubled = torch.cat((_angles(positions),) * 2, -1)
    first, second = x.chunk(2, -1)
    return x * doubled.cos()[:, None] + torch.cat((second, -first), -1) * doubled.sin()[:, None]


def _of_another(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    doubled = torch.cat((_angles(positions),) * 2, -1)
    return x * doubled.cos()[:, None] + _half(x.exp()) * doubled.sin()[:, None]


def _neighbours_by_halves(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    doubled = torch.cat((_angles(positions),) * 2, -1)
    return x * doubled.cos()[:, None] + _neighbour(x) * doubled.sin()[:, None]


def _each_head_its_own(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    doubled = torch.cat((_angles(positions),) * 2, -1)[:, None] * torch.arange(1, 1 + x.shape[1])[:, None, None]
    return x * doubled.cos() + _half(x) * doubled.sin()


def _halves_mixed_up(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    cos, sin = _angles(positions).cos()[:, None], _angles(positions).sin()[:, None]
    first, second = torch.chunk(x, 2, -1)
    return torch.cat((first * cos - second * sin, second * sin + first * cos), -1)


def _all_elements_alike(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    angle = positions[:, None, :, None].float()
    first, second = torch.chunk(x, 2, -1)
    return torch.cat((first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()), -1)


def _counted_along_the_width(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    wide = positions[:, None, :, None].float() * torch.arange(x.shape[-1])
    return x * wide.cos() + _half(x) * wide.sin()


OTHERS = (
    _sines_of_their_own,
    _counted_along_the_width,  # what counts reads nothing
    *(
        pytest.param(turn, marks=pytest.mark.slow)
        for turn in (
            _cosines_of_their_own,
            _turned_back,
            _of_another,
            _neighbours_by_halves,
            _each_head_its_own,
            _halves_mixed_up,
            _all_elements_alike,
        )
    ),
)


# Quick: the ends.
@thinned("turn", OTHERS, every=9, ids=lambda turn: turn.__name__)
@pytest.mark.slow  # quick: what is one layer, and every op of it by itself
def test_what_only_looks_like_it_is_left_alone(turn: Turn) -> None:
    found = _compiled(turn, 10, "11.4")
    assert _kinds(found)["RotaryEmbedding"] == 0
    _agrees(found, turn, 10)


def test_what_is_given_twice_as_wide_is_left_alone() -> None:
    """Nothing says that the halves of an input are equal."""

    class Given(nn.Module):
        def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
            return x * cos + _half(x) * sin

    x, cos, sin = torch.randn(2, 6, 7, 10), torch.randn(2, 1, 7, 10), torch.randn(2, 1, 7, 10)
    found = compile_in_stages((Given().eval(), (x, cos, sin)), CompileOptions("11.4", "reference", verify=False))
    assert _kinds(found)["RotaryEmbedding"] == 0
    assert torch.equal(found.compiled(x, cos, sin), Given()(x, cos, sin))


@pytest.mark.slow
def test_integers_are_left_alone() -> None:
    class Whole(nn.Module):
        def forward(self, x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
            first, second = torch.chunk(x, 2, -1)
            return torch.cat((first * c - second * s, second * c + first * s), -1)

    x, c, s = torch.randint(9, (2, 6, 7, 10)), torch.randint(9, (2, 1, 7, 5)), torch.randint(9, (2, 1, 7, 5))
    found = compile_in_stages((Whole().eval(), (x, c, s)), CompileOptions("11.4", "reference", verify=False))
    assert _kinds(found)["RotaryEmbedding"] == 0
    assert torch.equal(found.compiled(x, c, s), Whole()(x, c, s))
