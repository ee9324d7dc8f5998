"""What boxes and their panel tell beyond shapes: arguments, measures, source; and how the numbers are packed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import torch
from sample_analysis import exported_net, graph_analysis
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from tests.harness.graph_data import names_of, reads_of
from trtdiag.analysis.result import Analysis
from trtdiag.frontend.program import OpOrigin
from trtdiag.graph.source import Frame, Stack
from trtdiag.network.network import Origin
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.drawing import packing
from trtdiag.report.drawing.build import graph_view
from trtdiag.report.drawing.measures import measures
from trtdiag.report.drawing.nodes import DrawnNode, Role, drawn_nodes
from trtdiag.report.drawing.op_arguments import OpArgument, short_arguments
from trtdiag.report.drawing.payload import MOST_LINES, source_lines
from trtdiag.report.drawing.sides import sides
from trtdiag.verification.facts import Culprit


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x).flatten(2)
        return (y * 2.5).to(torch.float64).expand(y.shape[0], 4, y.shape[2]).softmax(-1)


def analysis() -> Analysis:
    exported = export(Net(), (torch.randn(5, 3, 11, 11),), dynamic_shapes={"x": {0: Dim("batch", min=2, max=7)}})
    return trtdiag.analyze(exported, target="11.4").analysis


def nodes_of(made: Analysis) -> tuple[DrawnNode, ...]:
    assert made.checked is not None
    return drawn_nodes(made, made.checked.graph_module)


def test_arguments_go_by_the_names_of_the_schema_with_sizes_by_the_users() -> None:
    told = {
        node.label: {argument.name: (argument.text, argument.given) for argument in node.arguments}
        for node in nodes_of(analysis())
    }
    assert told["conv2d"] == {
        "stride": ("[2, 2]", True),
        "padding": ("[1, 1]", True),
        "dilation": ("[1, 1]", False),
        "groups": ("1", False),
    }
    assert told["mul"] == {"other": ("2.5", True)}
    assert told["expand"]["size"] == ("[x.shape[0], 4, 36]", True)
    assert told["to"]["dtype"] == ("float64", True)
    assert told["softmax"] == {"dim": ("-1", True), "dtype": ("None", False)}
    assert told["x"] == told["output"] == {}


def test_the_second_line_of_a_box_has_what_there_is_room_for() -> None:
    arguments = [
        OpArgument("stride", "[2, 2]", given=True),
        OpArgument("padding", "[1, 2]", given=True),
        OpArgument("dilation", "[1, 1]", given=False),
        OpArgument("device", "cpu", given=True),
        OpArgument("groups", "4", given=True),
    ]
    assert short_arguments("f32[4]", arguments, 60) == "f32[4] · stride 2, padding [1, 2], groups 4"
    assert short_arguments("f32[4]", arguments, 24) == "f32[4] · stride 2"
    assert short_arguments("f32[4]", arguments, 6) == "f32[4]"
    assert short_arguments("", arguments, 20) == "stride 2, groups 4"
    conv = next(node for node in nodes_of(analysis()) if node.label == "conv2d")
    assert short_arguments(conv.shape, conv.arguments, 36) == "f32[x.shape[0], 4, 6, 6] · stride 2"


def test_measures_say_what_is_known_and_why_the_rest_is_not() -> None:
    made = analysis()
    nodes = nodes_of(made)
    assert made.partition is not None
    found = measures(made, nodes, sides(made.partition, nodes))
    at = {node.label: position for position, node in enumerate(nodes)}
    assert found.precision[at["conv2d"]] == "f32"
    assert found.precision[at["softmax"]] == "f64"
    assert found.bytes[at["conv2d"]] == 7 * 4 * 6 * 6 * 4
    assert found.bytes[at["softmax"]] == 7 * 4 * 6 * 6 * 8
    assert found.lacks["time"] == "no engine was built"
    assert found.lacks["error"] == "nothing was compared"
    alone = measures(graph_analysis(exported_net()), nodes_of(graph_analysis(exported_net())), None)
    assert {"runs", "engine"} <= set(alone.lacks)


class Halves(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, places = (x * 3).topk(2)
        return values.softmax(-1), places


def test_outputs_and_layers_have_what_was_measured_of_them() -> None:
    exported = export(Halves(), (torch.randn(5, 7),), dynamic_shapes={"x": {0: Dim("batch", min=2, max=9)}})
    options = CompileOptions("11.4", "reference", partition=PartitionOptions(min_segment_ops=1), profile_layers=True)
    made = compile_in_stages(exported, options).report.analysis
    assert made.partition is not None
    assert made.compilation is not None
    assert made.compilation.verification is not None
    nodes = nodes_of(made)
    found = measures(made, nodes, sides(made.partition, nodes))
    at = {node.label: position for position, node in enumerate(nodes)}
    # The places are an element of topk, which is not drawn itself.
    assert set(found.errors) == {at["softmax"], at["topk"]}
    results = made.compilation.verification.results
    assert found.errors[at["topk"]] == max(result.outputs[1].max_abs for result in results)
    assert found.told["error"] == f"outputs at {len(results)} sets of sizes"
    assert set(found.milliseconds) == {at["mul"], at["topk"], at["softmax"]}
    assert found.told["time"] == "layers of engines on cpu, at the sizes to tune for"
    assert not found.lacks


def test_a_difference_that_is_no_number_is_the_largest() -> None:
    exported = export(Halves(), (torch.randn(5, 7),))
    made = compile_in_stages(exported, CompileOptions("11.4", "reference")).report.analysis
    assert made.compilation is not None
    verification = made.compilation.verification
    assert verification is not None
    point = verification.results[0].point
    softmax, topk = (Origin(f"aten.{name}", name, None) for name in ("softmax", "topk"))
    culprit = Culprit(0, softmax, "SoftMax", math.nan, point, since=topk, measured={"mul": 1e-3, "softmax": 2.0})
    wrong = replace(made, compilation=replace(made.compilation, verification=replace(verification, culprit=culprit)))
    nodes = nodes_of(wrong)
    found = measures(wrong, nodes, None).errors
    at = {node.label: position for position, node in enumerate(nodes)}
    assert (found[at["softmax"]], found[at["mul"]]) == (math.inf, 1e-3)
    assert found[at["topk"]] == max(output.max_abs for result in verification.results for output in result.outputs[1:])


TEXT = Path(__file__).read_text(encoding="utf-8").split("\n")
START = TEXT.index("class Net(nn.Module):") + 1  # then __init__, super, conv, an empty line, forward and its two lines


def frames(*lines: int) -> Stack:
    return Stack(tuple(Frame(__file__, line, "forward", TEXT[line - 1].strip()) for line in lines))


def test_lines_of_source_stand_with_their_neighbours_and_gaps_are_kept() -> None:
    ((file, stretches),) = source_lines([frames(START, START + 5), frames(START + 12)])
    assert file == __file__
    # One line around each; the two between them are shown, too, but not the four up to the next.
    assert [(first, len(lines)) for first, lines in stretches] == [(START - 1, 8), (START + 11, 3)]
    assert list(stretches[0][1]) == TEXT[START - 2 : START + 6]


def test_of_a_file_that_changed_only_what_was_recorded_is_shown(tmp_path: Path) -> None:
    gone = Frame(str(tmp_path / "gone.py"), 7, "forward", "y = f(x)")
    changed = replace(frames(START).frames[0], code="something else")
    torch_line = Frame("/x/site-packages/torch/nn/functional.py", 3, "relu", "return x")
    found = source_lines([Stack((gone, torch_line)), Stack((changed,))])
    assert found == ((gone.file, ((7, ("y = f(x)",)),)), (__file__, ((START, ("something else",)),)))


def test_source_is_bounded() -> None:
    stack = Stack(tuple(Frame(f"/gone/{at % 7}.py", at + 1, "f", "x") for at in range(3 * MOST_LINES)))
    found = source_lines([stack])
    assert sum(len(lines) for _, stretches in found for _, lines in stretches) == MOST_LINES


def plain(name: str, op: str, *reads: int) -> DrawnNode:
    return DrawnNode(name, op, name, Role.OP, "", "", OpOrigin("", ""), reads)


def test_names_that_are_counted_by_their_op_are_not_told() -> None:
    nodes = [plain("w", "weight"), plain("add", "aten.add.Tensor"), plain("other", "aten.add.Tensor")]
    nodes += [plain("add_2", "aten.add.Tensor"), plain("mul", "operator.mul"), plain("output", "output")]
    assert packing.names(nodes) == ([1, 0, 1, 0, 0, 0], ["w", "other"])


def test_reads_in_order_are_not_numbered() -> None:
    nodes = [plain(str(at), "op") for at in range(3)]
    nodes += [plain("3", "op", 0, 1), plain("4", "op", 3, 2, 0), plain("5", "op", 4)]
    assert packing.reads(nodes) == [[], [], [], [None, None], [1, None, 4], [None]]


def test_a_graph_with_names_of_its_own_is_packed_whole() -> None:
    made = graph_analysis(exported_net())
    data = json.loads(graph_view(made, "builtin")["payload"])
    assert data["form"] == 2
    nodes = nodes_of(made)
    assert names_of(data) == [node.name for node in nodes]
    assert len(data["names"]) < len(nodes)
    assert reads_of(data) == [list(node.reads) for node in nodes]
