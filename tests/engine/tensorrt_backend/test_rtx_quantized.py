"""Quantized programs built by the installed TensorRT-RTX, for generations that have the dtypes; nothing is run."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim, export

from tests.compiling.test_quantized_models import Optimized
from tests.harness.int8_blocks import blocks
from tests.harness.symmetric_quantizer import quantized
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_rtx_target, installed_rtx_version

pytestmark = pytest.mark.skipif(installed_rtx_version() is None, reason="tensorrt-rtx is not installed")
_CASES = [(name, precision) for name in blocks() for precision in (Precision.KEEP, Precision.FP16)]


def _asked(precision: Precision, *gpus: str) -> CompileOptions:
    target = get_rtx_target(None)
    if "Quantize" not in target.layers:
        pytest.skip(f"{target.name} has no layers with scales")
    parts = PartitionOptions(min_segment_ops=0)
    return CompileOptions(target.version, "tensorrt-rtx", precision, partition=parts, gpu=gpus, verify=False)


# One build of about two seconds for each; the layers themselves are quick in test_emitter_contract.py.
@pytest.mark.parametrize(
    ("name", "precision"), [_CASES[0], *(pytest.param(*each, marks=pytest.mark.slow) for each in _CASES[1:])]
)
def test_int8_blocks_build_whole(name: str, precision: Precision) -> None:
    module, args, dims = blocks()[name]
    found = compile_in_stages(quantized(module, args, dims), _asked(precision, "sm86", "sm120"))
    facts = found.report.analysis.compilation
    assert facts is not None
    assert (len(facts.engines), facts.notes) == (1, ())


@pytest.mark.slow
def test_float8_builds_where_there_is_any() -> None:
    dims = {"x": {0: Dim("batch", min=1, max=16)}}
    exported = export(Optimized(float8=True).eval(), (torch.randn(4, 64),), dynamic_shapes=dims)
    assert len(compile_in_stages(exported, _asked(Precision.FP16, "sm89", "sm120")).converted) == 1
    found = compile_in_stages(exported, _asked(Precision.FP16, "sm86"))
    assert "float8-missing" in {entry.limit.code for entry in found.plan.partitioned.fallback}
