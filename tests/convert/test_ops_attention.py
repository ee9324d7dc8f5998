"""Attention: by its layer on the targets that have it, by products elsewhere, the same results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import trtdiag
from tests.convert.family_samples import converted, missing
from tests.convert.op_check import OLD_THEN_NEW, check_op
from tests.convert.op_samples import overload
from tests.harness.rows import thinned
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.symbolic import Num

NAME = "aten.scaled_dot_product_attention.default"
BY_HAND = {NAME, "aten._scaled_dot_product_flash_attention_for_cpu.default"}
# These run on a GPU alone; they differ in the place of their arguments, which the schema test holds.
ON_GPU = {
    "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_efficient_attention.default",
    "aten._scaled_dot_product_cudnn_attention.default",
    "aten._scaled_dot_product_fused_attention_overrideable.default",
}
STEPS_FIRST = {"aten._flash_attention_forward.default", "aten._efficient_attention_forward.default"}
"""These run on a GPU alone, too, and take (batch, steps, heads, width)."""
SHAPES = [(2, 3, 5, 4), (3, 5, 4), (5, 4), (2, 2, 3, 5, 4)]
TARGETS = OLD_THEN_NEW


def test_every_converter_has_samples() -> None:
    assert not missing({"attention"}, BY_HAND | ON_GPU | STEPS_FIRST)


def _layers(*args: Any, target: str = "11.4", **kwargs: Any) -> set[str]:
    op = overload(NAME)
    assert op is not None
    found = check_op(op, args, kwargs, target=target).converted
    assert found is not None
    return {placed.layer.kind for placed in found.network.layers}


@pytest.mark.parametrize("target", TARGETS)
# Quick: the rank that models have; fewer and more dims are reshaped to it.
@pytest.mark.parametrize("shape", [SHAPES[0], *(pytest.param(shape, marks=pytest.mark.slow) for shape in SHAPES[1:])])
# Halves go the same way; the quick run has them without ranks and masks, below.
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float16, marks=pytest.mark.slow)])
def test_ranks_and_masks(shape: tuple[int, ...], dtype: torch.dtype, target: str) -> None:
    query, key, value = (torch.randn(shape).to(dtype) for _ in range(3))
    seen = torch.rand(5, 5) > 0.4
    seen[2] = False  # a query that sees no key gives 0
    added = torch.randn(5, 5).masked_fill(~seen, -torch.inf).to(dtype)
    for rest in ((), (seen,), (added,), (None, 0.0, True)):
        assert converted(NAME, query, key, value, *rest, target=target) == 1
    assert converted(NAME, query, key, value, seen, dynamic=True, shared=True, target=target) > 1
    assert converted(NAME, query, key, value, None, 0.0, True, dynamic=True, shared=True, target=target) > 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("heads", [1, 2, 3, 6])
def test_heads_that_share_keys(heads: int, target: str) -> None:
    query, key = torch.randn(2, 6, 5, 4), torch.randn(2, heads, 7, 4)
    assert converted(NAME, query, key, key, None, 0.0, True, kwargs={"enable_gqa": True}, target=target) == 1


@pytest.mark.slow  # quick: test_ranks_and_masks
@pytest.mark.parametrize("target", TARGETS)
def test_more_keys_than_queries_and_fewer(target: str) -> None:
    """A causal query sees the keys up to its own index, counted from the first."""
    for queries, keys in ((3, 7), (7, 3), (1, 5), (5, 1)):
        query, key = torch.randn(2, 3, queries, 4), torch.randn(2, 3, keys, 4)
        assert converted(NAME, query, key, key, None, 0.0, True, target=target) == 1
        assert converted(NAME, query, key, key, torch.rand(queries, keys) > 0.3, target=target) == 1


def test_a_scale_of_ones_own_and_a_width_that_is_not_known() -> None:
    query = torch.randn(2, 3, 5, 4)
    assert converted(NAME, query, query, query, kwargs={"scale": 0.3}) == 1
    assert converted(NAME, query, query, query, kwargs={"scale": 0.3}, dynamic=True, shared=True) == 4
    assert converted(NAME, query, query, query, dynamic=True, shared=True, target="8.6") == 4


def test_the_layer_is_taken_where_it_means_the_same() -> None:
    query = torch.randn(2, 3, 5, 4)
    assert "Attention" in _layers(query, query, query)
    assert "Attention" not in _layers(query, query, query, target="8.6")
    assert "Attention" in _layers(query, query, query, torch.rand(2, 1, 5, 5) > 0.5)
    assert "Attention" not in _layers(query, query[:1], query[:1])  # a batch that broadcasts
    assert "Attention" not in _layers(query, query, torch.randn(2, 3, 5, 7))  # values of another width
    wide = torch.zeros(5, 5)
    assert "Attention" not in _layers(query.half(), query.half(), query.half(), wide)  # a mask of another dtype


def test_dropout_is_refused() -> None:
    query = torch.randn(2, 3, 5, 4)
    converted(NAME, query, query, query, None, 0.1, refused="random")


def test_lengths_that_nothing_ties_are_refused() -> None:
    """Attention has no check of its own that there are as many values as keys."""
    query = torch.randn(2, 3, 5, 4)
    converted(NAME, query, query, query, dynamic=True, refused="sum-not-proven")


def test_the_kernel_for_the_cpu() -> None:
    query, key = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4)
    name = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    assert converted(name, query, key, key, read=(0,), dynamic=True, shared=True) == 4
    converted(name, query, key, key, refused="output-unsupported")


class _OfAGpu(torch.nn.Module):
    """One of the ops of which only the first result is read; the others are numbers, too."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        given = (None, False) if "efficient" in self.name or "cudnn" in self.name else ()
        return getattr(torch.ops.aten, self.name.split(".")[1])(query, key, value, *given, scale=0.3)[0]


