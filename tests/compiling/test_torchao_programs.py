"""What torchao leaves in programs: its PT2E flow with quantizers of others, and its tensor subclasses."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages

# Its import and its flow take seconds; what they leave is quick in tests/convert and tests/lower.
pytestmark = pytest.mark.slow
torchao = pytest.importorskip("torchao", reason="torchao is an extra")

DIMS = {"x": {0: Dim("batch", min=1, max=16)}}
X = torch.randn(4, 64, generator=torch.Generator().manual_seed(1))


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


def compiled(program: ExportedProgram, target: str) -> tuple[Any, Counter[tuple[str, str]]]:
    """The program as one engine, and its layers with the dtype of what they read."""
    found = compile_in_stages(
        program, CompileOptions(target, "reference", partition=PartitionOptions(min_segment_ops=0))
    )
    (one,) = found.converted
    assert found.verification is not None
    assert found.verification.passed
    layers = Counter(
        (placed.layer.kind, one.network.tensors[placed.inputs[0]].dtype.value)
        for placed in one.network.layers
        if placed.inputs
    )
    return found, layers


def _configs() -> dict[str, tuple[Any, tuple[str, str] | None]]:
    """By name: what ``quantize_`` is given, and a layer that 11.4 has for it."""
    from torchao import quantization as q

    return {
        "int8 weights": (q.Int8WeightOnlyConfig(), ("Dequantize", "int8")),
        "int8 weights by row": (
            q.IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=q.PerAxis(0)),
            ("Dequantize", "int8"),
        ),
        "int4 weights in blocks": (
            q.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=q.PerGroup(32)),
            ("Dequantize", "int4"),
        ),
        "float8 weights": (q.Float8WeightOnlyConfig(), ("Dequantize", "float8_e4m3fn")),
        "dynamic int8": (q.Int8DynamicActivationInt8WeightConfig(), ("Dequantize", "int8")),
        "dynamic int8, int4 weights": (
            q.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=q.PerGroup(32)),
            ("Dequantize", "int4"),
        ),
    }


NAMES = (
    "int8 weights",
    "int8 weights by row",
    "int4 weights in blocks",
    "float8 weights",
    "dynamic int8",
    "dynamic int8, int4 weights",
)


@pytest.mark.parametrize("target", ["8.6", "10.16", "11.4"])
@pytest.mark.parametrize("name", NAMES)
def test_tensor_subclasses_are_one_engine(name: str, target: str) -> None:
    config, layer = _configs()[name]
    model = Two().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchao's, of its own layouts
        torchao.quantization.quantize_(model, config)
        exported = export(model, (X,), dynamic_shapes=DIMS)
    found, layers = compiled(exported, target)
    if target != "8.6":
        assert layers[layer] == 2
    x = torch.randn(16, 64)
    with torch.no_grad():
        # Dynamic scales follow from the greatest element of a row, so single steps of 1/127 may differ.
        atol = 0.05 if "dynamic" in name else 1e-4
        torch.testing.assert_close(found.compiled(x), model(x), rtol=1e-4, atol=atol)


def test_every_name_has_a_config() -> None:
    assert tuple(_configs()) == NAMES


def test_float8_with_one_scale() -> None:
    from torchao.quantization import quant_primitives

    del quant_primitives  # registers the ops

    class Float8(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(64, 48)
            self.register_buffer("scale", torch.tensor(0.01))
            self.register_buffer("weight_scale", self.inner.weight.detach().abs().max() / 448)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            ops, to = torch.ops.torchao, torch.float8_e4m3fn
            q = ops.quantize_affine_float8_non_decomposed(x, self.scale, to)
            w = ops.quantize_affine_float8_non_decomposed(self.inner.weight, self.weight_scale, to)
            x = ops.dequantize_affine_float8_non_decomposed(q, self.scale)
            w = ops.dequantize_affine_float8_non_decomposed(w, self.weight_scale)
            return nn.functional.linear(x, w, self.inner.bias)

    exported = export(Float8().eval(), (X,), dynamic_shapes=DIMS)
    found, layers = compiled(exported, "11.4")
    assert layers["Dequantize", "float8_e4m3fn"] == 2
    x = torch.randn(16, 64) * 2  # beyond 448 steps, too
    with torch.no_grad():
        torch.testing.assert_close(found.compiled(x), exported.module()(x), rtol=1e-4, atol=1e-4)


def _pt2e(quantizer: Any) -> ExportedProgram:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torchao calls its own quantizers deprecated
        prepared = prepare_pt2e(export(Two().eval(), (X,), dynamic_shapes=DIMS).module(), quantizer)
        prepared(X)
        return export(convert_pt2e(prepared), (X,), dynamic_shapes=DIMS)


@pytest.mark.parametrize("target", ["8.6", "11.4"])
def test_asymmetric_quantizers_of_other_backends_are_one_engine(target: str) -> None:
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack

    inductor = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    asymmetric = xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config())
    for quantizer in (inductor, asymmetric):
        program = _pt2e(quantizer)
        found, layers = compiled(program, target)
        assert not layers["Quantize", "float32"]  # rounded and clamped instead
        x = torch.randn(16, 64)
        with torch.no_grad():
            torch.testing.assert_close(found.compiled(x), program.module()(x), rtol=1e-4, atol=0.02)


def test_a_file_is_read_without_an_import(tmp_path: Path) -> None:
    import subprocess
    import sys

    from tests.harness.pt2e_quantizer import pt2e_quantized

    path = tmp_path / "quantized.pt2"
    torch.export.save(pt2e_quantized(Two().eval(), (X,), DIMS), path)
    code = f"import sys, trtdiag; print(len(trtdiag.analyze({str(path)!r}).errors), 'torchao' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.split() == ["0", "False"], ran.stdout
