"""Runs on tensors tell sizes that an op does not take from contents that it does not take."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from trtdiag.frontend.capture import capture
from trtdiag.frontend.failing_op import MOST_ELEMENTS, Watch
from trtdiag.frontend.fake_run import NotRunnableError, ShapeRunner
from trtdiag.frontend.real_run import RealRunner, RunOutcome


class _Module(torch.nn.Module):
    def __init__(self, forward: Callable[..., Any], *weights: torch.Tensor) -> None:
        super().__init__()
        for index, weight in enumerate(weights):
            self.register_buffer(f"w{index}", weight)
        self._forward = forward

    def forward(self, *args: Any) -> Any:
        return self._forward(*args, *self.buffers())


def _runner(
    forward: Callable[..., Any], args: tuple[Any, ...], dims: tuple[Any, ...], *weights: torch.Tensor
) -> tuple[RealRunner, ShapeRunner, Mapping[str, str]]:
    program = capture((_Module(forward, *weights), args, {}, (dims,)))
    assert program.exported is not None
    symbols = {str(dim.declared_name): str(dim.expr.name) for t in program.inputs for dim in t.dims if dim.declared}
    return (
        RealRunner(program.exported, program.inputs, args, {}, 60.0),
        ShapeRunner(program.exported, program.inputs, args, {}),
        symbols,
    )


@cache
def _attention() -> tuple[RealRunner, ShapeRunner, Mapping[str, str]]:
    q, k, v = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    dims = (None, {2: Dim("past_k", max=64)}, {2: Dim("past_v", max=64)})
    return _runner(functional.scaled_dot_product_attention, (q, k, v), dims)


@pytest.mark.parametrize(("past_k", "past_v"), [(7, 9), (9, 7), (2, 64), (64, 1)])
def test_attention_refuses_keys_and_values_of_other_lengths(past_k: int, past_v: int) -> None:
    """PyTorch's fused kernel for the CPU takes them and reads beyond the end."""
    runner, shapes, symbols = _attention()
    point = {symbols["past_k"]: past_k, symbols["past_v"]: past_v}
    ran = runner.run(point)
    assert ran.outcome is RunOutcome.REFUSED
    assert ran.failing.op == "aten.scaled_dot_product_attention.default"
    assert len(ran.failing.dims) == 3
    assert shapes.refusal(point)
    assert runner.run(dict.fromkeys(point, 7)).outcome is RunOutcome.PASSED


def test_an_index_that_follows_from_a_size_is_a_refusal() -> None:
    table = torch.randn(32, 4)
    runner, _, symbols = _runner(
        lambda x, w: w[torch.arange(x.shape[0])] + x[:, None], (torch.randn(7),), ({0: Dim("n", max=64)},), table
    )
    assert runner.run({symbols["n"]: 32}).outcome is RunOutcome.PASSED
    ran = runner.run({symbols["n"]: 33})
    assert ran.outcome is RunOutcome.REFUSED
    assert "IndexError" in ran.words


def test_an_index_that_the_input_holds_is_none() -> None:
    """Positions 3..9 go on counting at another size, beyond a table of 12 rows: with zeros the sizes are taken."""
    table = torch.randn(12, 4)
    runner, _, symbols = _runner(lambda i, w: w[i], (torch.arange(3, 10),), ({0: Dim("n", max=64)},), table)
    assert runner.run({symbols["n"]: 64}).outcome is RunOutcome.PASSED


