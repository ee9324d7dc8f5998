"""Recurrent ops: their decomposition holds the cell once for each time step, so the steps must be few and known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import Graph, Node

from trtdiag.graph.operators import OpOverload, schema_name, target_name

MOST_CELLS = 512
"""Steps times layers times directions, of a whole program.  A cell is about 20 ops, and a graph of 10,000 builds for
minutes; one of 30,000 was not built in 15 (Sequencer2D on TensorRT 8.6.0)."""

_RECURRENT = frozenset({"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"})


def is_recurrent(op: OpOverload) -> bool:
    """Whether it is a recurrent op over a sequence that is not packed."""
    return schema_name(op) in _RECURRENT and target_name(op).endswith(".input")


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


def longest_unrolled(graph: Graph) -> int:
    """How many cells an op may have to be unrolled: all of no more have at most ``MOST_CELLS`` together."""
    found = Counter(_cells(node) or 0 for node in graph.nodes if is_recurrent_call(node))
    total = 0
    for cells, count in sorted(found.items()):
        total += cells * count
        if total > MOST_CELLS:
            return cells - 1
    return MOST_CELLS


def why_not_unrolled(node: Node, op: OpOverload, longest: int | None = None) -> str:
    """Why this call cannot be written step by step; empty where it can, and for ops that are not recurrent.

    Args:
        node: The call.
        op: Its op.
        longest: ``longest_unrolled`` of the program; ``None``: the call is looked at alone.
    """
    if schema_name(op) not in _RECURRENT:
        return ""
    if not is_recurrent(op):
        return "it runs over a packed sequence, whose steps have different batches"
    steps, dim = _steps(node)
    if steps is None:
        dynamic = f"its number of time steps is dynamic (dim {dim} of its input)"
        return f"{dynamic}, and unrolled it would hold its cell once for each"
    cells = _cells(node) or 0
    if cells > MOST_CELLS:
        return f"unrolled it would hold its cell {cells} times ({steps} time steps), and {MOST_CELLS} is the most"
    if longest is not None and cells > longest:
        return (
            f"unrolled it would hold its cell {cells} times ({steps} time steps), it and all that are no longer more"
            f" than {MOST_CELLS} times together, which is the most"
        )
    return ""


def is_recurrent_call(node: Node) -> bool:
    """Whether a node calls a recurrent op over a sequence that is not packed."""
    return isinstance(node.target, OpOverload) and is_recurrent(node.target)


def _cells(node: Node) -> int | None:
    """Steps times layers times directions; ``None`` where the steps are not known."""
    steps, _ = _steps(node)
    return None if steps is None else steps * int(node.args[4]) * (2 if node.args[7] else 1)  # type: ignore[arg-type]


def _steps(node: Node) -> tuple[int | None, int]:
    """The time steps where they are known, and the dim of the input that counts them."""
    source, batch_first = node.args[0], node.args[8]
    assert isinstance(source, Node)
    sizes = source.meta["val"].shape
    dim = 1 if batch_first and len(sizes) == 3 else 0
    steps = sizes[dim]
    if isinstance(steps, torch.SymInt):
        return steps.node.maybe_as_int(), dim  # the symbol of a dim that turned out to have one size
    return steps, dim
