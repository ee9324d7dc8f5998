"""Whole programs that index and reduce over dynamic sizes: exported, lowered, converted, and run at odd sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.export import Dim

from tests.convert.function_program import FunctionProgram, converted
from trtdiag.network import run

BATCH, LENGTH = Dim("b", min=1, max=9), Dim("s", min=4, max=33)


def _messages(m: FunctionProgram, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Sums over the neighbours of a graph."""
    sent = x.index_select(0, edges[0]) * 2
    return torch.zeros_like(x).scatter_add(0, edges[1][:, None].expand_as(sent), sent)


def _mean_over_mask(m: FunctionProgram, x: torch.Tensor) -> torch.Tensor:
    mask = (x > 0).to(x.dtype)
    return (x * mask).sum(1) / mask.sum(1).clamp(min=1)


def _last_token(m: FunctionProgram, x: torch.Tensor) -> torch.Tensor:
    return x[torch.arange(x.shape[0]), -1]


PROGRAMS: dict[str, Callable[..., torch.Tensor]] = {
    "best_half": lambda m, x: torch.topk(x, x.shape[1] // 2, dim=1).values,
    "sorted_places": lambda m, x: torch.gather(x, 1, x.sort(1, descending=True).indices),
    "first_of_the_greatest": lambda m, x: x.argmax(1, keepdim=True) + x.amin(1, keepdim=True),
    "standardised": lambda m, x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True),
    "table_by_places": lambda m, x: x[:, None, :1, None] * m.table[m.places][None],
    "last_token": _last_token,
    "mean_over_mask": _mean_over_mask,
    "written_in_the_middle": lambda m, x: x.slice_scatter(x[:, :2] * 3, 1, x.shape[1] - 2, x.shape[1]),
    "every_other": lambda m, x: torch.zeros_like(x).slice_scatter(x[:, ::2], 1, 0, None, 2),
    "last_column_replaced": lambda m, x: x.select_scatter(x[:, 0] + 1, 1, -1),
    "causal": lambda m, x: (x[:, :, None] * x[:, None]).masked_fill(
        torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1), float("-inf")
    ),
    "running": lambda m, x: x.cumsum(1) + torch.cumsum(x > 0, 0),
    "negative_columns": lambda m, x: torch.where(x > 0, 1.0, 0.0).index_copy(1, torch.tensor([3, 0]), x[:, :2]),
    "row_put_by_mask": lambda m, x: x.index_put((x[:, 0] > 0,), torch.tensor(5.0)),
    "any_row": lambda m, x: (x > 1).any(1) | (x < -1).all(0).any(),
    "histogram": lambda m, x: torch.bucketize(x, m.table[:, 0].contiguous()),
    "logits": lambda m, x: x.logsumexp(1) - torch.linalg.vector_norm(x, dim=1),
}


# Each fourth program for one of both targets, in turn; the others are slow, as the ops themselves are quick for both.
@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(name, target, marks=() if at % 8 == 4 * turn else pytest.mark.slow)
        for at, name in enumerate(PROGRAMS)
        for turn, target in enumerate(("8.6", "11.4"))
    ],
)
def test_program(name: str, target: str) -> None:
    torch.manual_seed(0)
    module, segment = converted(PROGRAMS[name], (torch.randn(4, 6),), ({0: BATCH, 1: LENGTH},), target)
    for sizes in ((4, 6), (1, 4), (9, 33), (7, 13)):
        x = torch.randn(sizes)
        assert [c.node for c in segment.inputs] == ["args_0"]
        inputs = [x]
        (got,) = run(segment.network, inputs)
        # Sums of up to 33 terms in another order.
        torch.testing.assert_close(got.to(segment.outputs[0].program_dtype), module(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["8.6", "11.4"])
def test_graph_of_dynamic_nodes_and_edges(target: str) -> None:
    edges = torch.tensor([[0, 1, 2, 2], [1, 1, 0, 3]])
    dims = ({0: Dim("n", min=4, max=50)}, {1: Dim("e", min=2, max=200)})
    module, segment = converted(_messages, (torch.randn(5, 3), edges), dims, target)
    for nodes, count in ((5, 4), (4, 2), (50, 199)):
        x, edges = torch.randn(nodes, 3), torch.randint(0, nodes, (2, count))
        by_name = {"args_0": x, "args_1": edges}
        (got,) = run(segment.network, [c.entering(by_name[c.node]) for c in segment.inputs])
        torch.testing.assert_close(got, module(x, edges), rtol=1e-5, atol=1e-5)
