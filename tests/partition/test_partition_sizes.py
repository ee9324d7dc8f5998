"""Sizes: no number crosses a boundary, each segment computes its own from its own tensors."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.partition.programs import EVERY_SEGMENT, Forward, export, split
from trtdiag.graph.limit import Limit
from trtdiag.graph.values import TensorValue
from trtdiag.partition.partition import partition
from trtdiag.symbolic.text import to_text

BATCH = Dim("batch", min=1, max=97)
SIZES = (1, 2, 13, 97)


def sources(size):
    return [(source.tensor, source.dim, to_text(source.extent)) for source in size.sources]


def test_a_chain_of_sizes_is_duplicated_into_each_segment() -> None:
    def forward(x):
        rows = x.shape[0]
        a = x.relu().reshape(rows * 2, 2)
        b = a.cumsum(0).exp()
        return b.reshape(2, rows, 2) + 1

    found = split(Forward(forward), (torch.randn(3, 4),), ({0: BATCH},), without=("aten.cumsum",))

    first, second = found.segments
    assert first.entering_sizes == second.entering_sizes == ()
    assert sources(first.sizes[-1]) == [("args_0", 0, first_symbol(found))]
    # Its own input has 2 * batch rows: the second segment gets the batch from that.
    assert {found_source[:2] for size in second.sizes for found_source in sources(size)} == {("cumsum", 0)}
    assert found.partitioned.torch_sizes == ()
    for rows in SIZES:
        found.assert_runs(torch.randn(rows, 4))


def first_symbol(found):
    (value,) = [t.value for t in found.partitioned.plan.graph.tensors if t.name == "args_0"]
    assert isinstance(value, TensorValue)
    return to_text(value.dims[0])


def test_size_nodes_never_make_a_segment() -> None:
    found = split(Forward(lambda x: x.cumsum(0).reshape(x.shape[0] * 2, 2)), (torch.randn(3, 4),), ({0: BATCH},),
                  without=("aten.cumsum", "aten.reshape"))  # fmt: skip
    assert found.segments == ()
    assert [size.node for size in found.partitioned.torch_sizes][-1:] == ["mul"]
    for rows in SIZES:
        found.assert_runs(torch.randn(rows, 4))


def test_a_size_that_no_tensor_of_the_segment_has_enters() -> None:
    def forward(x, y):
        return y.relu().expand(x.shape[0], 4).exp()

    found = split(Forward(forward), (torch.randn(3, 4), torch.randn(1, 4)), ({0: BATCH}, None))

    (segment,) = found.segments
    (entering,) = segment.entering_sizes
    assert "no tensor that enters the segment has a dim of it" in entering.why
    assert segment.sizes == ()
    assert segment.inputs == ("args_1",)  # x itself does not cross for its size
    assert [size.node for size in found.partitioned.torch_sizes] == [entering.node]
    for rows in SIZES:
        found.assert_runs(torch.randn(rows, 4), torch.randn(1, 4))


def test_a_size_of_a_tensor_made_inside_is_read_there() -> None:
    """From ``(n + 1) // 2`` no symbol can be got back, but a tensor of that size is at hand."""

    def forward(x, y):
        a = x.cumsum(0)[:, :, ::2].relu()
        return a.exp() + y.expand(2, 3, a.shape[2])

    rows = Dim("rows", min=4, max=97)
    y = torch.randn(2, 3, 1)
    found = split(Forward(forward), (torch.randn(2, 3, 9), y), ({2: rows}, None), without=("aten.cumsum", "aten.slice"))

    (segment,) = found.segments
    assert segment.entering_sizes == ()
    assert segment.inputs == ("args_1", "slice_1")
    for count in (4, 5, 13, 97):
        found.assert_runs(torch.randn(2, 3, count), y)


def test_numbers_given_and_returned_stay_outside() -> None:
    class Scaled(nn.Module):
        def forward(self, x, n):
            return x.relu().expand(n, 4), x.shape[0] * 3, n + 1

    exported = torch.export.export(
        Scaled(), (torch.randn(1, 4), 7), dynamic_shapes={"x": None, "n": Dim.DYNAMIC}, strict=False
    )
    found = split(exported)
    (segment,) = found.segments
    assert segment.inputs == ("x",)
    assert [size.node for size in segment.entering_sizes] == ["n"]
    for number in (2, 7, 50):
        found.assert_runs(torch.randn(1, 4), number)


class Selected(nn.Module):
    """Rows by data: u0 is born, and everything after it depends on it."""

    def forward(self, x):
        a = x.relu()
        rows = (a.sum(1) > 0).nonzero().squeeze(1)
        kept = a.index_select(0, rows).exp()
        return kept.reshape(kept.shape[0] * 2, 2).tanh() + 1


def test_what_data_decides_is_inside_of_a_segment() -> None:
    found = split(Selected(), (torch.randn(5, 4),), ({0: BATCH},))
    (segment,) = found.segments
    assert "nonzero" in segment.ops
    assert segment.entering_sizes == ()
    for rows in SIZES:
        found.assert_runs(torch.randn(rows, 4))


def test_what_is_left_to_pytorch_splits() -> None:
    exported = export(Selected(), (torch.randn(5, 4),), ({0: BATCH},))
    found = partition(
        exported.graph_module, {"nonzero": Limit("data-dependent", "as many as there are")}, EVERY_SEGMENT
    )
    first, second = found.segments
    assert "relu" in first.ops
    assert "tanh" in second.ops
    assert second.entering_sizes == ()


