"""Programs with quantizers in them: one engine, at every corner as the quantized original but for single steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram, export

import trtdiag
from tests.harness.int8_blocks import Wide, blocks
from tests.harness.quantizing_ops import DECOMPOSED, MODEL_OPTIMIZER
from tests.harness.symmetric_quantizer import quantized
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages

# Of the root of the mean square.  An element that lies next to the middle between two steps may fall to the other side,
# by a whole step of about 1/127 of its tensor's range: in float32 few do (sums in another order), in float16 as many as
# its rounding (1/2048) reaches over, 1 in 16 of the greatest.
CLOSE = {Precision.KEEP: 2e-3, Precision.FP16: 2e-2}


def asked(target: str, precision: Precision = Precision.KEEP, **more: Any) -> CompileOptions:
    parts = PartitionOptions(min_segment_ops=0, **more)
    return CompileOptions(target, "reference", precision, partition=parts)


def sizes(name: str) -> Iterator[tuple[int, ...]]:
    """Both ends, and a prime between them."""
    for batch, size in ((1, 1), (8, 64), (5, 31)):
        yield (batch, 3, max(9, size), 32) if name == "residual" else (batch, size, 64)


def check(program: ExportedProgram, compiled: Any, name: str, close: float) -> None:
    for shape in sizes(name):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(shape[0]))
        with torch.no_grad():
            wanted, got = program.module()(x), compiled(x)
        error = float((got - wanted).square().mean().sqrt() / wanted.square().mean().sqrt())
        assert error < close, (name, shape, error)


_CASES = [(name, target, precision) for name in blocks() for precision in CLOSE for target in ("8.6", "10.16", "11.4")]


# The layers of each target are quick for all in tests/convert/test_ops_quantization.py.
@pytest.mark.parametrize(
    ("name", "target", "precision"),
    [*(pytest.param(*case, marks=pytest.mark.slow) for case in _CASES[:-1]), _CASES[-1]],
)
def test_a_quantized_block_is_one_engine(name: str, target: str, precision: Precision) -> None:
    module, args, dims = blocks()[name]
    program = quantized(module, args, dims)
    found = compile_in_stages(program, asked(target, precision))
    assert len(found.converted) == 1
    kinds = [placed.layer.kind for placed in found.converted[0].network.layers]
    quantizes = [str(node.target) for node in program.graph.nodes if ".quantize_per_tensor" in str(node.target)]
    products = kinds.count("Convolution") + kinds.count("MatrixMultiply")
    # 8.6 quantizes its weights in the network, and multiplies matrices of attention beside.
    weights = {"residual": 4, "wide": 2, "attending": 2}[name]
    assert kinds.count("Quantize") == len(quantizes) + (weights if target == "8.6" else 0)
    assert products >= weights
    assert found.verification is not None
    assert found.verification.passed
    check(program, found.compiled, name, CLOSE[precision])


@pytest.mark.slow  # quick: a quantized block is one engine
def test_one_product_differs_by_single_steps_of_its_input() -> None:
    torch.manual_seed(2)
    module, x = torch.nn.Linear(32, 16).eval(), torch.randn(64, 32)
    program = quantized(module, (x,), {"input": {0: Dim("rows", min=1, max=64)}})
    found = compile_in_stages(program, asked("11.4"))
    step = next(node.args[1] for node in program.graph.nodes if ".quantize_per_tensor" in str(node.target))
    with torch.no_grad():
        off = (found.compiled(x) - program.module()(x)).abs()
    # At most one element of a row on the other side of a middle; the rest is the order of the sums.
    assert float(off.max()) <= step * float(module.weight.abs().max()) * 1.01 + 1e-5


class Before(torch.nn.Module):
    """What stands before quantizers in networks for mobile devices and for images, and quantizers."""

    def __init__(self) -> None:
        super().__init__()
        self.groups, self.layer = torch.nn.GroupNorm(4, 8), torch.nn.LayerNorm(31)
        torch.nn.init.normal_(self.groups.weight)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        how = (0.024568352848291397, 0, -128, 127, torch.int8)
        steps = DECOMPOSED.dequantize_per_tensor(DECOMPOSED.quantize_per_tensor(x, *how), *how)
        functions = torch.nn.functional
        gates = functions.hardswish(x), functions.hardsigmoid(x), functions.softplus(x)
        return steps, *gates, self.groups(x), self.layer(x)


# Quick: the oldest.
@pytest.mark.parametrize("target", ["8.6", pytest.param("11.4", marks=pytest.mark.slow)])
def test_ops_before_quantizers_are_equal_to_the_bit(target: str) -> None:
    """An element in the last digit of which they differ may be a whole step off behind a quantizer."""
    torch.manual_seed(7)
    rows = Dim("rows", min=1, max=512)
    program = export(Before().eval(), (torch.randn(2, 8, 16, 31),), dynamic_shapes={"x": {2: rows}})
    compiled = compile_in_stages(program, asked(target)).compiled
    for height in (1, 512, 37):
        generator = torch.Generator().manual_seed(height)
        # Middles between steps of the quantizer, where dividing and multiplying by the reciprocal part.
        x = (torch.randint(-130, 130, (2, 8, height, 31), generator=generator) + 0.5) * 0.024568352848291397
        with torch.no_grad():
            for got, wanted in zip(compiled(x), program.module()(x), strict=True):
                assert torch.equal(got, wanted)


@pytest.mark.slow  # quick: a quantized block, above; files of programs in tests/artifact
def test_a_quantized_program_is_saved_and_loaded(tmp_path: Path) -> None:
    module, args, dims = blocks()["wide"]
    program = quantized(module, args, dims)
    torch.export.save(program, tmp_path / "quantized.pt2")
    compiled = trtdiag.compile(tmp_path / "quantized.pt2", options=asked("8.6", keep_in_torch=("aten.layer_norm",)))
    trtdiag.save(compiled, tmp_path / "compiled.pt2")
    check(program, trtdiag.load(tmp_path / "compiled.pt2"), "wide", CLOSE[Precision.KEEP])


@pytest.mark.slow  # quick: what is dequantized stays where it is quantized, apart from an op of PyTorch
@pytest.mark.parametrize(
    "kept", ["quantized_decomposed.dequantize_per_tensor", "quantized_decomposed.quantize_per_tensor"]
)
def test_half_of_a_pair_in_pytorch_is_right(kept: str) -> None:
    module, args, dims = blocks()["wide"]
    program = quantized(module, args, dims)
    found = compile_in_stages(program, asked("11.4", keep_in_torch=(kept,)))
    left = {entry.op for entry in found.plan.partitioned.fallback if entry.computes}
    assert left == {f"{kept}.default"}
    check(program, found.compiled, "wide", CLOSE[Precision.KEEP])


class Later(torch.nn.Module):
    """A tensor that is quantized before an op that stays in PyTorch, and read behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, how = self.first(x), (0.02, 0, -128, 127, torch.int8)
        z = DECOMPOSED.dequantize_per_tensor(DECOMPOSED.quantize_per_tensor(y, *how), *how)
        return self.second(z * torch.sinc(y))