def test_what_depends_on_contents_alone_is_not_decided() -> None:
    """A mask chooses as many rows as are given: at other sizes it chooses another number."""

    def put(x: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[mask] = rows
        return y

    args = (torch.randn(9, 4), torch.tensor([True] * 3 + [False] * 6), torch.randn(3, 4))
    dims = ({0: (n := Dim("n", max=64))}, {0: n}, {0: Dim("m", max=64)})
    runner, _, symbols = _runner(put, args, dims)
    assert runner.run({symbols["n"]: 9, symbols["m"]: 3}).outcome is RunOutcome.PASSED
    assert runner.run({symbols["n"]: 9, symbols["m"]: 5}).outcome is RunOutcome.UNDECIDED


def test_a_size_from_the_data_that_an_op_wants_as_a_number_says_nothing_of_sizes() -> None:
    """FakeTensorMode cannot call it; with tensors it takes every batch."""

    def resized(x: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
        side = sides.max().item()
        torch._check(side >= 1)
        torch._check(side <= 9)
        return functional.interpolate(x, size=(side, side), mode="bilinear", antialias=True)

    args = (torch.randn(2, 3, 5, 5), torch.tensor([4, 3]))
    runner, shapes, symbols = _runner(resized, args, ({0: Dim("b", max=8)}, None))
    with pytest.raises(NotRunnableError, match="only concrete integers"):
        shapes.refusal({symbols["b"]: 3})
    assert [runner.run({symbols["b"]: rows}).outcome for rows in (2, 7)] == [RunOutcome.PASSED] * 2


def test_a_largest_tensor_whose_size_the_data_decide_is_run() -> None:
    def count(x: torch.Tensor) -> torch.Tensor:
        return torch.bincount(x.flatten(), minlength=8)

    runner, _, symbols = _runner(count, (torch.randint(0, 5, (2, 24)),), ({1: Dim("n", max=64)},))
    assert runner.run({symbols["n"]: 3}).outcome is RunOutcome.PASSED


def test_repeats_that_are_not_as_many_as_the_rows_are_contents() -> None:
    """Another sum than that of the rows, and numbers below zero, with which PyTorch writes beyond its tensor."""

    def spread(v: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return v + torch.repeat_interleave(torch.arange(ends.shape[0] - 1), ends.diff(), output_size=v.shape[0])

    args = (torch.randn(9), torch.tensor([0, 3, 9]))
    runner, _, symbols = _runner(spread, args, ({0: Dim("t", max=64)}, {0: Dim("n", min=3, max=64)}))
    for rows, ends in ((9, 3), (5, 3), (3, 4), (64, 64)):
        ran = runner.run({symbols["t"]: rows, symbols["n"]: ends})
        assert ran.outcome is not RunOutcome.REFUSED
    assert "it repeats an element" in str(runner._error([torch.randn(9), torch.tensor([0, 500, 9])], Watch(math.inf)))


def test_a_matrix_that_cannot_be_factored_is_not_refused() -> None:
    runner, _, symbols = _runner(
        lambda x: torch.linalg.cholesky(x), (torch.eye(3).expand(2, 3, 3).clone(),), ({0: Dim("b", max=8)},)
    )
    assert runner.run({symbols["b"]: 5}).outcome is not RunOutcome.REFUSED


def _alone_at_one(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] == 1 else x.cumsum(0)


def _never_one(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 1:
        raise ValueError("more than one row is needed")
    return x.cumsum(0)


def _beside(forward: Callable[..., Any], rows: int = 4) -> RealRunner:
    args, dims = (torch.randn(rows, 3),), ({0: Dim("b", min=1, max=16)},)
    program = capture((model := _Module(forward), args, {}, (dims,)))
    assert program.exported is not None
    return RealRunner(program.exported, program.inputs, args, {}, 60.0, model)


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (_alone_at_one, "other values"),
        (lambda x: x[0] if x.shape[0] == 1 else x, r"an output of \[1, 3\] in the place of an output of \[3\]"),
        (lambda x: (x, 1 if x.shape[0] == 1 else 2), "2 in the place of 1"),
        (_never_one, "the model raises ValueError: more than one row is needed"),
    ],
)
def test_a_path_for_one_row_alone_is_a_refusal(forward: Callable[..., Any], words: str) -> None:
    runner = _beside(forward)
    (symbol,) = runner._known
    ran = runner.run({symbol: 1})
    assert ran.outcome is RunOutcome.REFUSED
    assert re.search(words, ran.words)
    assert [runner.run({symbol: rows}).outcome for rows in (2, 3, 16)] == [RunOutcome.PASSED] * 3


@pytest.mark.parametrize("forward", [lambda x: x.squeeze() + x.mean(), lambda x: x.std(0), lambda x: x.sum() / 3e9])
def test_a_model_that_agrees_at_one_row_is_taken(forward: Callable[..., Any]) -> None:
    runner = _beside(forward)
    (symbol,) = runner._known
    assert runner.run({symbol: 1}).outcome is RunOutcome.PASSED


def test_a_model_that_gives_something_else_each_time_is_not_compared() -> None:
    calls: list[int] = []

    def counted(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + len(calls)

    runner = _beside(counted)
    (symbol,) = runner._known
    assert runner.run({symbol: 1}).outcome is RunOutcome.PASSED


def test_a_program_that_has_lost_a_seed_is_another_than_its_model() -> None:
    """The state that tracing leaves is what the model seeds itself with: its program drew the same from it, once."""
    state = torch.get_rng_state()
    try:
        runner = _beside(lambda x: (torch.manual_seed(5), x + torch.rand(3))[1])
        torch.manual_seed(5)
        runner.check_example({})
    finally:
        torch.set_rng_state(state)
    assert runner.unlike == "the program gives other values, compared with the model"


def test_a_path_for_one_size_in_the_middle_is_a_refusal() -> None:
    # While it is traced, the text of a size is that of a symbol.
    runner = _beside(lambda x: x * len(f"{x.shape[0] * 5}"))
    runner.check_example({})
    assert runner.unlike == "the program gives other values, compared with the model"
    runner = _beside(lambda x: x * {"9": 2.0}.get(f"{x.shape[0]}", 1.0))
    runner.check_example({})
    assert not runner.unlike
    (symbol,) = runner._known
    assert [runner.run({symbol: rows}).outcome.value for rows in (8, 9, 10)] == ["passed", "refused", "passed"]


def test_buffers_and_random_state_are_put_back() -> None:
    def count(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        seen += x.shape[0]
        return x + seen + torch.rand(1)

    buffer = torch.zeros(1)
    runner, _, symbols = _runner(count, (torch.randn(5),), ({0: Dim("n", max=64)},), buffer)
    before = torch.random.get_rng_state()
    assert runner.run({symbols["n"]: 11}).outcome is RunOutcome.PASSED
    assert float(buffer) == 0
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_is_too_large_is_not_run() -> None:
    runner, shapes, symbols = _runner(
        lambda x: (x[:, None] * x[None, :]).sum(), (torch.randn(9),), ({0: Dim("n", max=1 << 20)},)
    )
    small, large = int(MOST_ELEMENTS**0.5), int(MOST_ELEMENTS**0.5) + 1
    assert shapes.most_elements({symbols["n"]: small}) == MOST_ELEMENTS
    ran = runner.run({symbols["n"]: large})
    assert ran.outcome is RunOutcome.UNRUN
    assert f"{large**2:,} elements" in ran.words


def test_after_its_time_nothing_runs() -> None:
    args = (torch.randn(4),)
    program = capture((_Module(lambda x: x + 1), args, {}, (({0: Dim("n", max=64)},),)))
    assert program.exported is not None
    runner = RealRunner(program.exported, program.inputs, args, {}, 0.0)
    assert runner.run({next(iter(program.hints)): 4}).outcome is RunOutcome.UNRUN


def test_without_data_nothing_can_run() -> None:
    args = (torch.randn(4, device="meta"),)
    program = capture((torch.nn.Linear(4, 3, device="meta"), args, {}, None))
    assert program.exported is not None
    with pytest.raises(NotRunnableError, match="meta device"):
        RealRunner(program.exported, program.inputs, args, {}, 60.0)


def test_an_example_that_fails_says_nothing_of_sizes() -> None:
    """Token 9 of a table with 8 rows: the export of it passes."""
    runner, _, _ = _runner(
        lambda i, w: functional.embedding(i, w),
        (torch.tensor([1, 9]),),
        ({0: Dim("n", max=64)},),
        torch.randn(8, 4),
    )
    with pytest.raises(NotRunnableError, match="fails at the example itself: IndexError"):
        runner.check_example({"s0": 2})


def test_a_view_of_what_attention_gives_fits_the_layout_of_the_kernel() -> None:
    """The program runs by itself; the formula of attention, which stands for the kernel here, lays it out otherwise."""

    def attended(x: torch.Tensor) -> torch.Tensor:
        y = functional.scaled_dot_product_attention(x, x, x).relu().transpose(1, 2)
        return y.view(y.shape[0], y.shape[1], 16)

    runner, shapes, symbols = _runner(attended, (torch.randn(2, 3, 2, 8).transpose(1, 2),), ({0: Dim("b", max=8)},))
    for size in (1, 2, 7):
        point = {symbols["b"]: size}
        assert runner.run(point).outcome is RunOutcome.PASSED
        assert shapes.refusal(point) == ""
