"""Single rules of the precision pass: what stays in float32, where casts stand, what becomes of weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

from tests.lower.agreement import lowered_of, user_outputs
from tests.lower.precise import DTYPES, assert_close, dtype_at, facts, operand_dtypes, precise, reasons
from trtdiag.lower.precision.apply import with_precision
from trtdiag.options import Precision


class Act(nn.Module):
    def __init__(self, act, **weights):
        super().__init__()
        self.act = act
        for name, value in weights.items():
            self.register_parameter(name, nn.Parameter(value, requires_grad=False))

    def forward(self, *args: Tensor) -> Tensor:
        return self.act(self, *args)


def program(act, *args, dims=None, **weights):
    return Act(act, **weights).eval(), args or (torch.randn(3, 8),), {}, dims


def half_between(op):
    """The op between two linear layers, so that half precision is at hand on both sides."""
    return lambda m, x: F.linear(op(F.linear(x, m.w)), m.w)


def square():
    torch.manual_seed(0)
    return torch.randn(8, 8) / 4


BETWEEN = {
    "aten.gelu": (F.gelu, True),
    "aten.relu": (F.relu, True),
    "aten.tanh": (torch.tanh, True),
    "aten.add": (lambda x: x + 0.5, True),
    "aten.amax": (lambda x: x - x.amax(-1, keepdim=True), True),
    "aten.softmax": (lambda x: x.softmax(-1), True),
    "aten.log_softmax": (lambda x: x.log_softmax(-1), False),
    "aten.layer_norm": (lambda x: F.layer_norm(x, (8,)), True),
    "aten.group_norm": (lambda x: F.group_norm(x, 2), True),
    "aten.exp": (lambda x: x.exp(), False),
    "aten.pow": (lambda x: x**2, False),
    "aten.rsqrt": (lambda x: x.abs().rsqrt(), False),
    "aten.var": (lambda x: x - x.var(-1, keepdim=True), False),
    "aten.cumsum": (lambda x: x.cumsum(-1), False),
    "aten.sin": (lambda x: x.sin(), False),
}


@pytest.mark.parametrize("op", BETWEEN)
def test_what_stays(op):
    act, half = BETWEEN[op]
    after, _ = precise(program(half_between(act), w=square()))
    assert dtype_at(after, op) == {torch.float16 if half else torch.float32}
    assert any(target.startswith(op) for target in reasons(after)) is not half
    assert torch.float16 in dtype_at(after, "aten.linear")


def test_keep_changes_nothing():
    _, lowered = lowered_of(program(half_between(F.gelu), w=square()))
    assert with_precision(lowered, Precision.KEEP, ("aten.gelu",)) is lowered


@pytest.mark.slow  # quick: test_a_small_number_does_not_vanish
def test_no_cast_between_ops_that_stay():
    def act(m, x):
        x = F.linear(x, m.w).softmax(-1)
        x = (x.reshape(2, -1, 8) * 2).transpose(0, 1)
        return F.linear(x.log(), m.w)

    after, _ = precise(program(act, torch.randn(4, 8), w=square()))
    for op in ("aten.softmax", "aten.reshape", "aten.mul", "aten.permute", "aten.log"):
        assert dtype_at(after, op) == {torch.float32}, op
    assert facts(after).casts == 4  # input, into the softmax, out of the log, output


def test_a_value_is_cast_once_for_all_readers():
    def act(m, x):
        y = F.linear(x, m.w)
        return F.linear(y.exp() + y.log1p() + y.pow(3), m.w) + F.linear(x, m.w)

    after, _ = precise(program(act, w=square()))
    casts = [n for n in after.graph_module.graph.nodes if n.target is torch.ops.aten._to_copy.default]
    assert len(casts) == 4  # x, y to float32, the sum of what stays, the output


@pytest.mark.parametrize(("count", "stays"), [(2048, False), (2053, True)])
def test_long_sums_stay(count, stays):
    act = lambda m, x: F.linear(F.linear(x, m.w).sum(0), m.w)  # noqa: E731
    after, _ = precise(program(act, torch.randn(count, 8), w=square()))
    assert dtype_at(after, "aten.sum") == {torch.float32 if stays else torch.float16}
    if stays:
        assert reasons(after)["aten.sum.dim_IntList"].startswith("a sum of 2053 elements: beyond 2048 equal ones")
    bfloat, _ = precise(program(act, torch.randn(count, 8), w=square()), Precision.BF16)
    assert "beyond 256" in reasons(bfloat)["aten.sum.dim_IntList"]


def test_a_sum_over_a_dynamic_dim_stays():
    act = lambda m, x: F.linear(F.linear(x, m.w).mean(0), m.w)  # noqa: E731
    after, _ = precise(program(act, torch.randn(7, 8), w=square(), dims={"args": ({0: Dim("n", min=1, max=99)},)}))
    assert "dynamic" in reasons(after)["aten.mean.dim"]


def test_manual_norms_keep_their_statistics_together():
    def act(m, x):
        x = F.linear(x, m.w)
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()
        return F.linear(x, m.w)

    after, _ = precise(program(act, w=square()))
    for op in ("aten.var", "aten.sqrt", "aten.div"):
        assert dtype_at(after, op) == {torch.float32}, op


def test_a_small_number_does_not_vanish():
    act = lambda m, x: F.linear(F.normalize(F.linear(x, m.w) * 0.0), m.w)  # noqa: E731
    source = program(act, w=square())
    # Zero by max(0, 1e-12): in half precision that would be zero by zero.
    after = assert_close(source, Precision.FP16, rtol=0, atol=0)
    assert "next to nothing in float16" in reasons(after)["aten.clamp.default"]


def test_a_softmax_written_out():
    def act(m, x):
        x = F.linear(x, m.w) * 6
        x = x.exp()
        return F.linear(x / x.sum(-1, keepdim=True), m.w)

    # exp(6 * 4) is beyond float16; one rounding of values to about 24 before the exponential: 24 * 2**-11.
    assert_close(program(act, 2 * torch.randn(3, 8), w=square()), Precision.FP16, rtol=5e-2, atol=2e-2)


@pytest.mark.parametrize("precision", [Precision.FP16, Precision.BF16])
def test_operands_of_one_op_have_one_dtype(precision):
    def act(m, x, keep):
        y, z = F.linear(x, m.w), x.softmax(-1)
        picked = torch.where(keep, y, z)
        return torch.cat((picked, z, y), 0) + F.linear(z, m.w).sum(0) + m.b

    keep = torch.tensor([True, False] * 4)
    after = assert_close(program(act, torch.randn(3, 8), keep, w=square(), b=torch.randn(())), precision, 5e-2, 5e-2)
    half = DTYPES[precision]
    assert operand_dtypes(after, "aten.where") == [half, half]
    assert operand_dtypes(after, "aten.cat") == [half] * 3
    for node in after.graph_module.graph.nodes:
        vals = [source.meta["val"] for source in node.all_input_nodes] if node.op == "call_function" else []
        floats = {v.dtype for v in vals if isinstance(v, Tensor) and v.dtype.is_floating_point}
        assert len(floats) <= 1, node


def test_shared_weights_are_cast_once_and_the_originals_go():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(11, 8)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.words(ids))

    after, _ = precise((Tied().eval(), (torch.tensor([[1, 2, 10]]),), {}, None))
    halves = [t for t in after.tensors.values() if isinstance(t, Tensor) and t.dtype == torch.float16]
    assert len({t.untyped_storage().data_ptr() for t in halves}) == 1
    read = [n.name for n in after.graph_module.graph.nodes if n.op == "placeholder" and n.users]
    assert {after.tensors[name].dtype for name in read if name in after.tensors} == {torch.float16}


@pytest.mark.parametrize(("most", "stays"), [(65504.0, False), (65519.0, False), (65521.0, True), (1e9, True)])
def test_a_weight_beyond_float16_keeps_its_op(most, stays):
    weight = square()
    weight[3, 5] = most
    act = lambda m, x: F.linear(F.linear(x, m.w), m.v)  # noqa: E731
    after, _ = precise(program(act, w=weight, v=square()))
    assert (dtype_at(after, "aten.linear") == {torch.float16, torch.float32}) is stays
    assert all(bool(t.isfinite().all()) for t in after.tensors.values() if isinstance(t, Tensor))
    if stays:
        assert "p_w" in reasons(after)["aten.linear.default"]
        assert "infinite in float16" in reasons(after)["aten.linear.default"]


def test_values_up_to_60000_stay_finite():
    def act(m, x):
        x = F.linear(x, m.eye)  # 6e4 goes through a layer as it is
        x = F.layer_norm(x, (8,)) + (x / x.pow(2).mean(-1, keepdim=True).sqrt())
        return F.linear(x, m.w)

    x = torch.full((3, 8), 6e4) * torch.tensor([1.0, -1.0] * 4)
    assert_close(program(act, x, w=square(), eye=torch.eye(8)), Precision.FP16, rtol=1e-2, atol=1e-2)


@pytest.mark.slow  # quick: test_a_value_is_cast_once_for_all_readers
def test_the_users_list():
    source = program(half_between(F.gelu), w=square())
    after, _ = precise(source, keep=("aten.gelu", "aten::tan", "no.such"))
    assert dtype_at(after, "aten.gelu") == {torch.float32}
    assert reasons(after)["aten.gelu.default"] == "keep_fp32 names aten.gelu"
    assert facts(after).unmatched == ("aten::tan", "no.such")

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))

    after, _ = precise((Two().eval(), (torch.randn(3, 8),), {}, None), keep=("second",))
    assert dtype_at(after, "aten.linear") == {torch.float16, torch.float32}
    assert [each.origin.module_path for each in facts(after).stays] == ["second"]
    assert {t.dtype for t in after.tensors.values()} == {torch.float16, torch.float32}


def test_other_dtypes_are_left_alone():
    act = lambda m, x, y: (x * 2, y.double() + 1, x.long() + 1)  # noqa: E731
    after, _ = precise(program(act, torch.randn(3).double(), torch.randn(3)))
    assert facts(after).lowered_ops == 0
    assert facts(after).casts == 0


def test_a_comparison_sees_what_stays():
    act = lambda m, x: F.linear(x, m.w).softmax(-1).topk(3).indices  # noqa: E731
    after, _ = precise(program(act, w=square()))
    assert operand_dtypes(after, "aten.topk") == [torch.float32]


def test_a_changed_buffer_keeps_its_dtype():
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(8))
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            x = self.layer(x)
            self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
            return x - self.mean

    after, _ = precise((Average().eval(), (torch.randn(3, 8),), {}, None))
    returned = after.graph_module(*after.arguments([torch.randn(3, 8)]))
    assert [each.dtype for each in returned] == [torch.float32, torch.float32]
    assert after.tensors["b_mean"].dtype == torch.float32


@pytest.mark.slow  # quick: nested graphs stay whole, in test_nested_graphs.py
def test_a_nested_graph_gets_what_it_was_written_for():
    def act(m, x):
        def more(y):
            return y.sin() * 2

        def less(y):
            return y.cos()

        return F.linear(torch.cond(x.sum() > 0, more, less, (F.linear(x, m.w),)), m.w)

    source = program(act, torch.ones(3, 8), w=square())
    after = assert_close(source, Precision.FP16, 2e-2, 2e-2)
    assert reasons(after)["cond"] == "it runs a nested graph"


def test_outputs_are_the_users_dtypes():
    act = lambda m, x: (F.linear(x, m.w), x, x.argmax(-1), x.half())  # noqa: E731
    _, before = lowered_of(program(act, w=square()))
    after, _ = precise(program(act, w=square()))
    given = [torch.randn(3, 8)]
    assert [o.dtype for o in user_outputs(after, given)] == [o.dtype for o in user_outputs(before, given)]