class Counted(nn.Module):
    """The number of rows is returned beside them: a tensor that leaves anyway has it."""

    def forward(self, x):
        kept = x[x.sum(1) > 0]
        return kept.exp() + 1, kept.shape[0]


def test_a_size_is_read_off_what_leaves_anyway() -> None:
    found = split(Counted(), (torch.randn(5, 4),), ({0: BATCH},))
    (segment,) = found.segments
    assert segment.outputs == ("add",)
    sources = [source for size in found.partitioned.torch_sizes for source in size.sources]
    assert {(source.tensor, source.dim) for source in sources} == {("add", 0)}
    for rows in SIZES:
        found.assert_runs(torch.randn(rows, 4))


def test_a_number_from_data_orders_its_readers() -> None:
    def forward(x, y):
        count = x.relu().sum().to(torch.int64).item()
        torch._check(count >= 0)
        torch._check(count <= 1000)
        return y.relu().reshape(1, 4).expand(count, 4).exp()

    found = split(Forward(forward), (torch.ones(3, 4), torch.ones(4)))

    (item,) = [name for name, code in found.reasons().items() if code == "data-dependent"]
    late = next(s for s in found.segments if "exp" in s.ops)
    assert [size.expr for size in late.entering_sizes] != []
    assert late.index == 1
    place = [item in step.torch_nodes for step in found.partitioned.steps].index(True)
    assert place < [step.segment for step in found.partitioned.steps].index(1)
    for count in (0, 1, 7):
        found.assert_runs(torch.full((1, 1), float(count)).expand(1, 1).contiguous().repeat(3, 4) / 12, torch.ones(4))


def test_a_limit_on_a_size_makes_it_enter() -> None:
    exported = export(Forward(lambda x: x.relu().reshape(x.shape[0] * 2, 2)), (torch.randn(3, 4),), ({0: BATCH},))
    found = partition(exported.graph_module, {"mul": Limit("no-converter", "no converter for mul")}, EVERY_SEGMENT)
    (entering,) = found.segments[0].entering_sizes
    assert (entering.node, entering.why) == ("mul", "no converter for mul")


@pytest.mark.parametrize("metadata", [True, False])
def test_sizes_without_metadata_are_computed_by_their_own_ops(metadata: bool) -> None:
    function = Forward(lambda x: x.relu().cumsum(0).reshape(x.shape[0] * 2, 2).exp())
    exported = export(function, (torch.randn(3, 4),), ({0: BATCH},))
    if not metadata:
        for node in exported.graph_module.graph.nodes:
            if "sym_size" in node.name or node.name == "mul":
                del node.meta["val"]
    found = split(exported, without=("aten.cumsum",))
    second = found.segments[1]
    # Without its expression the size is x.shape[0] * 2, and x is not in the second segment.
    assert [size.node for size in second.entering_sizes] == ([] if metadata else ["mul"])
    (whole,) = split(exported).segments
    assert whole.entering_sizes == ()
    assert [size.expr is None for size in whole.sizes] == ([False] if metadata else [True, True])
    for rows in SIZES:
        found.assert_runs(torch.randn(rows, 4))


def without_metadata(exported):
    for node in exported.graph_module.graph.nodes:
        if "sym_size" in node.name or node.name in ("mul", "mul_1"):
            del node.meta["val"]
    return exported


def test_a_size_of_an_inner_and_an_outer_tensor_mixes() -> None:
    """Without metadata nothing tells that the inner tensor has the size of an input."""

    def forward(x, y, z):
        a = x.relu()
        return z.expand(a.shape[0] * y.shape[0], 4) + a.sum()

    dims = ({0: BATCH}, {0: Dim("other", min=1, max=50)}, None)
    exported = without_metadata(
        export(Forward(forward), (torch.randn(3, 4), torch.randn(5, 4), torch.randn(1, 4)), dims)
    )
    for node in exported.graph_module.graph.nodes:
        if "sym_size" in node.name and "args_0" in str(node.args[0]):
            node.args = (next(n for n in exported.graph_module.graph.nodes if n.name == "relu"), node.args[1])
    relu = next(node for node in exported.graph_module.graph.nodes if node.name == "relu")
    for node in list(exported.graph_module.graph.nodes):
        if "sym_size" in node.name and relu in node.all_input_nodes:
            relu.append(node)
    found = split(exported, without=("aten.cumsum",))

    (segment,) = [one for one in found.segments if "relu" in one.ops]
    inner = [size.node for size in segment.sizes if "relu" in size.operands]
    assert len(inner) == 1
    assert "mul" in [size.node for size in segment.sizes]
    assert len(segment.entering_sizes) == 1
    for rows, more in ((1, 1), (2, 50), (13, 7), (97, 2)):
        found.assert_runs(torch.randn(rows, 4), torch.randn(more, 4), torch.randn(1, 4))

    stuck = partition(exported.graph_module, {"mul": Limit("no-converter", "none for mul")}, EVERY_SEGMENT)
    assert {entry.limit.why for entry in stuck.fallback} == {"none for mul"}
    assert "expand" in {entry.node for entry in stuck.fallback}
