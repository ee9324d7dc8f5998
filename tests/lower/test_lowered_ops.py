"""Every op of a list that torch decomposes: the local decomposition gives the numbers of the op, at odd sizes too."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.fx import Node
from torch.nn import functional as F

from tests.lower.agreement import assert_lowered_agrees, keep_nothing, targets

Op = Callable[..., Tensor | tuple[Tensor, ...]]

# Over x (n, 6, 5) with n from 1 to 13; what is listed is decomposed, under the name of the op that must be gone.
OPS: dict[str, Op] = {
    "aten.addcdiv.default": lambda x: torch.addcdiv(x, x, x.exp(), value=2),
    "aten.addcmul.default": lambda x: torch.addcmul(x, x, x),
    "aten.aminmax.default": lambda x: tuple(torch.aminmax(x, dim=1)),
    "aten.copysign.Tensor": lambda x: torch.copysign(x, x.flip(1)),
    "aten.fmax.default": lambda x: torch.fmax(x, x.flip(1)),
    "aten.fmin.default": lambda x: torch.fmin(x / (x > 0), x.flip(1)),
    "aten.hypot.default": lambda x: torch.hypot(x, x.flip(1)),
    "aten.linalg_vector_norm.default": lambda x: torch.linalg.vector_norm(x, 2, -1),
    "aten.relu6.default": lambda x: F.relu6(x * 4),
    "aten.upsample_bicubic2d.vec": lambda x: F.interpolate(x[:, None], (9, 4), mode="bicubic"),
    "aten.var_mean.correction": lambda x: torch.var_mean(x, 1, correction=0),
    "aten.baddbmm.default": lambda x: torch.baddbmm(x @ x.mT, x, x.mT, beta=0.5),
    "aten.celu.default": lambda x: F.celu(x, 0.7),
    "aten.chunk.default": lambda x: x.chunk(2, 1),
    "aten.clamp_min.default": lambda x: x.clamp_min(0.1),
    "aten.cosine_similarity.default": lambda x: F.cosine_similarity(x, x.flip(1), dim=-1),
    "aten.einsum.default": lambda x: torch.einsum("nij,nkj->nik", x, x),
    "aten.expand_as.default": lambda x: x[:, :1].expand_as(x),
    "aten.eye.m": lambda x: x @ torch.eye(5, 4),
    "aten.flatten.using_ints": lambda x: x.flatten(1),
    "aten.frac.default": lambda x: torch.frac(x * 9),
    "aten.glu.default": lambda x: F.glu(x, 1),
    "aten.group_norm.default": lambda x: F.group_norm(x, 3),
    "aten.hardshrink.default": lambda x: F.hardshrink(x, 0.3),
    "aten.hardsigmoid.default": lambda x: F.hardsigmoid(x * 4),
    "aten.hardswish.default": lambda x: F.hardswish(x * 4),
    "aten.heaviside.default": lambda x: torch.heaviside(x, torch.tensor(0.5)),
    "aten.huber_loss.default": lambda x: F.huber_loss(x, x * 3),
    "aten.layer_norm.default": lambda x: F.layer_norm(x, (6, 5)),
    "aten.lerp.Scalar": lambda x: torch.lerp(x, x * 2, 0.3),
    "aten.linear.default": lambda x: F.linear(x, x[0]),
    "aten.linspace.default": lambda x: x + torch.linspace(-1, 1, 5),
    "aten.log_sigmoid.default": lambda x: F.logsigmoid(x),
    "aten.log_softmax.int": lambda x: F.log_softmax(x, -1),
    "aten.logaddexp.default": lambda x: torch.logaddexp(x, x * 2),
    "aten.logit.default": lambda x: torch.logit(x.sigmoid(), 1e-4),
    "aten.logsumexp.default": lambda x: torch.logsumexp(x, 1),
    "aten.masked_fill.Scalar": lambda x: x.masked_fill(x > 0, -2.0),
    "aten.matmul.default": lambda x: x @ x.mT,
    "aten.meshgrid.indexing": lambda x: torch.meshgrid(x[:, 0, 0], x[0, :, 0], indexing="ij"),
    "aten.mish.default": lambda x: F.mish(x),
    "aten.mse_loss.default": lambda x: F.mse_loss(x, x * 2),
    "aten.nan_to_num.default": lambda x: torch.nan_to_num(x / 0, 1.0, 2.0, 3.0),
    "aten.narrow.default": lambda x: x.narrow(1, 2, 3),
    "aten.new_full.default": lambda x: x + x.new_full((6, 5), 2.0),
    "aten.ones_like.default": lambda x: torch.ones_like(x) + x,
    "aten.pad.default": lambda x: F.pad(x, (1, 2), mode="constant", value=0.5),
    "aten.pixel_unshuffle.default": lambda x: F.pixel_unshuffle(x[:, None], 1),
    "aten.prelu.default": lambda x: F.prelu(x, torch.full((6,), 0.3)),
    "aten.roll.default": lambda x: torch.roll(x, 2, 1),
    "aten.rsub.Scalar": lambda x: torch.rsub(x, 2, alpha=3),
    "aten.scaled_dot_product_attention.default": lambda x: F.scaled_dot_product_attention(x, x, x),
    "aten.select_scatter.default": lambda x: torch.select_scatter(x, x[:, 1], 1, 3),
    "aten.selu.default": lambda x: F.selu(x),
    "aten.silu.default": lambda x: F.silu(x),
    "aten.sinc.default": lambda x: torch.sinc(x),
    "aten.smooth_l1_loss.default": lambda x: F.smooth_l1_loss(x, x * 2),
    "aten.softmax.int": lambda x: F.softmax(x, 1),
    "aten.softplus.default": lambda x: F.softplus(x, 2.0),
    "aten.softshrink.default": lambda x: F.softshrink(x, 0.2),
    "aten.split.Tensor": lambda x: x.split(4, 1),
    "aten.square.default": lambda x: torch.square(x),
    "aten.stack.default": lambda x: torch.stack([x, x * 2], -1),
    "aten.std.correction": lambda x: x.std(1, correction=0),
    "aten.t.default": lambda x: x[:, 0].t(),
    "aten.threshold.default": lambda x: F.threshold(x, 0.1, -3.0),
    "aten.tile.default": lambda x: x.tile(1, 2, 1),
    "aten.to.dtype": lambda x: x.to(torch.float64),
    "aten.trace.default": lambda x: torch.trace(x[:, 0]),
    "aten.transpose.int": lambda x: x.transpose(1, -1),
    "aten.tril.default": lambda x: x.tril(1),
    "aten.triu.default": lambda x: x.triu(-1),
    "aten.unbind.int": lambda x: x.unbind(1),
    "aten.unflatten.int": lambda x: x.unflatten(1, (2, -1)),
    "aten.upsample_nearest1d.vec": lambda x: F.interpolate(x, scale_factor=2.0),
    "aten.where.ScalarSelf": lambda x: torch.where(x > 0, 1.0, x),
    "aten.xlogy.Tensor": lambda x: torch.xlogy(x, x.exp()),
    "aten.zeros_like.default": lambda x: torch.zeros_like(x) - x,
}


PARTS = 10


class Call(nn.Module):
    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: Tensor, *others: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.op(x, *others)


def check_decomposed(names: Sequence[str]) -> None:
    """In one program: an export costs more than all that is looked at here."""
    torch.manual_seed(3)
    example = (torch.randn(3, 6, 5),)
    called = Call(lambda x: tuple(OPS[name](x) for name in names))
    exported = export(called, example, dynamic_shapes={"x": {0: Dim("n", min=1, max=13)}})
    _, lowered = assert_lowered_agrees(exported, example, keep=keep_nothing, beside_torch=False)
    assert lowered.limits == ()
    assert set(names) & targets(lowered) == set()
    assert set(names) <= {str(node.target) for node in exported.graph.nodes}


# Quick: one part of ten, of all kinds of ops; converters are compared with PyTorch by themselves.
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
@pytest.mark.slow  # quick: each op in tests/convert
def test_ops_are_decomposed_and_give_the_same_numbers(part: int) -> None:
    check_decomposed(list(OPS)[part::PARTS])


@pytest.mark.slow  # the quick run has each op beside others, above
@pytest.mark.parametrize("name", OPS)
def test_an_op_is_decomposed_and_gives_the_same_numbers(name: str) -> None:
    check_decomposed([name])


def flash(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x[None], x[None], x[None])


# Quick: where it is read.
@pytest.mark.parametrize(
    ("op", "decomposed"), [pytest.param(lambda x: flash(x)[0], True, marks=pytest.mark.slow), (flash, False)]
)
def test_an_output_that_a_decomposition_gets_wrong_matters_where_it_is_read(op: Op, decomposed: bool) -> None:
    """torch's decomposition of this op returns the weights in the place of their logarithm, with an axis more."""
    example = (torch.randn(3, 6, 5),)
    exported = export(Call(op), example, dynamic_shapes={"x": {0: Dim("n", min=1, max=13)}})
    _, lowered = assert_lowered_agrees(exported, example, keep=keep_nothing, beside_torch=False)
    name = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    assert (name not in targets(lowered)) is decomposed
    limits = [(limit.target, limit.why) for limit in lowered.limits]
    wrong = "its decomposition gives another dtype or other sizes than the program recorded"
    assert limits == ([] if decomposed else [(name, wrong)])


