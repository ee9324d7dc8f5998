"""Recurrent ops: their decomposition holds the cell once for each time step, so the steps must be few and known."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import Node

from trtdiag.graph.operators import OpOverload, schema_name

MOST_CELLS = 512
"""Steps times layers times directions.  A cell is about 20 ops, and a graph of 10,000 builds for minutes."""

_RECURRENT = frozenset({"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"})


def is_recurrent(op: OpOverload) -> bool:
    """Whether it is a recurrent op over a sequence that is not packed."""
    return schema_name(op) in _RECURRENT and op._overloadname == "input"


def recurrent_value(
    source: Tensor,
    states: Tensor | Sequence[Tensor],
    weights: Sequence[Tensor],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    both_ways: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """Tensors like the outputs of a recurrent op: one hidden state for each step, then the final states."""
    del weights, has_biases, layers, dropout, train
    given = (states,) if isinstance(states, Tensor) else tuple(states)
    hidden = given[0]
    steps = source.transpose(0, 1) if batch_first else source
    y = hidden.new_empty((*steps.shape[:2], hidden.shape[-1] * (2 if both_ways else 1)))
    return y.transpose(0, 1) if batch_first else y, *(state.new_empty(state.shape) for state in given)


def why_not_unrolled(node: Node, op: OpOverload) -> str:
    """Why this call cannot be written step by step; empty where it can, and for ops that are not recurrent."""
    if schema_name(op) not in _RECURRENT:
        return ""
    if op._overloadname != "input":
        return "it runs over a packed sequence, whose steps have different batches"
    source, layers, both_ways, batch_first = node.args[0], node.args[4], node.args[7], node.args[8]
    assert isinstance(source, Node)
    sizes = source.meta["val"].shape
    dim = 1 if batch_first and len(sizes) == 3 else 0
    steps = sizes[dim]
    if isinstance(steps, torch.SymInt) and (known := steps.node.maybe_as_int()) is not None:
        steps = known  # the symbol of a dim that turned out to have one size
    if isinstance(steps, torch.SymInt):
        dynamic = f"its number of time steps is dynamic (dim {dim} of its input)"
        return f"{dynamic}, and unrolled it would hold its cell once for each"
    cells = steps * int(layers) * (2 if both_ways else 1)  # type: ignore[arg-type]  # a plain number
    if cells > MOST_CELLS:
        return f"unrolled it would hold its cell {cells} times ({steps} time steps), and {MOST_CELLS} is the most"
    return ""
