"""Layers of engines joined back to ops, in every form in which the versions name and tell them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trtdiag.engine.built_layers import LayerInfo
from trtdiag.engine.tensorrt.fused_layers import joined
from trtdiag.engine.tensorrt.inspection import read_layers
from trtdiag.graph.source import Frame
from trtdiag.network import DType, Network, NetworkBuilder, Origin, Value
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.symbolic import Range, symbol

NODES = ("a", "b", "c", "d", "e", "f", "side")


def _network() -> Network:
    """``a -> b -> c -> d -> e -> f``, ``side`` reads ``b``, and ``f`` adds it."""
    builder = NetworkBuilder({"s": Range(1, 8)})

    def step(node: str, *inputs: Value) -> Value:
        origin = Origin(f"aten.{node}.default", node, Frame("model.py", NODES.index(node) + 1))
        if len(inputs) == 2:
            return builder.add_single(ElementWise(ElementWiseOperation.SUM), *inputs, origin=origin)
        return builder.add_single(Activation(ActivationType.TANH), *inputs, origin=origin)

    x = builder.input("x", DType.FLOAT32, [symbol("s"), 5])
    b = step("b", step("a", x))
    side = step("side", b)
    builder.output("f", step("f", step("e", step("d", step("c", b))), side))
    builder.output("side", side)
    return builder.build()


def _tensor(name: str, **more: Any) -> dict[str, Any]:
    return {"Name": name, "Dimensions": [3, 5], "Format/Datatype": "Row major linear FP32", **more}


def _layer(name: str, inputs: tuple[str, ...] = (), outputs: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    ends = {"Inputs": list(map(_tensor, inputs)), "Outputs": list(map(_tensor, outputs))}
    return {"Name": name, "LayerType": "kind", **ends, **more}


def _joined(layers: list[Any], times: Any = ()) -> tuple[LayerInfo, ...]:
    return joined(read_layers(json.dumps({"Layers": layers, "Bindings": []})), _network(), times)


def _ops(layers: list[Any]) -> list[str]:
    return ["".join(origin.node if len(origin.node) == 1 else "S" for origin in one.ops) for one in _joined(layers)]


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("b/Activation", "b"),
        ("b/Activation#2", "b"),
        ("a/Activation + b/Activation", "ab"),
        ("PWN(PWN(c/Activation), PWN(d/Activation#3))", "cd"),
        ("PWN(c/Activation, PWN(d/Activation, e/Activation))", "cde"),
        ("a/Activation || b/Activation", "ab"),
        ("a/Activation\x1eb/Activation\x1fc/Activation", "abc"),
        ("c/Activation_myl0_4", "c"),
        ("side/Activation[Constant] + f/ElementWise", "fS"),
        ("Reformatting CopyNode for Input Tensor 0 to a/Activation + b/Activation", ""),
        ("Reformatting CopyNode for Output Tensor 1 to {ForeignNode[a/Activation...f/ElementWise]}", ""),
        ("b/Activation:0 copy", ""),
        ("__myl_MulAddTanh_myl0_3", ""),
        ("(Unnamed Layer* 7) [Shuffle]", ""),
        ("another/Activation", ""),
        ("ab/Activation", ""),
        ("", ""),
    ],
)
def test_names_lead_to_ops(name: str, nodes: str) -> None:
    assert [sorted(found) for found in _ops([_layer(name)])] == [sorted(nodes)]
    assert _ops([name])[0] == _ops([_layer(name)])[0]  # an engine may keep names alone


def test_ops_have_their_source_line_and_stand_in_the_order_of_the_network() -> None:
    (layer,) = _joined([_layer("c/Activation + a/Activation")])
    assert [str(origin) for origin in layer.ops] == [
        "aten.a.default (a) at model.py:1",
        "aten.c.default (c) at model.py:3",
    ]
    assert layer.named


@pytest.mark.parametrize("between", ["\x1e", "\x1f", ""])
def test_what_layers_were_told_leads_to_ops(between: str) -> None:
    """As TensorRT 10 and 11 tell the kernels of what 8.6 shows as one ForeignNode."""
    told = between.join(f"[aten.{node}.default ({node}) at model.py:1]" for node in ("c", "d", "e"))
    layer = _layer("__myl_TanhTanh_myl0_3", ("b/Activation:0",), ("e/Activation:0",), Metadata=told)
    assert _ops([layer]) == ["cde"]
    whole = _layer("{ForeignNode[c/Activation...f/ElementWise]}", Metadata=told)
    assert [one.named for one in _joined([whole])] == [True]


def test_a_foreign_node_has_what_lies_between_its_tensors() -> None:
    name = "{ForeignNode[c/Activation...f/ElementWise]}"
    before = _layer("a/Activation + b/Activation", ("input 0: x",), ("b/Activation:0",))
    beside = _layer("side/Activation", ("b/Activation:0",), ("output 1: side",))
    foreign = _layer(name, ("b/Activation:0", "output 1: side"), ("output 0: f",))
    assert _ops([before, beside, foreign]) == ["ab", "S", "cdef"]
    assert [one.named for one in _joined([before, beside, foreign])] == [True, True, False]
    assert _ops([_layer(name, ("input 0: x",), ("output 0: f", "output 1: side"))]) == ["abSc" + "def"]


def test_tensors_that_were_moved_are_followed() -> None:
    first = _layer("{ForeignNode[a/Activation...b/Activation]}", ("in 1",), ("out 1",))
    moves = [
        _layer("Reformatting CopyNode for Input Tensor 0 to {ForeignNode[a...b]}", ("input 0: x",), ("in 1",)),
        _layer("Reformatting CopyNode for Output Tensor 0 to {ForeignNode[a...b]}", ("out 1",), ("b/Activation:0",)),
        _layer("Reformatting CopyNode for Input Tensor 0 to {ForeignNode[c...e]}", ("b/Activation:0",), ("in 2",)),
    ]
    second = _layer("{ForeignNode[c/Activation...e/Activation]}", ("in 2",), ("e/Activation:0",))
    last = _layer("PWN(side/Activation, f/ElementWise)", ("b/Activation:0", "e/Activation:0"), ("output 0: f",))
    assert _ops([moves[0], first, *moves[1:], second, last]) == ["", "ab", "", "", "cde", "S" + "f"]


def test_a_foreign_node_whose_tensors_say_nothing_goes_by_the_order_of_the_network() -> None:
    foreign = _layer("{ForeignNode[c/Activation...e/Activation]}", ("unknown 1",), ("unknown 2",))
    assert _ops([foreign, _layer("d/Activation")]) == ["ce", "d"]
    start = _layer("{ForeignNode[(Unnamed Layer* 0) [Constant] + ONNXTRT_Broadcast...c/Activation]}")
    assert _ops([start, _layer("side/Activation")]) == ["abc", "S"]
    assert _ops([_layer("{ForeignNode[x...y]}")]) == [""]


def test_tensors_are_told_in_the_forms_of_all_versions() -> None:
    old = _layer("a/Activation")
    old["Inputs"] = [_tensor("x", **{"Format/Datatype": "Channel major FP16 format where channel % 8 == 0"})]
    old["Outputs"] = [_tensor("y", Dimensions=[-1, 5])]
    ten = _layer("b/Activation", TacticName="sm90_xmma", TacticValue="0x1")
    ten["Inputs"] = [_tensor("x", **{"Format/Datatype": "Half"}), _tensor("y", **{"Format/Datatype": "BFloat16"})]
    eleven = _layer("c/Activation", TacticValue="0x00000000000003ea")
    eleven["Inputs"] = [{"Name": "x", "Dimensions": [], "Datatype": "Int64", "Format": "Row major linear"}]
    eleven["Outputs"] = [{"Name": "y", "DataType": "Float", "Location": "Device"}, {"Name": "z"}]
    one, two, three = _joined([old, ten, eleven])
    assert [(t.dtype, t.shape) for t in (*one.inputs, *one.outputs)] == [("float16", (3, 5)), ("float32", (-1, 5))]
    assert one.inputs[0].format == "Channel major FP16 format where channel % 8 == 0"
    assert one.dtypes == ("float32", "float16")
    assert [t.dtype for t in two.inputs] == ["float16", "bfloat16"]
    assert (two.tactic, three.tactic, one.tactic) == ("sm90_xmma", "0x00000000000003ea", "")
    assert [(t.dtype, t.shape, t.format) for t in three.inputs] == [("int64", (), "Row major linear")]
    assert [t.dtype for t in three.outputs] == ["float32", ""]
    assert three.dtypes == ("float32",)
    for kind in ("Bool", "Row major Int8 format", "UINT8", "Int32", "FP8"):
        (layer,) = read_layers(json.dumps({"Layers": [{"Outputs": [{"Format/Datatype": kind}]}]}))
        assert layer.outputs[0].dtype in kind.lower() + "float8"


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"Layers": 3}', '{"Layers": []}', "null"])
def test_a_text_of_no_known_form_has_no_layers(text: str) -> None:
    assert read_layers(text) == ()


def test_entries_of_other_kinds_are_read_over() -> None:
    odd = {"Layers": [{"Name": 7, "Inputs": {"a": 1}, "Outputs": ["x", {"Dimensions": ["s", 3]}]}, None]}
    first, second = read_layers(json.dumps(odd))
    assert (first.name, first.inputs, first.outputs[0].shape) == ("", (), (3,))
    assert second.name == "None"


def test_times_are_medians_by_name_and_place() -> None:
    layers = [_layer("a/Activation"), _layer("b/Activation"), _layer("a/Activation"), _layer("c/Activation")]
    times = [
        [("a/Activation", 1.0), ("b/Activation", 5.0), ("a/Activation", 10.0), ("e/Activation_myl1_0", 0.5)],
        [("a/Activation", 3.0), ("b/Activation", 7.0), ("a/Activation", 30.0), ("e/Activation_myl1_0", 0.5)],
        [("a/Activation", 2.0), ("b/Activation", 6.0), ("a/Activation", 20.0), ("e/Activation_myl1_0", 0.5)],
    ]
    found = _joined(layers, times)
    assert [one.time_ms for one in found] == [2.0, 6.0, 20.0, None, 0.5]
    # What only the profiler tells is there, too.
    assert (found[-1].name, [origin.node for origin in found[-1].ops]) == ("e/Activation_myl1_0", ["e"])
