"""What torchao leaves in programs: its PT2E flow with quantizers of others, and its tensor subclasses."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from tests.compiling.torchao_configs import inputs, rows
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


TARGETS = ("8.6", "10.16", "11.4")
# Every configuration with two products; some beside attention and norms, whose sizes in front are two, or convolutions.
CASES = [("perceptron", name) for name in rows()] + [
    (model, name)
    for model in ("block", "convolutions")
    for name in (
        "int8 weights by row",
        "dynamic int8",
        "static int8",
        "int4 weights in blocks",
        "dynamic float8 by row",
    )
]


@pytest.mark.parametrize(("model", "name"), CASES)
def test_what_becomes_of_each_configuration(model: str, name: str) -> None:
    row = rows()[name]
    kind, x, dims = inputs()[model]
    quantized, x = kind().eval().to(row.dtype), x.to(row.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchao's, of its own layouts
        row.quantize(quantized)
        exported = export(quantized, (x,), dynamic_shapes={"x": dims})
    products = sum(isinstance(module, nn.Linear) for module in quantized.modules())
    for target in TARGETS:
        found = compile_in_stages(
            exported, CompileOptions(target, "reference", partition=PartitionOptions(min_segment_ops=0))
        )
        old = target == "8.6"
        left = {each.limit.code for each in found.plan.partitioned.fallback if each.computes}
        assert left == (row.stays if old else set())
        assert len(found.converted) == 1 or left
        counted = Counter(layer for one in found.converted for layer in _quantized_layers(one.network))
        wanted = {} if row.dtype is torch.bfloat16 and old else row.old if old else row.layers
        assert counted == {layer: count * products for layer, count in wanted.items()}
        if not old:
            rules = {each.rule for each in found.report.analysis.findings}
            assert {rule for rule in rules if rule.startswith("TYP")} == row.rules
        else:
            assert bool(left) == any(each.rule == "OPS502" for each in found.report.analysis.findings)
        assert found.verification is not None
        assert found.verification.passed
        worst = found.verification.worst
        assert worst is not None
        # A norm adds up in its own order; of numbers next to the middle of two steps some then go to the other.
        assert worst.max_rel <= (row.rel if model == "perceptron" else 1e-2)


def _quantized_layers(network: Any) -> Iterator[tuple[str, str]]:
    for placed in network.layers:
        if placed.layer.kind in ("Quantize", "Dequantize"):
            yield placed.layer.kind, network.tensors[placed.inputs[0]].dtype.value


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
