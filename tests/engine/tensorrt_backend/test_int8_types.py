"""What TensorRT 8.6 is told of the types of a quantized network that has float16."""

from __future__ import annotations

import pytest
from standin import TensorRT

from tests.harness.int8_blocks import blocks
from tests.harness.symmetric_quantizer import quantized
from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target

_FREE = {"BuilderFlag.FP16", "BuilderFlag.INT8"}


# TensorRT 8.6.0 on an H200 refuses the first block, and ResNet-50, where it is asked to obey: Quantize is moved over a
# cast to the mean before it.  In the second a norm stays in float32, which int8 does not reach.
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        pytest.param("residual", _FREE, marks=pytest.mark.slow),  # quick: the other, with a flag more
        ("wide", _FREE | {"BuilderFlag.OBEY_PRECISION_CONSTRAINTS"}),
    ],
)
def test_only_layers_away_from_quantizers_are_held(name: str, flags: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")
    module, args, dims = blocks()[name]
    options = CompileOptions(
        "8.6", "reference", Precision.FP16, verify=False, partition=PartitionOptions(min_segment_ops=0)
    )
    found = compile_in_stages(quantized(module, args, dims), options)
    (one,), (engine,) = found.converted, found.engines
    trt = TensorRT("8.6")
    profile = {port.name: port.profile for port in engine.manifest.inputs}
    building.build(InstalledTensorRT(trt, trt.__version__, get_target("8.6")), one.network, profile, CompileOptions())
    (config,) = trt.of("IBuilderConfig")
    assert {str(args[0]) for called, args, _ in config.calls if called == "set_flag"} == flags
    held = [layer for layer in trt.made if "precision" in layer.seen]
    assert {str(layer.seen["precision"]) for layer in held} <= {"DataType.FLOAT"}
    assert bool(held) == ("BuilderFlag.OBEY_PRECISION_CONSTRAINTS" in flags)
