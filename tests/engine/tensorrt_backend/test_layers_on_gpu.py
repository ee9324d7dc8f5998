"""Layers of real engines joined back to ops, and timed; needs a GPU and TensorRT."""

from __future__ import annotations

import pytest
import torch
from layer_models import layer_models
from seed_models import seeds

from trtdiag.network.layers.constant import Constant
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target, installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]


@pytest.mark.parametrize("precision", [Precision.KEEP, Precision.FP16])
@pytest.mark.parametrize("name", ["conv", "transformer", "indices", "resnet", "unet"])
def test_every_op_is_in_a_layer(name: str, precision: Precision) -> None:
    module, args, kwargs, dims = {**seeds(), **layer_models()}[name]
    asked = (module.cuda(), tuple(arg.cuda() for arg in args), kwargs, dims)
    options = CompileOptions(
        get_target(None).version,
        "tensorrt",
        precision,
        partition=PartitionOptions(min_segment_ops=0),
        optimization_level=0,
        profile_layers=True,
    )
    found = compile_in_stages(asked, options)
    facts = found.report.analysis.compilation
    assert facts is not None
    for engine, converted in zip(facts.engines, found.converted, strict=True):
        layers = engine.built.layers
        assert layers
        assert not engine.built.why
        assert any(layer.time_ms for layer in layers)
        told = {origin.node for layer in layers for origin in layer.ops}
        # What computes is somewhere; sizes, and what TensorRT computes when it builds, are in no layer.
        heavy = ("Convolution", "MatrixMultiply", "Normalization", "SoftMax", "Pooling", "Deconvolution")
        asked_for = {p.origin.node for p in converted.network.layers if p.layer.kind in heavy}
        assert asked_for <= told, (asked_for - told, [layer.name for layer in layers])
        everything = {p.origin.node for p in converted.network.layers if not isinstance(p.layer, Constant)}
        assert told <= everything
