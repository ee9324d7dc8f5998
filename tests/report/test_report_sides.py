"""Where drawn nodes run, the hierarchy by engine, and the layers of engines at their nodes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from tests.harness.graph_data import boxes_of, names_of
from trtdiag.analysis.compilation import CompilationFacts, EngineFacts
from trtdiag.engine.built_layers import LayerInfo, LayerTensor
from trtdiag.network.network import Origin
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.drawing.build import graph_view
from trtdiag.report.drawing.engine_layers import engine_layers
from trtdiag.report.drawing.graph_model import Group, hierarchy_by_step
from trtdiag.report.drawing.nodes import DrawnNode, Role, drawn_nodes
from trtdiag.report.drawing.sides import Side, Sides, position_of, sides
from trtdiag.report.report import Report
from trtdiag.runtime.engine_layers import ToldLayers


class Scans(nn.Module):
    """Linear layers, a scan that no engine takes, a sum of constants that lowering folds, and a layer after them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU())
        self.last = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.LayerNorm(5))
        self.table = nn.Buffer(torch.arange(5.0))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cummax(self.first(x), 1).values
        return self.last(x + torch.arange(5.0) * 2) + self.table.exp()


@pytest.fixture(scope="module")
def scanned() -> Report:
    shapes = {"x": {0: Dim("rows", min=1, max=13)}}
    return trtdiag.analyze(export(Scans(), (torch.randn(3, 5),), dynamic_shapes=shapes), min_segment_ops=1)


@pytest.fixture(scope="module")
def nodes(scanned: Report) -> tuple[DrawnNode, ...]:
    return drawn_nodes(scanned.analysis, scanned.analysis.checked.graph_module)


@pytest.fixture(scope="module")
def where(scanned: Report, nodes: tuple[DrawnNode, ...]) -> Sides:
    return sides(scanned.analysis.partition, nodes)


def by_op(nodes: tuple[DrawnNode, ...], start: str) -> list[int]:
    return [at for at, node in enumerate(nodes) if node.op.startswith(f"aten.{start}.")]


def test_every_op_runs_somewhere_and_nothing_else_does(nodes: tuple[DrawnNode, ...], where: Sides) -> None:
    assert where.labels == ("engine 0", "PyTorch", "engine 1")
    assert [node.role is Role.OP for node in nodes] == [side is not Side.NONE for side in where.side]
    (scan,) = by_op(nodes, "cummax")
    assert where.side[scan] is Side.TORCH
    assert where.words[scan].startswith("PyTorch: ")
    assert len(where.words[scan]) > len("PyTorch: ")
    assert [where.words[at] for at in by_op(nodes, "relu")] == ["engine 0", "engine 0", "engine 1", "engine 1"]


def test_what_lowering_folded_runs_nowhere_and_stands_with_its_reader(
    nodes: tuple[DrawnNode, ...], where: Sides
) -> None:
    (table,) = by_op(nodes, "arange")
    assert where.side[table] is Side.GONE
    assert where.words[table] == "nowhere: lowering folded, merged or removed it"
    assert where.step[table] == 2


def test_what_nothing_reads_stands_with_the_op_after_it(scanned: Report, nodes: tuple[DrawnNode, ...]) -> None:
    """Beside the engines a chain of such ops would look like a part of the program that runs nowhere."""
    (table,) = by_op(nodes, "arange")
    unread = [replace(node, reads=tuple(at for at in node.reads if at != table)) for node in nodes]
    where = sides(scanned.analysis.partition, unread)
    assert where.side[table] is Side.GONE
    after = next(at for at in range(table + 1, len(nodes)) if nodes[at].role is Role.OP)
    assert where.step[table] == where.step[after]
    root = hierarchy_by_step(unread, where)
    assert table not in root.items
    last = [*[replace(node, reads=()) for node in unread[:table]], unread[table]]
    assert sides(scanned.analysis.partition, last).step[table] == 1  # nothing follows it: with the scan before it


