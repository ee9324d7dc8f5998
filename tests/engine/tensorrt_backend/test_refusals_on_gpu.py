"""Refusals on purpose, by the real TensorRT; needs a GPU and TensorRT."""

from __future__ import annotations

import pytest
import torch

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.errors import EngineBuildError, ShapeOutOfRangeError
from trtdiag.graph.source import Frame
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.topk import TopK, TopKOperation
from trtdiag.options import CompileOptions
from trtdiag.runtime.engine_inputs import check_engine_inputs
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, symbol
from trtdiag.targets import get_target, installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]


def _network(k: int) -> Network:
    builder = NetworkBuilder({"s": Range(1, 8)})
    with builder.at(Origin("aten.topk.default", "topk", Frame("model.py", 7))):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), 5000])
        builder.output("y", builder.add(TopK(TopKOperation.MAX, k, 1), x)[0])
    return builder.build()


PROFILE = {"x": (DimProfile(1, 3, 8), DimProfile(5000, 5000, 5000))}


def test_a_layer_beyond_its_limit_names_op_and_line() -> None:
    target = get_target(None)
    with pytest.raises(EngineBuildError) as caught:
        build_engine(get_backend("tensorrt"), _network(4000), PROFILE, CompileOptions(), target)
    assert "aten.topk.default (topk) at model.py:7" in caught.value.message
    assert "[ERROR]" in caught.value.because


def test_a_size_outside_of_the_profile_is_refused_before_the_run() -> None:
    target = get_target(None)
    engine = build_engine(get_backend("tensorrt"), _network(3), PROFILE, CompileOptions(), target)
    text = manifest_to_text(engine.manifest)
    check_engine_inputs(text, [torch.zeros(8, 5000, device="cuda")])
    with pytest.raises(ShapeOutOfRangeError, match="'x'"):
        check_engine_inputs(text, [torch.zeros(9, 5000, device="cuda")])