def labels(x: Tensor) -> Tensor:
    """The example of its documentation, whose labels end at -1, row by row."""
    return F.multilabel_margin_loss(x, torch.tensor([3, 0, -1, 1]).expand(x.shape[0], 4), reduction="none")


def test_a_decomposition_that_counts_labels_behind_the_last_is_not_taken() -> None:
    example = (torch.tensor([[0.1, 0.2, 0.4, 0.8]] * 3),)
    exported = export(Call(labels), example, dynamic_shapes={"x": {0: Dim("n", min=1, max=13)}})
    _, lowered = assert_lowered_agrees(exported, example, keep=keep_nothing, beside_torch=False)
    assert "aten.multilabel_margin_loss.default" in targets(lowered)
    torch.testing.assert_close(exported.module()(*example), torch.tensor([0.85] * 3))


def numbers_among(x: Tensor) -> tuple[Tensor, ...]:
    """-1 is 255 of uint8; 2 ** 24 + 1 is another number in float32."""
    numbers, small = x.view(-1), x.view(-1).to(torch.uint8)
    first = torch.isin(numbers[0], numbers), torch.isin(numbers, 4), torch.isin(small, numbers[:2])
    return *first, torch.isin(2**24 + 1, numbers), torch.isin(-1, small), torch.isin(numbers[0], small)


