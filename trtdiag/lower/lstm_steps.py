"""An LSTM step by step, and what torch records wrongly of one.

torch has this decomposition too, but before 2.13 it squeezes the batch of the final states in place of the axis before
it: where the batch is dynamic they keep that axis, and at a batch of 1 they lose the wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.nn.functional import linear

FAULT = "torch before 2.13 records the final states of an LSTM with one axis too many (pytorch issue 151200)"

_STATE_RANK = 3  # layers and directions, batch, features


def unrolled_lstm(
    source: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    both_ways: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs of ``aten::lstm.input`` and its final states, by ops of one cell for each step.

    Shapes: source (steps, batch, features) or (batch, steps, features); each state (layers x ways, batch, hidden).

    Raises:
        ValueError: It would draw random numbers.
    """
    if train and dropout and layers > 1:
        raise ValueError("it drops outputs between its layers at random")
    steps = source.transpose(0, 1) if batch_first else source
    ways = 2 if both_ways else 1
    each = len(weights) // (layers * ways)
    last: list[tuple[Tensor, Tensor]] = []
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            at = layer * ways + way
            given = weights[at * each : (at + 1) * each]
            made, h, c = _one_way(steps, states[0][at], states[1][at], given, has_biases, reverse=way == 1)
            outputs.append(made)
            last.append((h, c))
        steps = torch.cat(outputs, -1) if both_ways else outputs[0]
    y = steps.transpose(0, 1) if batch_first else steps
    return y, torch.stack([h for h, _ in last]), torch.stack([c for _, c in last])


def _one_way(
    steps: Tensor, h: Tensor, c: Tensor, weights: Sequence[Tensor], has_biases: bool, reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    from_input, from_hidden = weights[:2]
    input_bias, hidden_bias = weights[2:4] if has_biases else (None, None)
    projection = weights[-1] if len(weights) in (3, 5) else None
    outputs: list[Tensor] = []
    gates_of_steps = linear(steps, from_input, input_bias).unbind(0)  # one product for all steps
    for gates in reversed(gates_of_steps) if reverse else gates_of_steps:
        enter, forget, cell, leave = (gates + linear(h, from_hidden, hidden_bias)).chunk(4, -1)
        c = forget.sigmoid() * c + enter.sigmoid() * cell.tanh()
        h = leave.sigmoid() * c.tanh()
        if projection is not None:
            h = linear(h, projection)
        outputs.append(h)
    return torch.stack(outputs[::-1] if reverse else outputs), h, c


def torch_fault(node: Node) -> str:
    """What torch is known to record wrongly of this node, where the recorded value shows it; else empty."""
    val: Any = node.meta.get("val")
    if node.target is not torch.ops.aten.lstm.input or not isinstance(val, (list, tuple)):
        return ""
    wrong = any(isinstance(state, Tensor) and state.dim() == _STATE_RANK + 1 for state in val[1:])
    return FAULT if wrong else ""
