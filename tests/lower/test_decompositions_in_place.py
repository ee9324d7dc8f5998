"""Ops whose decompositions write in place or change a tensor's form in place: functional ops come out, no limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.nn import functional as F

from tests.lower.agreement import assert_lowered_agrees, keep_nothing
from tests.random_cases import some
from trtdiag.graph.operators import writes

Op = Callable[[Tensor], Tensor]


def _weights(gates: int) -> list[Tensor]:
    """Of a cell: from 5 features to 5 hidden ones, from those, and two biases."""
    sizes = [(gates * 5, 5), (gates * 5, 5), (gates * 5,), (gates * 5,)]
    return [torch.linspace(-1, 1 + index, math.prod(size)).reshape(size) for index, size in enumerate(sizes)]


# Over x (n, 6, 5) with n from 1 to 13.
OPS: dict[str, Op] = {
    "cosine similarity": lambda x: F.cosine_similarity(x, x.flip(1), dim=-1),
    "cosine embedding loss": lambda x: F.cosine_embedding_loss(x[:, 0], x[:, 1], torch.ones(1)),
    "difference with a start": lambda x: torch.diff(x, prepend=x[:, :, :1]),
    "difference of the second order": lambda x: torch.diff(x, n=2, dim=1),
    "difference of bools": lambda x: torch.diff(x > 0),
    "quantile": lambda x: torch.quantile(x, torch.tensor([0.1, 0.7]), dim=1),
    "quantile of a number": lambda x: torch.quantile(x, 0.3, dim=-1),
    "quantile beside nan": lambda x: torch.nanquantile(x.masked_fill(x > 1, torch.nan), 0.3, dim=-1, keepdim=True),
    "closeness": lambda x: torch.isclose(x, x.round(decimals=1), atol=0.05, equal_nan=True),
    "rms norm": lambda x: F.rms_norm(x, (6, 5)),
    "triplet loss": lambda x: F.triplet_margin_loss(x[:, 0], x[:, 1], x[:, 2], swap=True),
    "triplet loss with a distance": lambda x: F.triplet_margin_with_distance_loss(x[:, 0], x[:, 1], x[:, 2]),
    "soft margin loss": lambda x: F.soft_margin_loss(x, x.sign()),
    "hinge embedding loss": lambda x: F.hinge_embedding_loss(x, torch.where(x.flip(1) > 0, 1.0, -1.0)),
    "poisson loss": lambda x: F.poisson_nll_loss(x, x.abs(), full=True),
    "margin loss": lambda x: F.margin_ranking_loss(x, x.flip(1), x.sign(), margin=0.2),
    "divergence": lambda x: F.kl_div(x.log_softmax(-1), x.flip(1).softmax(-1), reduction="batchmean"),
    "binary cross entropy": lambda x: F.binary_cross_entropy_with_logits(x, x.flip(1).sigmoid(), pos_weight=x[0].exp()),
    "lstm cell": lambda x: torch.cat(torch.lstm_cell(x[:, 0], [x[:, 1], x[:, 2]], *_weights(4)), 1),
    "lstm cell without biases": lambda x: torch.lstm_cell(x[:, 0], [x[:, 1], x[:, 2]], *_weights(4)[:2])[0],
    "gru cell": lambda x: torch.gru_cell(x[:, 0], x[:, 1], *_weights(3)),
    "tanh cell": lambda x: torch.rnn_tanh_cell(x[:, 0], x[:, 1], *_weights(1)),
    "relu cell": lambda x: torch.rnn_relu_cell(x[:, 0], x[:, 1], *_weights(1)),
    "short-time spectrum": lambda x: torch.view_as_real(
        torch.stft(x.flatten(1), 8, 3, window=torch.hann_window(8), return_complex=True)
    ),
}


class Call(nn.Module):
    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: Tensor) -> Tensor:
        return self.op(x)


def check_functional(names: Sequence[str]) -> None:
    torch.manual_seed(3)
    example = (torch.randn(4, 6, 5),)
    exported = export(
        Call(lambda x: tuple(OPS[name](x) for name in names)),
        example,
        dynamic_shapes={"x": {0: Dim("n", min=1, max=13)}},
    )
    _, lowered = assert_lowered_agrees(exported, example, keep=keep_nothing, beside_torch=False)
    assert lowered.limits == ()
    assert not [node for node in lowered.graph_module.graph.nodes if writes(node)]


# torch before 2.13 cannot export a quantile: it asks for the number of elements, and for q's values.
EXPORTED = [name for name in OPS if "quantile" not in name or torch.__version__ >= (2, 13)]


@pytest.mark.slow  # quick: ops in place, in test_lowered_programs.py
def test_decompositions_that_write_in_place_come_out_functional() -> None:
    check_functional(some(EXPORTED, 12))


@pytest.mark.slow  # the quick run has them in one program, above
@pytest.mark.parametrize("name", EXPORTED)
def test_a_decomposition_that_writes_in_place_comes_out_functional(name: str) -> None:
    check_functional([name])


class Turned(nn.Module):
    """Turns a view in place, then writes through it: the tensor that it is a view of keeps its form."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        whole = x * 2
        part = whole[:, 1:]
        part.transpose_(1, 2)
        before = part.sum(1)
        part.add_(before[:, None])
        part.unsqueeze_(0)
        return whole, part, whole[:, 2] - part[0, :, 0, 0, None]


def test_a_form_changed_in_place_is_that_of_the_tensor_alone() -> None:
    example = (torch.randn(3, 6, 5),)
    exported = export(Turned(), example, dynamic_shapes={"x": {0: Dim("n", min=1, max=13)}})
    _, lowered = assert_lowered_agrees(exported, example, keep=keep_nothing, beside_torch=False)
    assert lowered.limits == ()
    assert not [node for node in lowered.graph_module.graph.nodes if writes(node)]
