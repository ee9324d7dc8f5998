"""A build that may have failed for its workspace says which tensor is great beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from refusal_networks import REFUSALS
from standin import TensorRT

from trtdiag.engine.backend import Profile
from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.build import too_great
from trtdiag.engine.tensorrt.gpu import free_mib
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.engine.tensorrt.log import logger_of
from trtdiag.errors import EngineBuildError
from trtdiag.graph.source import Frame
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation
from trtdiag.network.layers.reduce import Reduce, ReduceOperation
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, symbol
from trtdiag.targets import get_target

# Scores of 4096 places with each other for 32 inputs: 2 GiB of float32.
PROFILE = {"x": (DimProfile(1, 2, 32), DimProfile(16, 320, 4096), DimProfile(128, 128, 128))}


def _network(dtype: DType = DType.FLOAT32) -> Network:
    builder = NetworkBuilder({"b": Range(1, 32), "n": Range(16, 4096)})
    x = builder.input("x", dtype, [symbol("b"), symbol("n"), 128])
    scores = builder.add_single(
        MatrixMultiply(MatrixOperation.NONE, MatrixOperation.TRANSPOSE),
        x,
        x,
        origin=Origin("aten.bmm.default", "scores", Frame("model.py", 7)),
    )
    builder.output("y", builder.add_single(Reduce(ReduceOperation.MAX, (2,)), scores))
    return builder.build()


def test_the_greatest_tensor_is_named_with_its_size() -> None:
    said = too_great(_network(), PROFILE, 4096)
    assert "aten.bmm.default (scores) at model.py:7 has 2,048 MiB" in said
    assert "4,096 MiB" in said
    assert "has 1,024 MiB" in too_great(_network(DType.FLOAT16), PROFILE, 4096)


@pytest.mark.parametrize(("workspace_mib", "told"), [(None, False), (8192, True), (8193, False), (1, True)])
def test_it_is_told_where_it_is_great_beside_the_workspace(workspace_mib: int | None, told: bool) -> None:
    assert bool(too_great(_network(), PROFILE, workspace_mib)) is told


@pytest.mark.parametrize(("places", "told"), [(8191, False), (8192, True)])
def test_more_elements_than_a_tensor_can_have_are_told(places: int, told: bool) -> None:
    profile = {"x": (DimProfile(1, 2, 32), DimProfile(16, 320, places), DimProfile(128, 128, 128))}
    said = too_great(_network(), profile, None)
    assert bool(said) is told
    assert not told or "aten.bmm.default (scores) at model.py:7 has 2,147,483,648 elements" in said


def test_a_refusal_for_too_many_elements_advises_smaller_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = REFUSALS["volume-profile"]
    error = _refused("Could not find any implementation for node softmax.", asked.network(), asked.profile, monkeypatch)
    assert "aten._softmax.default (softmax) at model.py:41 has 107,374,182,350,000 elements" in error.because
    assert "ranges" in error.fix


@pytest.mark.parametrize(
    ("said", "told"), [("Could not find any implementation for node {ForeignNode[a]}", True), ("type mismatch", False)]
)
def test_a_refusal_tells_it_where_it_may_be_the_cause(said: str, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    error = _refused(said, _network(), PROFILE, monkeypatch)
    assert said in error.because
    assert ("2,048 MiB" in error.because) is told


@pytest.mark.parametrize(
    ("free", "told"), [(0, True), (4, True), (511, True), (512, False), (90_000, False), (None, False)]
)
def test_a_refusal_on_a_full_gpu_says_so_whatever_tensorrt_says(
    free: int | None, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What 8.6.0 says on an H200 of which 4 MiB are free, word for word.
    said = "1: [caskUtils.cpp::createCaskHardwareInfo::858] Error Code 1: Cask (no further information)"
    monkeypatch.setattr(building, "free_mib", lambda: free)
    error = _refused(said, _network(), PROFILE, monkeypatch)
    assert said in error.because
    assert (f"{free} MiB of the GPU's memory are free" in error.because) is told
    assert ("free GPU memory" in error.fix) is told


def test_without_a_gpu_nothing_is_known_of_its_memory() -> None:
    known = free_mib()
    assert (known is None) is not torch.cuda.is_available()


def _refused(said: str, network: Network, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> EngineBuildError:
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)  # the stand-in infers no shapes
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")
    trt = TensorRT("8.6")
    logger = logger_of(trt)

    def refuse(*_: Any) -> None:
        logger.log(SimpleNamespace(name="ERROR"), said)

    trt.answers["build_serialized_network"] = refuse
    installed = InstalledTensorRT(trt, trt.__version__, get_target("8.6"))
    with pytest.raises(EngineBuildError) as caught:
        building.build(installed, network, profile, CompileOptions(workspace_mib=4096))
    return caught.value