def test_engines_are_boxes_in_order_and_hold_modules(nodes: tuple[DrawnNode, ...], where: Sides) -> None:
    root = hierarchy_by_step(nodes, where)
    labels = [item.label if isinstance(item, Group) else nodes[item].label for item in root.items]
    # The scan is one op: it stands by itself.
    assert labels == ["x", "engine 0", "cummax", "engine 1", "output"]
    first, last = (item for item in root.items if isinstance(item, Group))
    assert (first.step, last.step) == (0, 2)
    assert first.path == "first"
    assert where.side.count(Side.GONE) > 0  # they stand in a box, and are not counted
    assert first.ops + last.ops + 1 == root.ops == sum(side in (Side.ENGINE, Side.TORCH) for side in where.side)


def inside(group: Group) -> list[int]:
    return [at for item in group.items for at in (inside(item) if isinstance(item, Group) else [item])]


def test_both_hierarchies_hold_every_drawn_node_once(scanned: Report, nodes: tuple[DrawnNode, ...]) -> None:
    data = json.loads(graph_view(scanned.analysis, "builtin")["payload"])
    drawn = sorted(at for at, node in enumerate(nodes) if node.role.drawn)
    for name, groups in data["views"]:
        assert boxes_of(groups) == (drawn, len(groups) - 1), name
    assert [name for name, _ in data["views"]] == ["partition", "module"]


def test_parts_of_a_decomposed_node_are_its_node() -> None:
    number = {"add": 0, "mul__plain": 1, "relu": 2, "relu_": 3, "relu__1": 4}
    names = ("add", "add__mul_1", "mul__plain", "mul__plain__x", "relu__a", "relu___a", "relu__1__a__b", "other", "__a")
    assert [position_of(name, number) for name in names] == [0, 0, 1, 1, 2, 3, 4, None, None]


def test_layers_stand_at_the_ops_that_they_compute(nodes: tuple[DrawnNode, ...]) -> None:
    relu, linear = by_op(nodes, "relu")[0], by_op(nodes, "linear")[0]
    ops = tuple(
        Origin(nodes[at].op, name) for at, name in ((linear, f"{nodes[linear].name}__mm"), (relu, nodes[relu].name))
    )
    told = (
        LayerInfo("fused", "gemm", ops, True, (), (LayerTensor("y", "float16", "", (3, 5)),), time_ms=0.0125),
        LayerInfo("reformat", "copy", (), True),
        LayerInfo("again", "pointwise", ops[1:], True),
    )
    engine = EngineFacts.__new__(EngineFacts)
    object.__setattr__(engine, "built", ToldLayers(told))
    found = engine_layers(CompilationFacts((engine,), None), nodes)
    assert found.told == (
        ("engine 0, layer 0", "fused", "gemm, float16, 2 ops, 0.0125 ms"),
        ("engine 0, layer 2", "again", "pointwise, 1 op"),
    )
    assert found.of_node == {linear: (0,), relu: (0, 1)}


def test_a_compiled_program_is_drawn_with_its_layers() -> None:
    shapes = {"x": {0: Dim("rows", min=1, max=13)}}
    program = export(Scans(), (torch.randn(3, 5),), dynamic_shapes=shapes)
    analysis = compile_in_stages(program, CompileOptions("11.4", "reference", verify=False)).report.analysis
    facts = analysis.compilation
    assert facts is not None
    layer = LayerInfo("one", "kind", (Origin("aten.relu.default", "relu"),), True)
    engines = (replace(facts.engines[0], built=ToldLayers((layer,))), *facts.engines[1:])
    view = graph_view(replace(analysis, compilation=replace(facts, engines=engines)), "builtin")
    data = json.loads(view["payload"])
    assert [[data["texts"][each] for each in told] for told in data["layers"]] == [
        ["engine 0, layer 0", "one", "kind, 1 op"]
    ]
    ((node, *layers),) = data["layered"]
    assert (names_of(data)[node], layers) == ("relu", [0])


def test_ops_that_write_in_place_run_where_their_functional_forms_do() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=True), nn.Linear(7, 5), nn.ReLU(inplace=True))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layers(x)
            y += x
            return y

    report = trtdiag.analyze(export(InPlace().eval(), (torch.randn(3, 5),)), min_segment_ops=0, target="11.4")
    drawn = drawn_nodes(report.analysis, report.analysis.checked.graph_module)
    found = sides(report.analysis.partition, drawn)
    ops = [at for at, node in enumerate(drawn) if node.role is Role.OP]
    assert any(drawn[at].op == "aten.relu_.default" for at in ops)
    assert {found.side[at] for at in ops} == {Side.ENGINE}
