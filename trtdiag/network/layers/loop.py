"""Loop: a recurrent cell over the steps of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, require, require_equal, require_rank, require_same_dtype
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Num, mul


class Cell(Enum):
    """What a step does; the gates stand one after the other in this order, as PyTorch has them."""

    LSTM = "input, forget, cell, output"
    GRU = "reset, update, new"
    TANH = "tanh"
    RELU = "relu"

    @property
    def gates(self) -> int:
        """How many there are."""
        return len(self.value.split(", "))


@dataclass(frozen=True)
class Loop(Layer, inputs=(4, 5), takes=FLOATS):
    """A cell for each step of a sequence (inputs: gates of the input, weight, bias, hidden state, of LSTM cell state).

    Shapes: gates (steps, batch, gates x width), weight (gates x width, width), bias (1, gates x width), each state
    (batch, width).  The outputs are the hidden state after each step (steps, batch, width), at the place of its step,
    then the last hidden state and of LSTM the last cell state.  What is multiplied by the input has been before: one
    product for all steps.  In TensorRT this is an ILoop with a trip limit, an iterator, a recurrence for each state,
    and the layers of one step.

    Attributes:
        cell: What a step does.
        reverse: From the last step to the first.
    """

    cell: Cell
    reverse: bool = False

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape of the gates with the width of a state, and those of the states."""
        require_same_dtype(inputs)
        given, weight, bias, hidden = inputs[:4]
        states = inputs[3:]
        require(len(states) == 1 + (self.cell is Cell.LSTM), f"{self.cell.name} has not {len(states)} states")
        require_rank(given, (3,), "the gates")
        for tensor, role in ((weight, "the weight"), (bias, "the bias"), *((state, "a state") for state in states)):
            require_rank(tensor, (2,), role)
        width = hidden.shape[1]
        require(isinstance(width, Num), "the width of a state is dynamic")
        whole = mul(width, Num(self.cell.gates))
        for size, role in ((given.shape[2], "gates"), (weight.shape[0], "rows of the weight"), (bias.shape[1], "bias")):
            require_equal(facts, size, whole, role)
        require_equal(facts, weight.shape[1], width, "width of the weight and of the state")
        require_equal(facts, bias.shape[0], Num(1), "the bias's first dim")
        for state in states:
            require_equal(facts, state.shape[0], given.shape[1], "batch of a state")
            require_equal(facts, state.shape[1], width, "width of the states")
        sequence = Tensor(given.dtype, (given.shape[0], hidden.shape[0], width))
        return (sequence, *(Tensor(given.dtype, state.shape) for state in states))

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Step by step in float32; states are rounded to their dtype behind each step."""
        dtype = inputs[0].dtype
        given, weight, bias, *states = (tensor.float() for tensor in inputs)
        steps = list(given.unbind(0))
        made = []
        for gates in reversed(steps) if self.reverse else steps:
            states = [state.to(dtype).float() for state in self._step(gates, weight, bias, states)]
            made.append(states[0])
        sequence = torch.stack(made[::-1] if self.reverse else made) if made else given.new_empty((0, *states[0].shape))
        return tuple(tensor.to(dtype) for tensor in (sequence, *states))

    def _step(
        self, given: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, states: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        hidden = states[0]
        own = torch.nn.functional.linear(hidden, weight, bias[0])
        if self.cell is Cell.LSTM:
            enter, forget, cell, leave = (given + own).chunk(4, -1)
            kept = forget.sigmoid() * states[1] + enter.sigmoid() * cell.tanh()
            return [leave.sigmoid() * kept.tanh(), kept]
        if self.cell is Cell.GRU:
            (reset, update, new), (own_reset, own_update, own_new) = given.chunk(3, -1), own.chunk(3, -1)
            new = torch.tanh(new + torch.sigmoid(reset + own_reset) * own_new)
            return [new + torch.sigmoid(update + own_update) * (hidden - new)]
        return [(given + own).tanh() if self.cell is Cell.TANH else (given + own).relu()]
