"""The drawn graph: groups by module, levels, chips, marks, nested graphs, the data for the explorer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from sample_analysis import analysis, exported_net, finding, graph_analysis

from tests.harness.graph_data import names_of
from trtdiag.analysis.finding import Place, Severity
from trtdiag.frontend.program import OpOrigin
from trtdiag.graph.source import Frame, Stack
from trtdiag.report.drawing.build import graph_view
from trtdiag.report.drawing.finding_marks import marks
from trtdiag.report.drawing.graph_model import MOST_BOXES, Group, all_groups, hierarchy
from trtdiag.report.drawing.levels import MOST_ARROWS, levels
from trtdiag.report.drawing.nodes import DrawnNode, Role, drawn_nodes
from trtdiag.report.page import Part


def node(name: str, path: str = "", reads: Sequence[int] = (), role: Role = Role.OP) -> DrawnNode:
    origin = OpOrigin(path, "net.Block")
    return DrawnNode(name, f"aten.{name}.default", name, role, "f32[2]", "", origin, tuple(reads))


def chain(*paths: str) -> list[DrawnNode]:
    return [node(f"n{at}", path, (at - 1,) if at else ()) for at, path in enumerate(paths)]


def outline(group: Group) -> list[object]:
    return [item if isinstance(item, int) else (item.label, *outline(item)) for item in group.items]


def test_modules_are_groups() -> None:
    nodes = chain("stem", *["a.x"] * 3, *["a.y"] * 3, *["b"] * 4)
    assert outline(hierarchy(nodes)) == [0, ("a", ("x", 1, 2, 3), ("y", 4, 5, 6)), ("b", 7, 8, 9, 10)]


def test_module_that_holds_nearly_everything_is_opened_at_the_top() -> None:
    nodes = chain("stem", *["net.a"] * 5, *["net.b"] * 5)
    assert outline(hierarchy(nodes)) == [0, ("net.a", 1, 2, 3, 4, 5), ("net.b", 6, 7, 8, 9, 10)]


def test_small_modules_dissolve_and_their_ops_keep_the_path() -> None:
    nodes = chain("a", "a.proj", "a", "a.norm", "a.norm", "b", "b", "b")
    root = hierarchy(nodes)
    assert outline(root) == [0, 1, 2, 3, 4, ("b", 5, 6, 7)]
    drawn = levels(root, nodes)[0]
    assert [box.label for box in drawn.boxes[:4]] == ["n0", "n1 proj", "n2", "n3 norm"]


def test_group_that_only_holds_a_group_is_one_with_it() -> None:
    nodes = chain(*["x.deep.er"] * 3, *["y"] * 3, *["z"] * 3)
    assert [item.label for item in hierarchy(nodes).items if isinstance(item, Group)] == ["x.deep.er", "y", "z"]


def test_index_keeps_the_name_of_its_list() -> None:
    nodes = chain(*[f"net.layers.{at // 3}" for at in range(150)], *["head"] * 200)
    root = hierarchy(nodes)
    layers = next(item for item in root.items if isinstance(item, Group) and item.path == "net.layers")
    assert [item.label for item in layers.items if isinstance(item, Group)][:2] == ["layers.0", "layers.1"]


def test_long_level_is_cut_into_stretches() -> None:
    nodes = chain(*["f"] * 5000)
    groups = all_groups(hierarchy(nodes))
    assert max(len(group.items) for group in groups) <= MOST_BOXES
    assert sum(isinstance(item, int) for group in groups for item in group.items) == 5000
    assert any(group.label == "part 2 of 125" for group in groups)


def test_module_path_of_thousands_of_dots_is_no_hierarchy() -> None:
    nodes = chain(*[".".join("ab"[at % 2] + str(depth % 3) for depth in range(4000)) for at in range(12)])
    groups = all_groups(hierarchy(nodes))
    assert sum(isinstance(item, int) for group in groups for item in group.items) == 12
    assert len(groups) < 60


def test_shape_computations_checks_and_weights_are_listed_not_drawn() -> None:
    nodes = [node("w", "", (), Role.WEIGHT), node("x", "", (), Role.INPUT), *chain(*["a"] * 3, *["b"] * 3)]
    nodes += [node("size", "b", (1,), Role.SHAPE), node("check", "b", (1,), Role.CHECK)]
    root = hierarchy(nodes)
    assert root.undrawn == [0]
    b = next(group for group in all_groups(root) if group.path == "b")
    assert b.undrawn == [8, 9]
    assert b.ops == 3


def test_edge_belongs_to_the_level_where_the_ways_part() -> None:
    nodes = chain(*["a"] * 3, *["b"] * 3)
    top, a, b = levels(hierarchy(nodes), nodes)
    assert top.graph.edges == ((0, 1),)
    assert a.graph.edges == b.graph.edges == ((0, 1), (1, 2))
    assert a.graph == b.graph


def test_value_read_by_many_is_a_chip_but_no_box_loses_its_last_arrow() -> None:
    readers = MOST_ARROWS + 2
    nodes = [node("x", role=Role.INPUT), node("mask", role=Role.INPUT), node("first", reads=(0,))]
    for at in range(readers):
        nodes.append(node(f"r{at}", reads=(len(nodes) - 1, 1)))
    nodes.append(node("lonely", reads=(1,)))
    level = levels(hierarchy(nodes), nodes)[0]
    from_mask = [head for tail, head in level.graph.edges if tail == 1]
    assert from_mask == [len(nodes) - 1]
    assert [box.chips for box in level.boxes if box.chips] == [(1,)] * readers


def test_wide_characters_get_the_room_of_two() -> None:
    nodes = [replace(node("n"), label=label) for label in ("a" * 16, "層" * 8, "層" * 16)]
    sizes = [width for width, _ in levels(hierarchy(nodes), nodes)[0].graph.sizes]
    assert sizes[0] == sizes[1] < sizes[2]


def test_findings_are_counted_on_every_box_around_them() -> None:
    nodes = [*chain(*["a"] * 5, *["b.c"] * 3, *["b"] * 2, "d"), node("size", "b.c", (), Role.SHAPE)]
    root = hierarchy(nodes)
    found = (
        finding(1, "A", Severity.WARNING, "a", places=(Place("n6"), Place("n7"))),
        finding(2, "A", Severity.ERROR, "b", places=(Place("size"),)),
        finding(3, "A", Severity.INFO, "c", places=(Place(None, "a"), Place("absent"))),
        finding(4, "A", Severity.INFO, "d", places=(Place(None, "d"),)),
    )
    marked = marks(found, nodes, root)
    by_path = {group.path: marked.groups[at] for at, group in enumerate(all_groups(root))}
    assert by_path == {"": (0, 1, 2, 3), "a": (2,), "b": (0, 1), "b.c": (0, 1)}
    assert marked.nodes == {6: (0,), 7: (0,), 10: (3,), 11: (1,)}
    assert [marked.worst(by_path[path]) for path in ("", "a", "b.c")] == ["error", "info", "error"]
    assert marked.worst(()) == ""


def data_of(view: Part) -> dict[str, object]:
    return json.loads(view["payload"])


@pytest.mark.slow  # quick: graphs made by hand, here; real ones in tests/browser
def test_real_program_is_drawn_by_module() -> None:
    exported = exported_net()
    view = graph_view(graph_analysis(exported), "builtin")
    assert view is not None
    labels = [box["label"] for box in view["picture"]["boxes"]]
    assert labels[:3] == ["x", "sum", "layers.0"]
    assert labels[-1] == "output"
    assert [box["classes"] for box in view["picture"]["boxes"]][:3] == ["box input", "box op", "box group"]
    assert "Not drawn, listed with their modules: 3 shape computations, 38 weights." in view["summary"]
    data = data_of(view)
    names = names_of(data)
    assert [name for name in names if name == "output"] == ["output"]
    assert len(names) == len(exported.graph.nodes)


def test_equal_layers_share_one_layout() -> None:
    data = data_of(graph_view(graph_analysis(exported_net()), "builtin"))
    ((name, groups),) = data["views"]
    assert name == "module"
    assert len(groups) == 7
    assert len(data["layouts"]) == 2


def test_stacks_and_frames_are_kept_once() -> None:
    made = graph_analysis(exported_net())
    view = graph_view(made, "builtin")
    data = data_of(view)
    assert len(data["stacks"]) < len(data["nodes"]["name"]) / 2
    assert len(data["frames"]) == len({tuple(frame) for frame in data["frames"]})


class Wrapped(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2

        def yes(y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return self.a(y).sin() + z

        def no(y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return y.cos() - z

        return torch.cond(x.sum() > 0, yes, no, (y, y + 1)).relu()


def test_nested_graphs_are_wired_to_what_is_around_them() -> None:
    made = graph_analysis(torch.export.export(Wrapped(), (torch.randn(3, 4),)))
    nodes = drawn_nodes(made, made.checked.graph_module)
    by_name = {n.name: n for n in nodes}
    position = {n.name: at for at, n in enumerate(nodes)}
    inner = next(name for name in by_name if name.endswith(".cos"))
    assert by_name[inner].reads == (position["mul"],)
    cond = next(n for n in nodes if n.op == "cond")
    results = {nodes[at].op for at in cond.reads}
    assert {"aten.gt.Scalar", "aten.add.Tensor", "aten.sub.Tensor"} <= results
    relu = next(n for n in nodes if n.op == "aten.relu.default")
    assert [nodes[at].op for at in relu.reads] == ["cond"]
    assert graph_view(made, "builtin") is not None


def test_program_without_a_graph_has_no_picture() -> None:
    assert graph_view(analysis()) is None


def test_program_that_returns_its_input_is_drawn() -> None:
    class Same(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    view = graph_view(graph_analysis(torch.export.export(Same(), (torch.randn(3),))), "builtin")
    assert view is not None
    assert [box["label"] for box in view["picture"]["boxes"]] == ["x", "output"]
    assert len(view["picture"]["edges"]) == 1


def test_frames_tell_whose_they_are() -> None:
    own, foreign = "/home/ada/net.py", "/usr/lib/python3/site-packages/lib/net.py"
    stack = Stack((Frame(foreign, 3, "call", "f(x)"), Frame(own, 7, "forward", "y = x")))
    made = graph_analysis(exported_net(2))
    origins = {name: OpOrigin("", "", Stack(stack.frames)) for name in made.program.origins}
    data = data_of(graph_view(replace(made, program=replace(made.program, origins=origins)), "builtin"))
    frames = [(data["texts"][file], line, mine) for file, line, _, _, mine in data["frames"]]
    assert frames == [("lib/net.py", 3, 0), ("~/net.py", 7, 1)]
    assert data["stacks"] == [[], [0, 1]]
