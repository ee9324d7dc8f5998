"""Reading meta values: symbolic dims, numbers, containers, and that reading adds no guard."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim, export

from trtdiag.frontend.torch_private import shape_env_of
from trtdiag.graph.values import NodeReader, NumberValue, OtherValue, TensorValue, is_row_major, leaves
from trtdiag.symbolic import to_text
from trtdiag.symbolic.expr import Num, Sym


class Model(nn.Module):
    def forward(self, x, y):
        joined = torch.cat([x, y])
        values, order = torch.topk(x, 2, dim=1)
        parts = torch.split(joined, 2, dim=1)
        positive = torch.nonzero(x)
        return joined.transpose(0, 1), values, order, parts[0], positive, x.shape[0] * 0.5 * y, x.shape[0] + 1


def _exported():
    return export(
        Model(),
        (torch.randn(3, 4), torch.randn(5, 4, dtype=torch.float64)),
        dynamic_shapes={"x": {0: Dim("a", min=1, max=9)}, "y": {0: Dim("b", min=1, max=7)}},
    )


def _read():
    exported = _exported()
    reader = NodeReader()
    return exported, {node.name: reader.read(node) for node in exported.graph.nodes}


def test_tensor_dims_are_expressions():
    _, values = _read()
    (joined,) = values["cat"]
    assert isinstance(joined, TensorValue)
    assert joined.dtype == torch.float64
    assert joined.element_bytes == 8
    rows, columns = joined.dims
    assert columns == Num(4)
    assert to_text(rows).count("s") == 2
    (x,) = values["x"]
    assert isinstance(x.dims[0], Sym)


def test_memory_order_is_told_by_expressions():
    exported = _exported()
    order = {n.name: is_row_major(n.meta["val"]) for n in exported.graph.nodes if n.name in ("x", "cat", "transpose")}
    assert order == {"x": True, "cat": True, "transpose": False}
    assert not is_row_major(torch.zeros(4, 6)[:, ::2])
    assert is_row_major(torch.zeros(1, 3).transpose(0, 1))
    assert not is_row_major(torch.zeros(3, 3).to_sparse())


def test_several_outputs_keep_their_order_and_dtypes():
    _, values = _read()
    assert [value.dtype for value in values["topk"]] == [torch.float32, torch.int64]
    assert [value.dims[1] for value in values["split"]] == [Num(2), Num(2)]


def test_a_data_dependent_size_is_an_unbacked_symbol():
    _, values = _read()
    (found,) = values["nonzero"]
    assert isinstance(found.dims[0], Sym)
    assert found.dims[0].name.startswith("u")


def test_numbers_are_read_with_their_kind():
    _, values = _read()
    numbers = [value for found in values.values() for value in found if isinstance(value, NumberValue)]
    assert any(number.kind == "int" and isinstance(number.expr, Sym) for number in numbers)
    assert any(number.kind == "int" and "+ 1" in to_text(number.expr) for number in numbers if number.expr)


def test_reading_adds_no_guard_and_changes_no_node():
    exported = _exported()
    env = shape_env_of(exported.graph_module)
    guards, keys = len(env.guards), {n.name: set(n.meta) for n in exported.graph.nodes}
    reader = NodeReader()
    for node in exported.graph.nodes:
        reader.read(node)
    assert len(env.guards) == guards
    assert {n.name: set(n.meta) for n in exported.graph.nodes} == keys


def test_a_node_reader_reads_the_same_once_and_tells_every_symbol():
    exported, values = _read()
    reader = NodeReader()
    for node in exported.graph.nodes:
        found = reader.node(node)
        assert found.values == values[node.name] == reader.read(node)
        assert found.is_list == isinstance(node.meta.get("val"), (list, tuple))
        alone = len(found.values) == 1 and isinstance(found.values[0], TensorValue) and not found.is_list
        assert found.tensor is (found.values[0] if alone else None)
        assert reader.node(node) is found
        val = node.meta.get("val")
        in_order = isinstance(val, torch.Tensor) and is_row_major(val)
        assert [reader.row_major(node), reader.row_major(node)] == [in_order] * 2
    symbols = {node.name: reader.node(node).symbols for node in exported.graph.nodes}
    (a,), (b,) = symbols["x"], symbols["y"]
    assert a != b
    assert symbols["cat"] == {a, b}
    assert any(symbol.startswith("u") for symbol in symbols["nonzero"])
    assert symbols["output"] == frozenset()


def test_plain_and_missing_values():
    graph = torch.fx.Graph()
    node = graph.placeholder("x")
    assert NodeReader().read(node) == ()
    node.meta["val"] = None
    assert NodeReader().read(node) == ()
    node.meta["val"] = (3, True, 0.5, None, {"k": [torch.empty(2, 0, dtype=torch.complex64)]}, "text")
    three, true, half, nothing, tensor, text = NodeReader().read(node)
    assert three == NumberValue("int", Num(3))
    assert (true.kind, half.kind) == ("bool", "float")
    assert nothing == OtherValue("None")
    assert tensor.dims == (Num(2), Num(0))
    assert text == OtherValue("str")
    assert list(leaves({"a": (1, [2, None])})) == [1, 2, None]


def test_a_symbolic_float_without_integer_meaning_stays_unknown():
    class Root(nn.Module):
        def forward(self, x):
            return x * (x.shape[0] ** 0.5)

    exported = export(Root(), (torch.randn(4),), dynamic_shapes={"x": {0: Dim("n", min=2, max=8)}})
    values = [value for node in exported.graph.nodes for value in NodeReader().read(node)]
    floats = [value for value in values if isinstance(value, NumberValue) and value.kind == "float"]
    assert all(value.expr is None or "sqrt" not in to_text(value.expr) for value in floats)
    assert any(isinstance(value, TensorValue) for value in values)