def test_one_number_is_looked_up_in_the_dtype_of_the_others() -> None:
    example = (torch.tensor([[-1, 2**24, 4], [255, 4, 7]]),)
    _, lowered = assert_lowered_agrees(
        export(Call(numbers_among), example), example, keep=keep_nothing, beside_torch=False
    )
    assert [limit.target for limit in lowered.limits] == [
        "aten.isin.Scalar_Tensor", "aten.isin.Scalar_Tensor", "aten.isin.Tensor_Tensor"
    ]  # fmt: skip


def reads_memory_in_order(x: Tensor, bags: Tensor) -> tuple[Tensor, ...]:
    offsets = torch.tensor([0, 2])
    return torch.pdist(x), F.embedding_bag(bags, x, offsets), F.embedding_bag(bags, x, offsets, padding_idx=-1)


def test_kernels_that_read_memory_in_order_are_given_it_so() -> None:
    """pdist and embedding_bag bring their input in order, which their decompositions in an exported program do not."""
    example = (torch.randn(7, 5), torch.tensor([3, 1, 4, 1, 5]))
    _, lowered = assert_lowered_agrees(export(Call(reads_memory_in_order), example), example)
    given = [torch.randn(5, 7).t(), torch.tensor([3, 1, 4, 1, 5, 6, 2, 0, 0, 1])[::2]]
    for ours, theirs in zip(
        lowered.graph_module(*lowered.arguments(given)), reads_memory_in_order(*given), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)  # sums in another order


def histogram_of_two_columns(x: Tensor) -> tuple[Tensor, ...]:
    counts, (first, second) = torch.histogramdd(x, (2, 3))
    return counts, first + 1, second


def test_outputs_that_stand_in_a_list_of_an_op_taken_apart_are_read_as_they_are() -> None:
    """A getitem of a list of nodes is no program to torch.export."""
    example = (torch.randn(7, 2),)
    _, lowered = assert_lowered_agrees(export(Call(histogram_of_two_columns), example), example)
    elements = lowered.graph_module.graph.find_nodes(op="call_function", target=operator.getitem)
    assert elements
    assert all(isinstance(element.args[0], Node) for element in elements)