def test_what_is_dequantized_stays_where_it_is_quantized() -> None:
    """Fewer bytes would cross between the two; apart they are no layers of int8."""
    program = export(Later().eval(), (torch.randn(3, 5, 64),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=8)}})
    found = compile_in_stages(program, asked("11.4", keep_in_torch=("aten.sinc",)))
    homes = {op: index for index, one in enumerate(found.converted) for op in one.segment.ops}
    assert len(found.converted) == 2
    assert homes["dequantize_per_tensor"] == homes["quantize_per_tensor"] == 0
    x = torch.randn(8, 5, 64)
    with torch.no_grad():
        torch.testing.assert_close(found.compiled(x), program.module()(x), rtol=1e-4, atol=1e-4)


class Optimized(torch.nn.Module):
    """As NVIDIA's Model Optimizer exports it, to int8 or float8."""

    def __init__(self, *, float8: bool) -> None:
        super().__init__()
        self.inner, self.exponent = torch.nn.Linear(64, 48), 4 if float8 else 0
        self.register_buffer("range", torch.tensor(3.0))
        greatest = self.inner.weight.detach().abs().amax(None if float8 else 1, keepdim=not float8)
        self.register_buffer("amax", greatest)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        narrow = not self.exponent
        x = MODEL_OPTIMIZER(x, self.range, 8, self.exponent, False, False)
        weight = MODEL_OPTIMIZER(self.inner.weight, self.amax, 8, self.exponent, False, narrow)
        return torch.nn.functional.linear(x, weight, self.inner.bias)


@pytest.mark.parametrize("float8", [False, True], ids=["int8", "float8"])
def test_what_model_optimizer_exports_is_one_engine(float8: bool) -> None:
    exported = export(
        Optimized(float8=float8).eval(), (torch.randn(4, 64),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=16)}}
    )
    found = compile_in_stages(exported, asked("11.4"))
    (one,) = found.converted
    kinds = [placed.layer.kind for placed in one.network.layers]
    assert kinds.count("Dequantize") == 2
    x = torch.randn(16, 64)
    with torch.no_grad():
        torch.testing.assert_close(found.compiled(x), exported.module()(x), rtol=1e-5, atol=1e-5)
    old = compile_in_stages(exported, asked("8.6"))
    codes = {entry.limit.code for entry in old.plan.partitioned.fallback if entry.computes}
    assert codes == ({"float8-missing"} if float8 else set())


@pytest.mark.slow  # quick: tests/convert has the ops with their zero points
def test_asymmetric_and_unsigned_numbers_are_right_in_one_engine() -> None:
    class Shifted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Wide()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for how in ((0.03, 7, -128, 127, torch.int8), (0.02, 131, 0, 255, torch.uint8)):
                x = DECOMPOSED.dequantize_per_tensor(DECOMPOSED.quantize_per_tensor(x, *how), *how)
            return self.inner(x)

    exported = export(Shifted().eval(), (torch.randn(3, 7, 64),), dynamic_shapes={"x": {0: Dim("batch", min=1, max=8)}})
    found = compile_in_stages(exported, asked("8.6"))
    assert len(found.converted) == 1
    assert "Quantize" not in [placed.layer.kind for placed in found.converted[0].network.layers]
    x = torch.randn(8, 7, 64) * 3
    with torch.no_grad():
        torch.testing.assert_close(found.compiled(x), exported.module()(x), rtol=1e-4, atol=1e-5)
