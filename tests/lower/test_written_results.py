"""Writes into ``out``, into results of ops of several and into pieces of a list; ``resize_``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from tests.lower.agreement import assert_lowered_agrees
from tests.random_cases import some
from trtdiag.graph.operators import writes

Op = Callable[[Tensor], Any]


def _sorted_into(x: Tensor) -> tuple[Tensor, ...]:
    values, order = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int64)
    returned = torch.sort(x, dim=1, out=(values, order))
    returned.values.mul_(2)
    return values, order, returned.indices + 1


def _into_a_part(x: Tensor) -> Tensor:
    whole = torch.zeros(9, 7) + x[:, :1].sum()
    torch.mul(x[0, 0], x[0, 1], out=whole[2])
    return whole + 1


def _into_another_dtype(x: Tensor) -> tuple[Tensor, Tensor]:
    wide = torch.empty(x.shape, dtype=torch.float64)
    torch.add(x, x.flip(1), alpha=3, out=wide)
    return wide * 2, wide


def _into_an_operand(x: Tensor) -> Tensor:
    y = x * 2
    torch.sub(x, y, out=y)
    return y


def _largest_scaled(x: Tensor) -> tuple[Tensor, ...]:
    values, places = torch.topk(x, 3, dim=1)
    values /= values.sum(1, keepdim=True)
    return values, places


def _largest_masked(x: Tensor) -> tuple[Tensor, Tensor]:
    values, places = x.max(1)
    values[values < 0.5] = 0.0
    return values, places


def _pieces(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 2
    first, _, last = y.split([2, 3, 2], 2)
    before = last.sum()
    last += first
    first.mul_(y[..., 1:3])
    return y, first, last, before


def _pieces_of_a_dynamic_dim(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 2
    one, rest = torch.split(y, [1, y.shape[0] - 1])
    rest -= one
    return y, rest


def _rows(x: Tensor) -> tuple[Tensor, ...]:
    y = x + 1
    row, *_, last = y.unbind(-2)
    row.mul_(3)
    last.copy_(row)
    return y, row


def _base_after_a_piece(x: Tensor) -> Tensor:
    y = x * 2
    _, second = y.chunk(2, 1)
    y.mul_(3)  # the piece shows it
    return second.clone()


ROWS: dict[str, Op] = {
    "into out": lambda x: torch.atan2(x, x.flip(1), out=torch.empty_like(x)) * 2,
    "into an empty out": lambda x: torch.exp(x, out=torch.empty(0)) + 1,
    "several into out": _sorted_into,
    "into a part": _into_a_part,
    "into another dtype": _into_another_dtype,
    "into an operand": _into_an_operand,
    "the largest, scaled": _largest_scaled,
    "the largest, masked": _largest_masked,
    "pieces": _pieces,
    "the last piece of a dynamic dim": _pieces_of_a_dynamic_dim,
    "rows": _rows,
    "a base after its piece": _base_after_a_piece,
    "powers in place": lambda x: (x.abs() + 1).pow_(-0.5) + (x.abs() + 1).pow_(x),
    "resized to the same": lambda x: (x * 2).resize_(x.shape[0], 35) + 1,
    "resized to less": lambda x: (x[0] * 2).resize_(3, 4) + x[0, :3, :4],
    "resized, then written": lambda x: _resized_then_written(x[0] * 2),
    "resized from nothing": lambda x: torch.empty(0).resize_(5, 7).copy_(x[0]) + x,
}


def _resized_then_written(y: Tensor) -> tuple[Tensor, Tensor]:
    row = y[0]
    y.resize_(2, 3).mul_(5)
    return y, row  # the first row as it was seen before has the new values


class Call(nn.Module):
    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: Tensor) -> Any:
        return self.op(x)


def check_functional(op: Op) -> None:
    torch.manual_seed(3)
    example = (torch.randn(4, 5, 7),)
    exported = export(Call(op), example, dynamic_shapes={"x": {0: Dim("n", min=3, max=13)}})
    _, lowered = assert_lowered_agrees(exported, example, beside_torch=False)
    assert lowered.limits == ()
    assert not [node for node in lowered.graph_module.graph.nodes if writes(node)]


def test_writes_come_out_functional() -> None:
    check_functional(lambda x: tuple(op(x) for op in some(list(ROWS.values()), 2)))


@pytest.mark.slow  # the quick run has them in one program, above
@pytest.mark.parametrize("name", ROWS)
def test_a_write_comes_out_functional(name: str) -> None:
    check_functional(ROWS[name])


def _twice_into_one(x: Tensor) -> Tensor:
    y = torch.empty(x.shape, dtype=torch.int64)
    torch.sort(x.long(), dim=1, out=(y, y.view(x.shape)))
    return y


def _piece_behind_a_dynamic_one(x: Tensor) -> Tensor:
    y = x * 2
    y.split([y.shape[0] - 1, 1])[1].mul_(2)
    return y


def _grown(x: Tensor) -> Tensor:
    return (x * 2).resize_(x.shape[0] + 1, 5, 7)[0]


def _grown_beside_a_view(x: Tensor) -> Tensor:
    y = x[0] * 2
    return y[0] + y.resize_(99)[0]


LEFT: dict[str, tuple[Op, str]] = {
    "two results into one tensor": (_twice_into_one, "it writes two results into one tensor"),
    "a piece of no known start": (
        _piece_behind_a_dynamic_one,
        "split_with_sizes.default made, and that has no inverse",
    ),
    "resized to a size that is not known": (_grown, "it changes the form"),
    "grown with a view of it": (_grown_beside_a_view, "it changes the form"),
}


@pytest.mark.slow  # quick: a write that has no inverse stays, in test_lowered_programs.py
@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_led_back_stays_as_it_is(name: str) -> None:
    op, why = LEFT[name]
    exported = export(Call(op), (torch.randn(4, 5, 7),), dynamic_shapes={"x": {0: Dim("n", min=3, max=13)}})
    _, lowered = assert_lowered_agrees(exported, (torch.randn(4, 5, 7),), beside_torch=False)
    assert [why in limit.why for limit in lowered.limits] == [True]
