"""Walking a program: every node once, nested graphs under their names, and what each node is."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn
from torch.export import Dim, export

from trtdiag.graph.node_kinds import NodeKind, classify, walk
from trtdiag.graph.operators import target_name


class Nested(nn.Module):
    def forward(self, x, y):
        with torch.no_grad():
            scaled = x * 2

        def on_true(t):
            return torch.cond(t.mean() > 1, lambda u: u + 1, lambda u: u * 3, (t,))

        chosen = torch.cond(x.sum() > 0, on_true, lambda t: t - 1, (scaled,))
        return chosen[: y.shape[0]], torch.nn.functional.dropout(x, 0.5, training=False), y.detach()


@cache
def _nested():
    return export(
        Nested(),
        (torch.randn(5, 3), torch.randn(4, 3)),
        dynamic_shapes={"x": {0: Dim("n", min=4, max=16)}, "y": {0: Dim("m", min=2, max=4)}},
    ).graph_module


def test_every_node_of_every_graph_appears_once_under_its_own_name():
    root = _nested()
    located = list(walk(root))
    graphs = [module for module in root.modules() if isinstance(module, torch.fx.GraphModule)]
    assert len(graphs) >= 6  # the program, no_grad, two branches, two inner branches
    assert len(located) == sum(len(module.graph.nodes) for module in graphs)
    assert len({item.name for item in located}) == len(located)
    assert {item.depth for item in located} == {0, 1, 2}


def test_nested_names_are_attribute_paths_and_follow_the_node_that_names_them():
    root = _nested()
    located = list(walk(root))
    names = [item.name for item in located]
    inner = next(item for item in located if item.depth == 2)
    outer, middle, _ = inner.name.split(".")
    assert isinstance(getattr(getattr(root, outer), middle), torch.fx.GraphModule)
    holder = next(item for item in located if item.kind is NodeKind.SUBGRAPH and item.node.target == outer)
    first_inside = next(index for index, name in enumerate(names) if name.startswith(f"{outer}."))
    assert names.index(holder.name) == first_inside - 1


def test_kinds_of_real_nodes():
    kinds = {item.name: item.kind for item in walk(_nested())}
    by_kind = {kind: [name for name, found in kinds.items() if found is kind] for kind in NodeKind}
    assert by_kind[NodeKind.PLACEHOLDER][:2] == ["x", "y"]
    assert by_kind[NodeKind.OUTPUT][-1] == "output"
    assert "cond" in by_kind[NodeKind.HIGHER_ORDER]
    assert "dropout" in by_kind[NodeKind.NO_OP]
    assert any(name.startswith("sym_size") for name in by_kind[NodeKind.SHAPE])
    assert any(name.startswith("getitem") for name in by_kind[NodeKind.ELEMENT])
    assert "slice_1" in by_kind[NodeKind.OP]


class Sizes(nn.Module):
    def forward(self, x, n):
        count = n.item()
        torch._check(count >= 1)
        torch._check(count < x.shape[0])
        half = torch.sym_min(x.shape[0] // 2, 7) * 3
        return x[:count], x.new_zeros(half), torch.nn.functional.dropout(x, 0.25, training=True)


def test_size_arithmetic_assertions_and_data_dependent_numbers_are_told_apart():
    graph = export(Sizes(), (torch.randn(8), torch.tensor(3)), dynamic_shapes=({0: Dim("n", min=4, max=64)}, None))
    kinds = {item.name: item.kind for item in walk(graph.graph_module)}
    assert kinds["item"] is NodeKind.OP  # it reads a tensor's value
    assert kinds["dropout"] is NodeKind.OP  # it drops
    shapes = {target_name(i.node.target) for i in walk(graph.graph_module) if i.kind is NodeKind.SHAPE}
    assert {"torch.sym_min", "operator.mul", "aten.sym_size.int"} <= shapes
    assert any(name.startswith("_assert_scalar") and kind is NodeKind.ASSERT for name, kind in kinds.items())


def test_switching_gradients_is_no_op_and_no_size():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    switch = graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.output(x)
    module = torch.fx.GraphModule({}, graph)
    assert classify(switch) is NodeKind.NO_OP
    assert [item.name for item in walk(module)] == ["x", "_set_grad_enabled", "output"]


def test_a_graph_used_twice_is_walked_once():
    inner = torch.fx.Graph()
    inner.output(inner.placeholder("a"))
    outer = torch.fx.Graph()
    first, second = outer.get_attr("sub"), outer.get_attr("sub")
    outer.output((first, second))
    root = torch.fx.GraphModule({"sub": torch.fx.GraphModule({}, inner)}, outer)
    assert [item.name for item in walk(root)] == ["sub", "sub.a", "sub.output", "sub_1", "output"]
