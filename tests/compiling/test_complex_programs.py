"""Models with complex numbers, whole: one engine each, compared at the ends of ranges and at odd sizes between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.nn import functional as F

import trtdiag
from tests.runtime.agreeing import assert_agrees
from trtdiag.runtime.compiled import CompiledProgram

USUAL = {"backend": "reference", "target": "11.4"}


class LogMel(nn.Module):
    """What stands before Whisper's encoder, over sounds of any length."""

    def __init__(self, points: int) -> None:
        super().__init__()
        self.points = points
        self.register_buffer("window", torch.hann_window(points))
        self.register_buffer("mel", torch.rand(20, points // 2 + 1))

    def forward(self, audio: Tensor) -> Tensor:
        spectrum = torch.stft(audio, self.points, self.points * 2 // 5, window=self.window, return_complex=True)
        power = spectrum[..., :-1].abs() ** 2
        log = torch.clamp(self.mel @ power, min=1e-10).log10()
        return (torch.maximum(log, log.amax(dim=(-2, -1), keepdim=True) - 8.0) + 4.0) / 4.0


class Rotary(nn.Module):
    """Attention of the first Llama: queries and keys turned by complex numbers, a table of them for all positions."""

    def __init__(self, width: int = 24, heads: int = 3, longest: int = 128) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width, bias=False)
        rates = 10_000.0 ** -(torch.arange(0, width // heads, 2).float() / (width // heads))
        angles = torch.outer(torch.arange(longest), rates)
        self.freqs_cis = torch.polar(torch.ones_like(angles), angles)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.project(x).view(batch, length, 3, self.heads, -1).unbind(2)
        freqs = self.freqs_cis[:length].view(1, length, 1, -1)

        def turned(y: Tensor) -> Tensor:
            pairs = torch.view_as_complex(y.float().reshape(*y.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * freqs).flatten(3).type_as(y).transpose(1, 2)

        y = F.scaled_dot_product_attention(turned(q), turned(k), v.transpose(1, 2), is_causal=True)
        return y.transpose(1, 2).reshape(batch, length, width)


class SpectralLayer(nn.Module):
    """The convolution of a Fourier neural operator: low frequencies of both signs, each with weights of its own."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.positive, self.negative = (
            nn.Parameter(torch.randn(width, width, modes, modes, dtype=torch.cfloat) / width) for _ in range(2)
        )
        self.skip = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        m, spectrum = self.modes, torch.fft.rfft2(x)
        out = torch.zeros_like(spectrum)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.positive)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.negative)
        return F.gelu(torch.fft.irfft2(out, s=x.shape[-2:]) + self.skip(x))


class Operator(nn.Module):
    def __init__(self, width: int = 6, modes: int = 3, layers: int = 2) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(2, width, 1), nn.Conv2d(width, 1, 1)
        self.layers = nn.ModuleList(SpectralLayer(width, modes) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.enter(x)
        for layer in self.layers:
            y = layer(y)
        return self.leave(y)  # type: ignore[no-any-return]  # a module gives Any


class Edges(nn.Module):
    def forward(self, z: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        y = z.exp() * x.tanh() + 1
        return y, torch.fft.fft(y).abs()


BATCH = Dim("batch", min=1, max=4)


def log_mel(points: int = 400, longest: int = 4800) -> ExportedProgram:
    length = Dim("length", min=points, max=longest)
    return export(LogMel(points), (torch.randn(2, longest // 2 + 3),), dynamic_shapes={"audio": {0: BATCH, 1: length}})


def rotary() -> ExportedProgram:
    length = Dim("length", min=1, max=128)
    return export(Rotary(), (torch.randn(2, 17, 24),), dynamic_shapes={"x": {0: BATCH, 1: length}})


def operator() -> ExportedProgram:
    return export(Operator(), (torch.randn(2, 2, 21, 32),), dynamic_shapes={"x": {0: BATCH}})


def edges() -> ExportedProgram:
    example = (torch.randn(3, 31, dtype=torch.complex64), torch.randn(3, 31))
    return export(Edges(), example, dynamic_shapes=({0: BATCH}, {0: BATCH}))


def compiled(program: ExportedProgram, **options: object) -> CompiledProgram:
    found = trtdiag.compile(program, **{**USUAL, **options})  # type: ignore[arg-type]  # options by name
    assert len(found.manifests) == 1
    return found


# Name -> the program, and sizes that are no end of a range.  1,024 points are two products.
MODELS: dict[str, tuple[Callable[[], ExportedProgram], tuple[tuple[int, ...], ...]]] = {
    "log-mel": (lambda: log_mel(50, 700), ((3, 201),)),
    "log-mel of Whisper": (log_mel, ((3, 1601),)),
    "log-mel of two products": (lambda: log_mel(1024), ((1, 4097),)),
    "rotary": (rotary, ((3, 101, 24),)),
    "neural operator": (operator, ((3, 2, 21, 32),)),
}


SLOW = frozenset({"log-mel", "log-mel of Whisper", "log-mel of two products", "neural operator", "rotary"})
"""What the quick run has as transforms and products by themselves, in tests/lower."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MODELS])
def test_a_model_is_one_engine_that_agrees(name: str, tmp_path: Path) -> None:
    torch.manual_seed(11)
    build, sizes = MODELS[name]
    program = build()
    # It is compared at all corners of its ranges while it is compiled, and refused where it differs.
    found = compiled(program, require_full=True)
    path = tmp_path / "model.pt2"
    trtdiag.save(found, path)
    loaded = trtdiag.load(path).module()
    for size in sizes:
        assert_agrees(loaded, program.module(), torch.randn(size))


@pytest.mark.slow  # quick: tests/lower/test_complex_numbers.py has them before an engine is made
def test_complex_inputs_and_outputs_cross_as_views() -> None:
    program = edges()
    found = compiled(program)
    z, x = torch.randn(2, 31, dtype=torch.complex64), torch.randn(2, 31)
    assert_agrees(found.module(), program.module(), z, x)
    assert_agrees(found.module(), program.module(), z.conj(), x)
    left = {str(node.target) for node in found.exported_program.graph.nodes if node.op == "call_function"}
    assert {name for name in left if name.startswith("aten.")} == {
        *("aten.resolve_conj.default", "aten.view_as_real.default", "aten.view_as_complex.default")
    }
    assert not [each for each in found.report.findings if each.severity.value != "info"]


@pytest.mark.slow  # quick: tests/lower/test_precision_rules.py has what stays
def test_products_of_a_transform_stay_in_float32() -> None:
    program = log_mel(50, 700)
    report = trtdiag.analyze(program, precision="fp16", target="11.4")
    assert report.analysis.partition is not None
    precision = report.analysis.partition.plan.lowered.precision
    assert precision is not None
    kept = {limit.node for limit in precision.stays if "Fourier" in limit.why}
    assert kept == {"stft___fft_r2c__matmul", "stft___fft_r2c__matmul_1"}


@pytest.mark.slow  # quick: complex weights are constants of their parts, in tests/lower/test_complex_numbers.py
def test_complex_weights_that_are_not_there_are_constants_too() -> None:
    def factory() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, Any], None]:
        return Operator(layers=1), (torch.randn(2, 2, 9, 8),), {}, None

    report = trtdiag.analyze(factory, meta=True, target="11.4")
    assert report.analysis.partition is not None
    assert not report.analysis.partition.partitioned.fallback
    assert len(report.analysis.partition.partitioned.segments) == 1


@pytest.mark.slow  # quick: tests/artifact/test_refit.py; complex weights are constants of their parts in tests/lower
def test_complex_weights_can_be_put_in_later() -> None:
    torch.manual_seed(3)
    size = trtdiag.Input((2, 2, 9, 8))
    first, second = Operator(layers=1).eval(), Operator(layers=1).eval()
    found = trtdiag.compile(first, inputs=[size], refittable=True, verify=False, **USUAL)  # type: ignore[arg-type]
    x = torch.randn(2, 2, 9, 8)
    assert not torch.allclose(first(x), second(x), atol=1e-3)
    assert_agrees(trtdiag.refit(found, second.state_dict()), second, x)
