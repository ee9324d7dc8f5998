"""Whole networks of small models, written and built for every version against its API surface."""

from __future__ import annotations

from typing import Any

import pytest
from seed_models import SEEDS, seeds
from standin import TensorRT

from tests.harness.rows import thinned
from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.network import DType
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State
from trtdiag.targets import TARGETS, get_target

VERSIONS = [target.version for target in TARGETS]


def _compiled(name: str, version: str, precision: Precision) -> State:
    options = CompileOptions(
        version, "reference", precision, verify=False, partition=PartitionOptions(min_segment_ops=0)
    )
    return compile_in_stages(seeds()[name], options)


# The oldest version differs most; the others take a compilation each, so they run with the slow tests.
SOME = [pytest.param(version, marks=() if version == "8.6" else pytest.mark.slow) for version in VERSIONS]


@pytest.mark.parametrize("version", SOME)
# Types change no layer's name: float16 is slow here, and quick in test_emitter_contract.py layer by layer.
@pytest.mark.parametrize("precision", [Precision.KEEP, pytest.param(Precision.FP16, marks=pytest.mark.slow)])
# Layer by layer the quick run has test_emitter_contract.py.
@thinned("name", SEEDS, every=3)
def test_networks_of_models_are_built(
    name: str, precision: Precision, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _compiled(name, version, precision)
    assert found.converted
    # The stand-in infers no shapes; `test_agreement` is about that step.
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")
    for converted, engine in zip(found.converted, found.engines, strict=True):
        network = converted.network
        trt = TensorRT(version)
        profile = {port.name: port.profile for port in engine.manifest.inputs}
        blob = building.build(
            InstalledTensorRT(trt, trt.__version__, get_target(version)), network, profile, CompileOptions()
        )
        assert blob == b"made by a stand-in"
        _check_types(trt, network.tensors, version)
        (made,) = trt.of("IOptimizationProfile")
        told = {args[0]: args[1:] for _, args, _ in made.calls}
        dynamic = [
            (f"input {index}: {port.name}", tuple((size.min, size.opt, size.max) for size in port.profile))
            for index, port in enumerate(engine.manifest.inputs)
            if port.dims and any(size.min != size.max for size in port.profile)
        ]
        assert dynamic
        for port, sizes in dynamic:
            assert tuple(zip(*told[port], strict=True)) == sizes
        marked = [args[0] for called, args, _ in trt.of("INetworkDefinition")[0].calls if called == "mark_output"]
        names = [f"output {index}: {port.name}" for index, port in enumerate(network.outputs)]
        assert [tensor.seen["name"] for tensor in marked] == names


def _check_types(trt: TensorRT, tensors: Any, version: str) -> None:
    """8.6 is told every type where float16 is in play; strongly typed versions are told none."""
    half = any(tensor.dtype is DType.FLOAT16 for tensor in tensors)
    pinned = [layer for layer in trt.made if "precision" in layer.seen]
    typed = [layer for layer in trt.made if any(called == "set_output_type" for called, _, _ in layer.calls)]
    (config,) = trt.of("IBuilderConfig")
    flags = {str(args[0]) for called, args, _ in config.calls if called == "set_flag"}
    if version != "8.6":
        assert not pinned
        assert not typed
        assert not flags
        return
    assert bool(pinned) == half
    expected = {"BuilderFlag.FP16", "BuilderFlag.OBEY_PRECISION_CONSTRAINTS"} if half else set()
    assert flags == expected
    if half:
        assert {str(layer.seen["precision"]) for layer in pinned} <= {"DataType.HALF", "DataType.FLOAT"}
        assert any(str(layer.seen["precision"]) == "DataType.HALF" for layer in pinned)
    assert not any(
        str(args[1]) == "DataType.INT64" for layer in trt.made for _, args, _ in layer.calls if len(args) > 1
    )
