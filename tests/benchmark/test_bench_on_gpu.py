"""``trtdiag.bench`` with engines of TensorRT; needs a GPU and TensorRT."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

import trtdiag
from tests.benchmark.bench_models import build
from trtdiag.targets import installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
NEEDED = {"eager": (), "inductor": ("triton",), "onnx-trt": ("onnx",), "cuda-graphs": ()}


@pytest.mark.parametrize("precision", ["keep", "fp16"])
def test_every_way_runs_or_says_what_is_missing(precision: str) -> None:
    compiled = trtdiag.compile(
        build(), backend="tensorrt", precision=precision, verify=False, min_segment_ops=0, optimization_level=0
    )
    found = trtdiag.bench(compiled, list(NEEDED), model=build(), sizes=["opt", "max"], rounds=2)
    assert found.backend == "tensorrt"
    assert found.tensorrt == installed_version()
    assert found.device == torch.cuda.get_device_name()
    assert [result.inputs[0] for result in found.results] == ["x float32 (4, 6, 5)", "x float32 (9, 34, 5)"]
    for result in found.results:
        for row in result.ways:
            missing = [package for package in NEEDED.get(row.way, ()) if find_spec(package) is None]
            if missing:
                assert missing[0] in row.failed
                continue
            if row.failed and row.way == "cuda-graphs":  # TensorRT 8.6.0
                assert "one context" in row.failed
                continue
            assert not row.failed
            assert row.ms is not None
            assert 0 < row.ms.low <= row.ms.median <= row.ms.high
            assert row.bytes is not None
            # At least the outputs; inductor's graphs hand out memory that they took before.
            assert row.bytes > 0 or row.way == "inductor"
