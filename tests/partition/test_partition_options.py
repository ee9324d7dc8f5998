"""min_segment_ops, keep_in_torch, require_full, the bytes that cross, and what supporting an op would change."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.harness.rows import thinned
from tests.harness.staged import staged
from tests.partition.programs import EVERY_SEGMENT, Forward, export, limits_on, split
from trtdiag.errors import UnsupportedOpError
from trtdiag.graph.limit import Limit
from trtdiag.options import PartitionOptions
from trtdiag.partition.facts import Bytes, Cause
from trtdiag.partition.partition import partition, symbol_sizes
from trtdiag.partition.what_if import if_inside
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic.ranges import Range

X = torch.arange(12.0).reshape(3, 4) - 5.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(self.attn(x).softmax(-1) + x)


class Layers(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(count)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def least(count):
    return PartitionOptions(min_segment_ops=count)


def test_views_do_not_make_a_segment_large_enough() -> None:
    def forward(x):
        return x.relu().exp().cumsum(0).t().unsqueeze(0).squeeze(0).relu().cumsum(0)

    assert len(split(Forward(forward), (X,), without=("aten.cumsum",), options=least(1)).segments) == 2
    found = split(Forward(forward), (X,), without=("aten.cumsum",), options=least(2))
    assert found.ops() == [["relu", "exp"]]
    small = [entry for entry in found.partitioned.fallback if entry.cause is Cause.SMALL]
    assert [entry.limit.code for entry in small] == ["segment-too-small"] * len(small)
    assert "relu_1" in {entry.node for entry in small}
    assert "fewer than 2 ops" in small[0].limit.why
    found.assert_runs(X)


def test_ops_that_can_be_elsewhere_leave_a_small_segment() -> None:
    def forward(x, y):
        a = x.cumsum(0).relu()  # alone in its segment
        b = y.exp()  # the earliest place is with it
        return a.cumsum(0).relu() * b * 2 + b

    found = split(Forward(forward), (X, X), without=("aten.cumsum",), options=least(3))
    assert [entry.node for entry in found.partitioned.fallback if entry.cause is Cause.SMALL] == ["relu"]
    assert sorted(found.ops()[0]) == ["add", "exp", "mul", "mul", "relu"]
    found.assert_runs(X, X)


# Quick: the ends and each third.
@thinned(
    ("entry", "kept"),
    [
        ("aten.softmax", {"softmax", "softmax_1", "softmax_2"}),
        ("aten.softmax.int", {"softmax", "softmax_1", "softmax_2"}),
        ("torch.ops.aten.softmax.int", {"softmax", "softmax_1", "softmax_2"}),
        ("aten::softmax", {"softmax", "softmax_1", "softmax_2"}),
        ("layers.1.attn", {"linear_1"}),
        ("layers.1", {"linear_1", "softmax_1", "add_1", "layer_norm_1"}),
    ],
    every=3,
)
def test_keep_in_torch_by_op_and_by_module(entry: str, kept: set[str]) -> None:
    found = split(Layers(3), (X,), options=PartitionOptions(min_segment_ops=0, keep_in_torch=(entry,)))

    assert {fallback.node for fallback in found.partitioned.fallback} == kept
    assert {fallback.cause for fallback in found.partitioned.fallback} == {Cause.KEPT}
    assert found.partitioned.unused_keeps == ()
    found.assert_runs(X)


@pytest.mark.slow  # quick: what the user keeps is named
def test_keep_in_torch_is_no_prefix_of_letters() -> None:
    entries = ("layers.1", "layers", "aten.soft", "aten.linear.out", "laye", "attn")
    found = split(Layers(1), (X,), options=PartitionOptions(min_segment_ops=0, keep_in_torch=entries[2:]))
    assert found.partitioned.fallback == ()
    assert found.partitioned.unused_keeps == entries[2:]
    found = split(Layers(11), (X,), options=PartitionOptions(min_segment_ops=0, keep_in_torch=entries[:1]))
    assert len(found.partitioned.fallback) == 4  # of layers.1, not of layers.10


@pytest.mark.slow  # quick: test_require_full_names_what_the_user_keeps
def test_require_full_names_the_reasons_grouped() -> None:
    with pytest.raises(UnsupportedOpError) as raised:
        split(Layers(5), (X,), without=("aten.softmax", "aten.layer_norm"), options=PartitionOptions(require_full=True))
    because = raised.value.because
    assert "10 of 20 ops" in raised.value.message
    assert "aten.softmax.int (5x): no converter for aten.softmax.int [no-converter]" in because
    assert "aten.layer_norm.default (5x)" in because
    assert "softmax, softmax_1, softmax_2 and 2 more" in because
    assert "write it without aten.softmax.int" in raised.value.fix


def test_require_full_names_what_the_user_keeps() -> None:
    options = PartitionOptions(require_full=True, keep_in_torch=("layers.0.norm",))
    with pytest.raises(UnsupportedOpError, match=r"keep_in_torch names layers\.0\.norm"):
        split(Layers(2), (X,), options=options)


def test_require_full_takes_one_op() -> None:
    found = split(nn.Linear(4, 7), (X,), options=PartitionOptions(require_full=True))
    assert len(found.segments) == 1


def test_bytes_at_both_ends_and_between() -> None:
    batch = Dim("batch", min=1, max=97)
    program = staged(
        Forward(lambda x: (x[1:].double().cumsum(0).relu(), x)), (torch.randn(5, 7),), (({0: 1 + batch},),)
    )
    exported = program.program.exported
    assert exported is not None
    # torch's own ranges begin at 2 here; what counts is what was declared.
    (symbol,) = program.program.ranges
    sizes = symbol_sizes({symbol: Range(1, 97)}, program.program.hints)
    module = exported.graph_module
    found = partition(module, limits_on(module, ["aten.cumsum"]), EVERY_SEGMENT, symbols=sizes)

    crossing = {boundary.tensor: boundary.bytes for boundary in found.boundaries}
    (given,) = [boundary for boundary in found.boundaries if boundary.program_input]
    assert given.bytes == Bytes(2 * 7 * 4, 5 * 7 * 4, 98 * 7 * 4)
    assert crossing["cumsum"] == Bytes(1 * 7 * 8, 4 * 7 * 8, 97 * 7 * 8)
    (relu,) = [boundary for boundary in found.boundaries if boundary.tensor == "relu"]
    assert (relu.producer, relu.consumers, relu.program_output) == (1, (), True)


def test_a_size_that_data_decide_is_usually_in_the_middle() -> None:
    sizes = symbol_sizes({"u0": Range(1, 5376), "u1": Range(3, None), "s0": Range(2, 31)}, {"s0": 7})
    assert {name: (each.min, each.opt, each.max) for name, each in sizes.items()} == {
        "u0": (1, 2688, 5376),
        "u1": (3, 3, None),
        "s0": (2, 7, 31),
    }


def test_bytes_without_an_end_are_not_invented() -> None:
    exported = export(Forward(lambda x: x.relu()), (torch.randn(5, 7),), ({0: Dim("batch", min=2)},))
    (symbol,) = {str(dim.node.expr) for dim in exported.graph.find_nodes(op="placeholder")[0].meta["val"].shape[:1]}
    found = partition(exported.graph, {}, EVERY_SEGMENT, symbols={symbol: DimProfile(2, 5, None)})
    assert found.boundaries[0].bytes == Bytes(2 * 28, 5 * 28, None)
    assert partition(exported.graph, {}, EVERY_SEGMENT).boundaries[0].bytes == Bytes(None, None, None)


def test_what_would_change_if_engines_could_hold_an_op() -> None:
    def forward(x):
        for _ in range(3):
            x = x.relu().cumsum(0).exp()
        return x.cumprod(0).tanh()

    found = split(Forward(forward), (X,), without=("aten.cumsum", "aten.cumprod")).partitioned

    sums = if_inside(found, "cumsum", {"cumsum", "cumsum_1", "cumsum_2"})
    assert (sums.op, sums.segments_before, sums.segments_after) == ("cumsum", 5, 2)
    assert sums.ops_after == sums.ops_before + 3
    one = if_inside(found, "cumsum_1", {"cumsum_1"})
    assert (one.nodes, one.segments_after) == (("cumsum_1",), 4)
    assert if_inside(found, "cumprod", {"cumprod"}).segments_after == 4
    nothing = if_inside(found, "relu", {"relu"})
    assert (nothing.nodes, nothing.segments_after) == (("relu",), 5)


def test_a_limit_has_a_kebab_code() -> None:
    with pytest.raises(ValueError, match="kebab"):
        Limit("No Converter", "it has none")
