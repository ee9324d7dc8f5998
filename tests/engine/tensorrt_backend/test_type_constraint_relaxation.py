"""Layers of float16 that TensorRT 8.6 has no kernel for: which are let go, and what is said of it."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from standin import Recorded, TensorRT

from trtdiag.engine.build_watch import Watch
from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.engine.tensorrt.log import logger_of
from trtdiag.engine.tensorrt.type_constraint_relaxation import without_kernel
from trtdiag.errors import EngineBuildError
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.targets import get_target

PROFILE = {"x": (DimProfile(3, 3, 3),)}
NO_ADD = "10: Could not find any implementation for node add/ElementWise."
NOT_INT8 = (
    "2: Assertion !n->candidateRequirements.empty() failed. All of the candidates were removed, which points to the "
    "node being incorrectly marked as an int8 node."
)
NO_STRETCH = "10: Could not find any implementation for node {ForeignNode[tanh/Activation...add/ElementWise]}."


def _network(dtype: DType) -> Network:
    builder = NetworkBuilder()
    x = builder.input("x", dtype, [3])
    y = builder.add_single(Activation(ActivationType.TANH), x, origin=Origin("aten.tanh.default", "tanh"))
    z = builder.add_single(ElementWise(ElementWiseOperation.SUM), y, y, origin=Origin("aten.add.Tensor", "add"))
    builder.output("z", z)
    return builder.build()


def _built(
    monkeypatch: pytest.MonkeyPatch, refusals: list[str], dtype: DType = DType.FLOAT16, version: str = "8.6"
) -> tuple[TensorRT, Watch, int]:
    """What TensorRT was told, and how often it built; it refuses with each text, then builds."""
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")
    trt, watch, builds = TensorRT(version), Watch(), []
    left = list(refusals)

    def build(*_: Any) -> Any:
        builds.append(1)
        if not left:
            return b"an engine"
        logger_of(trt).log(SimpleNamespace(name="ERROR"), left.pop(0))
        return None

    trt.answers["build_serialized_network"] = build
    installed = InstalledTensorRT(trt, trt.__version__, get_target(version))
    try:
        assert building.build(installed, _network(dtype), PROFILE, CompileOptions(), watch) == b"an engine"
    except EngineBuildError as error:
        if error.reference != "engine-refused":
            raise
        return trt, watch, -len(builds)
    return trt, watch, len(builds)


def _said(layer: Recorded) -> list[str]:
    return [name for name, _, _ in layer.calls if name.startswith("reset")]


def _flags(trt: TensorRT) -> list[str]:
    (config,) = trt.of("IBuilderConfig")
    flags: list[str] = []
    for name, args, _ in config.calls:
        if name in ("set_flag", "clear_flag") and "PRECISION" in str(args[0]):
            flags.append(f"{name} {str(args[0]).split('.')[-1].split('_')[0]}")
    return flags


def test_a_layer_without_a_kernel_chooses_its_types(monkeypatch: pytest.MonkeyPatch) -> None:
    trt, watch, builds = _built(monkeypatch, [NO_ADD])
    assert builds == 2
    (add,), (tanh,) = trt.of("IElementWiseLayer"), trt.of("IActivationLayer")
    assert _said(add) == ["reset_precision", "reset_output_type"]
    assert not _said(tanh)
    assert _flags(trt) == ["set_flag OBEY"]
    assert watch.notes == ["add/ElementWise: no kernel of TensorRT 8.6 obeys the layer's types"]


def test_of_a_stretch_without_a_kernel_types_are_a_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    trt, watch, builds = _built(monkeypatch, [NO_STRETCH])
    assert builds == 2
    assert not _said(trt.of("IElementWiseLayer")[0])
    assert _flags(trt) == ["set_flag OBEY", "clear_flag OBEY", "set_flag PREFER"]
    assert watch.notes == ["no kernels of TensorRT 8.6 obey the types of all layers; it prefers them"]


def test_types_are_a_wish_where_a_layer_cannot_obey_beside_quantizers(monkeypatch: pytest.MonkeyPatch) -> None:
    trt, watch, builds = _built(monkeypatch, [NOT_INT8])
    assert builds == 2
    assert _flags(trt) == ["set_flag OBEY", "clear_flag OBEY", "set_flag PREFER"]
    assert watch.notes == ["no kernels of TensorRT 8.6 obey the types of all layers; it prefers them"]


def test_where_wishes_have_no_kernel_either_types_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    trt, watch, builds = _built(monkeypatch, [NO_STRETCH, NO_STRETCH])
    assert builds == 3
    assert _flags(trt)[-2:] == ["clear_flag OBEY", "clear_flag PREFER"]
    assert [note.split("; ")[1] for note in watch.notes] == ["it prefers them", "it chooses them by speed"]


def test_layers_are_let_go_one_after_the_other_and_then_all(monkeypatch: pytest.MonkeyPatch) -> None:
    trt, watch, builds = _built(monkeypatch, [NO_ADD, NO_ADD.replace("add/ElementWise", "tanh/Activation"), NO_STRETCH])
    assert builds == 4
    assert _said(trt.of("IActivationLayer")[0])
    assert len(watch.notes) == 3


def test_it_is_refused_after_the_last_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _built(monkeypatch, [NO_STRETCH] * 9)[2] == -3
    assert _built(monkeypatch, [NO_ADD] * 9)[2] == -4  # a second time it names no layer that is held


@pytest.mark.parametrize(
    ("text", "dtype", "version"),
    [
        ("4: shapes are wrong", DType.FLOAT16, "8.6"),
        (f"{NO_ADD} due to insufficient workspace", DType.FLOAT16, "8.6"),
        (NO_ADD, DType.FLOAT32, "8.6"),
        (NO_ADD, DType.FLOAT16, "10.16"),
    ],
)
def test_other_refusals_are_final(text: str, dtype: DType, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, watch, builds = _built(monkeypatch, [text], dtype, version)
    assert (builds, watch.notes) == (-1, [])


def test_nothing_is_let_go_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    trt, watch, builds = _built(monkeypatch, [])
    assert (builds, watch.notes, _flags(trt)) == (1, [], ["set_flag OBEY"])


def test_a_stopped_build_is_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "stopped", True)
    with pytest.raises(EngineBuildError) as caught:
        _built(monkeypatch, [NO_ADD])
    assert caught.value.reference == "build-stopped"


def test_which_layers_are_named() -> None:
    held = dict.fromkeys(("add/ElementWise", "add/ElementWise#2", "tanh/Activation"))

    def named(text: str) -> list[str] | None:
        return without_kernel(held, deque([f"[ERROR] {text}"]))

    assert named("Could not find any implementation for node add/ElementWise#2.") == ["add/ElementWise#2"]
    assert named("Could not find any implementation for node add/ElementWise + tanh/Activation.") == [
        "add/ElementWise",
        "tanh/Activation",
    ]
    assert named("Could not find any implementation for node nothing that is held") == []
    assert named("out of memory") is None