# Quick: the first and the last; they differ in the place of their arguments, which the schema test holds.
@thinned("name", sorted(ON_GPU), every=9)
def test_a_kernel_for_gpus_whose_other_results_nobody_reads(name: str) -> None:
    """Its program cannot run here; that of the engine is compared with what the op means."""
    batch, steps = Dim("batch", min=1, max=5), Dim("steps", min=2, max=9)
    given = [torch.randn(2, 3, 5, 8) for _ in range(3)]
    source = (_OfAGpu(name), tuple(given), {}, ({0: batch, 2: steps},) * 3)
    found = compile_in_stages(source, CompileOptions("11.4", "reference", verify=False))
    assert found.plan.partitioned.fallback == ()
    for sizes in ((1, 2), (2, 5), (5, 9)):
        given = [torch.randn(sizes[0], 3, sizes[1], 8) for _ in range(3)]
        wanted = F.scaled_dot_product_attention(*given, scale=0.3)
        torch.testing.assert_close(found.compiled(*given), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_mask_that_all_queries_share(dtype: torch.dtype, target: str) -> None:
    query, key, value = (torch.randn(3, 2, size, 4).to(dtype) for size in (5, 7, 7))
    seen = torch.rand(3, 1, 1, 7) > 0.4
    seen[1] = False  # a batch that sees no key gives 0
    added = torch.randn(3, 1, 1, 7).masked_fill(~seen, -torch.inf).to(dtype)
    for mask in (seen, added, seen[0], seen[1]):
        assert converted(NAME, query, key, value, mask, target=target) == 1


def test_what_follows_from_a_mask_is_written_once() -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            for _ in range(3):
                x = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
                x = F.scaled_dot_product_attention(x, x, x, is_causal=True)
            return x

    batch, steps = Dim("batch", min=1, max=5), Dim("steps", min=2, max=9)
    dims = {"x": {0: batch, 2: steps}, "mask": {0: batch, 3: steps}}
    x, mask = torch.randn(2, 3, 5, 4), torch.tensor([[True] * 5, [False] * 5])[:, None, None]
    options = CompileOptions("8.6", "reference", verify=False)
    found = compile_in_stages((Twice().eval(), (x, mask), {}, dims), options)
    (one,) = found.converted
    kinds = Counter(placed.layer.kind for placed in one.network.layers)
    assert kinds["SoftMax"] == 6
    assert kinds["Reduce"] == 1
    assert kinds["Fill"] == 2
    # Two for what is added for the mask, one for causal, and the values of each attention with the mask.
    assert kinds["Select"] == 3 + 3
    torch.testing.assert_close(found.compiled(x, mask), Twice()(x, mask))


class _Repeated(torch.nn.Module):
    """Heads repeated before attention, as models do that know no other way."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        def repeated(x: torch.Tensor) -> torch.Tensor:
            batch, heads, steps, width = x.shape
            return x[:, :, None].expand(batch, heads, 3, steps, width).reshape(batch, 3 * heads, steps, width)

        y = F.scaled_dot_product_attention(query, repeated(key), repeated(value), attn_mask=mask)
        return F.scaled_dot_product_attention(y, repeated(key), repeated(value), attn_mask=mask)


class _RepeatedWhole(_Repeated):
    """The other order: all heads, and all of them again."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        key, value = (x[:, None].expand(-1, 3, -1, -1, -1).flatten(1, 2) for x in (key, value))
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@pytest.mark.slow  # quick: heads that share keys
@pytest.mark.parametrize(
    ("module", "target", "heads"),
    [
        (_Repeated, "11.4", 2),
        pytest.param(_Repeated, "10.16", 2, marks=pytest.mark.slow),
        pytest.param(_Repeated, "8.6", 0, marks=pytest.mark.slow),
        pytest.param(_RepeatedWhole, "11.4", 6, marks=pytest.mark.slow),
    ],
)
def test_repeated_heads_are_shared_by_the_layer(module: type[torch.nn.Module], target: str, heads: int) -> None:
    batch, steps = Dim("batch", min=1, max=5), Dim("steps", min=1, max=11)
    dims = {
        **{name: {0: batch, 2: steps} for name in ("query", "key", "value")},
        "mask": {0: batch, 2: steps, 3: steps},
    }

    def inputs(batch: int, steps: int) -> tuple[torch.Tensor, ...]:
        mask = torch.rand(batch, 1, steps, steps) > 0.4
        mask[:, :, 0] = False  # a query that sees no key gives 0
        own = torch.randn(batch, 6, steps, 4), torch.randn(batch, 2, steps, 4), torch.randn(batch, 2, steps, 4)
        return (*own, mask)

    options = CompileOptions(target, "reference", verify=False)
    found = compile_in_stages((module().eval(), inputs(2, 7), {}, dims), options)
    (one,) = found.converted
    network = one.network
    read = {network.tensors[p.inputs[1]].shape[1] for p in network.layers if p.layer.kind == "Attention"}
    assert read == ({Num(heads)} if heads else set())
    if heads:
        assert [p.layer.kind for p in network.layers].count("Reduce") == 1  # what the mask lets see, once for both
    for size in ((1, 1), (2, 7), (5, 11)):
        given = inputs(*size)
        torch.testing.assert_close(found.compiled(*given), module()(*given), rtol=1e-5, atol=1e-5)


class _StepsFirst(torch.nn.Module):
    """One of the ops within, of which only the first result is read."""

    def __init__(self, name: str, **more: Any) -> None:
        super().__init__()
        self.flash, self.more = "flash" in name, more

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        more = dict(self.more)
        if self.flash:
            lengths, causal = more.pop("lengths", None), more.pop("causal", False)
            sizes = (query.shape[1], key.shape[1])
            given = (lengths, lengths, *sizes, more.pop("dropout", 0.0), causal, False)
            return torch.ops.aten._flash_attention_forward(query, key, value, *given, scale=0.3, **more)[0]
        lengths, bias = more.pop("lengths", None), more.pop("bias", None)
        longest = None if lengths is None else 5
        given = (bias, lengths, lengths, longest, longest, more.pop("dropout", 0.0), more.pop("mask_type", 0))
        return torch.ops.aten._efficient_attention_forward(query, key, value, *given, scale=0.3, **more)[0]


def _compiled_of(name: str, heads: int, **more: Any) -> Any:
    batch, steps, seen = Dim("batch", min=1, max=5), Dim("steps", min=2, max=9), Dim("keys", min=2, max=9)
    same = more.get("causal") or more.get("mask_type") == 2 or "bias" in more
    given = tuple(torch.randn(2, 5, count, 8) for count in (4, heads, heads))
    dims = ({0: batch, 1: steps}, *({0: batch, 1: steps if same else seen} for _ in range(2)))
    source = (_StepsFirst(name, **more), given, {}, (*dims,))
    return compile_in_stages(source, CompileOptions("11.4", "reference", verify=False))


@pytest.mark.parametrize(
    ("name", "heads", "more"),
    [
        pytest.param("_flash_attention_forward", 4, {}, marks=pytest.mark.slow),  # quick: with fewer heads, and causal
        ("_flash_attention_forward", 2, {"window_size_left": -1, "window_size_right": -1}),
        ("_flash_attention_forward", 4, {"causal": True}),
        ("_efficient_attention_forward", 4, {}),
        pytest.param("_efficient_attention_forward", 4, {"mask_type": 1}, marks=pytest.mark.slow),  # quick: the other
        ("_efficient_attention_forward", 4, {"mask_type": 2}),
    ],
)
def test_attention_with_steps_before_heads(name: str, heads: int, more: dict[str, Any]) -> None:
    """Its program cannot run here; that of the engine is compared with the math form."""
    found = _compiled_of(name, heads, **more)
    assert found.plan.partitioned.fallback == ()
    causal = bool(more.get("causal") or more.get("mask_type"))
    for batch, steps, keys in ((1, 2, 2), (2, 5, 3), (5, 9, 9), (3, 2, 9)):
        if (more.get("causal") or more.get("mask_type") == 2) and steps != keys:
            continue
        given = [torch.randn(batch, *sizes, 8) for sizes in ((steps, 4), (keys, heads), (keys, heads))]
        query, key, value = (tensor.transpose(1, 2) for tensor in given)
        wanted = F.scaled_dot_product_attention(
            query, key, value, is_causal=causal, scale=0.3, enable_gqa=heads != 4
        ).transpose(1, 2)
        torch.testing.assert_close(found.compiled(*given), wanted, rtol=1e-5, atol=1e-5)


LENGTHS = torch.tensor([0, 5, 10], dtype=torch.int32)


@pytest.mark.parametrize(
    ("name", "more", "code"),
    [
        ("_flash_attention_forward", {"lengths": LENGTHS}, "variable-lengths"),
        ("_efficient_attention_forward", {"lengths": LENGTHS}, "variable-lengths"),
        ("_flash_attention_forward", {"window_size_left": 3}, "attention-form"),
        ("_flash_attention_forward", {"alibi_slopes": torch.ones(4)}, "attention-form"),
        ("_efficient_attention_forward", {"window_size": 3}, "attention-form"),
        ("_flash_attention_forward", {"dropout": 0.5}, "random"),
    ],
)
def test_what_stays_of_them_has_its_reason(name: str, more: dict[str, Any], code: str) -> None:
    packed = "lengths" in more
    shape = (10, 4, 8) if packed else (2, 5, 4, 8)
    if packed and "efficient" in name:
        shape = (1, *shape)
    given = tuple(torch.randn(shape) for _ in range(3))
    found = trtdiag.analyze((_StepsFirst(name, **more), given), target="11.4", min_segment_ops=0).analysis
    assert found.partition is not None
    assert {each.limit.code for each in found.partition.plan.partitioned.fallback} == {code}
