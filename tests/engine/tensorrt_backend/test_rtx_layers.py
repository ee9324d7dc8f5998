"""Each kind of layer, handed to the installed TensorRT-RTX for every GPU generation, beside what its target says."""

from __future__ import annotations

import pytest
import torch
from layer_samples import CASES, Case, in_place_of_float32
from network_cases import ORIGIN, POINTS, RANGES, In

from tests.harness.rows import thinned
from trtdiag.engine.backend import get_backend
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.profiles import network_profile
from trtdiag.errors import EngineBuildError
from trtdiag.network import DType, Network, NetworkBuilder
from trtdiag.network.layers.attention import Attention
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.layers.matmul import MatrixMultiply
from trtdiag.network.layers.quantize import Dequantize, Quantize
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.network.missing_features import lacks
from trtdiag.options import CompileOptions
from trtdiag.symbolic import Sym
from trtdiag.targets import Target, get_rtx_target, get_target, installed_rtx_version

pytestmark = pytest.mark.skipif(installed_rtx_version() is None, reason="tensorrt-rtx is not installed")


def _space(layer: type[Convolution | Deconvolution], dtype: DType) -> Case:
    """A kernel over three dims of space."""
    image, kernel = In(("b", 3, 5, 4, 3), dtype), torch.ones(3, 3, 2, 2, 1, dtype=dtype.torch)
    return Case("space", layer((1,) * 3, (0,) * 3, (0,) * 3, (1,) * 3), (image, kernel), torch.add)


class FewBits(Case):
    """A matrix product with weights of four bits, 32 of which share a scale."""

    def network(self) -> Network:
        builder = NetworkBuilder(RANGES)
        x = builder.input("x", DType.FLOAT16, [Sym("b"), 64])
        stored = builder.constant(torch.arange(64 * 6).reshape(64, 6).remainder(16).sub(8).char(), ORIGIN, DType.INT4)
        scales = builder.constant(torch.full((2, 6), 0.1).half(), ORIGIN)
        weights = builder.add_single(Dequantize(DType.FLOAT16), stored, scales, origin=ORIGIN)
        builder.output("y", builder.add_single(MatrixMultiply(), x, weights, origin=ORIGIN))
        return builder.build()


class FewBitsOfAttention(Case):
    """Attention whose softmax meets the values in FP8, as those are."""

    def network(self) -> Network:
        builder = NetworkBuilder(RANGES)
        scale = builder.constant(torch.tensor(0.1).half(), ORIGIN)
        parts = []
        for name in ("query", "key", "value"):
            x = builder.input(name, DType.FLOAT16, [Sym("b"), 4, Sym("s"), 64])
            stored = builder.add_single(Quantize(DType.FP8), x, scale, origin=ORIGIN)
            parts.append(builder.add_single(Dequantize(DType.FLOAT16), stored, scale, origin=ORIGIN))
        own = builder.constant(torch.tensor(1 / 448), ORIGIN)
        builder.output("y", builder.add_single(Attention(quantize_to=DType.FP8), *parts, own, origin=ORIGIN))
        return builder.build()


def _cases() -> dict[str, Case]:
    """The first case of each kind of layer, and those that a generation or the release lacks."""
    found: dict[str, Case] = {}
    for case in CASES.values():
        # A softmax in float32 that is quantized is built for all: what FP8 needs shows where its inputs are FP8, below.
        if not isinstance(case.layer, Attention) or case.layer.quantize_to is None:
            found.setdefault(case.layer.kind, case)
    more = [name for name in CASES if name.startswith(("rotary", "quantize", "dequantize", "dynamic"))]
    more.append("attention_shared_lower_right")
    found.update({name: CASES[name] for name in more})
    for name in ("deconvolution", "convolution", "matmul"):
        half = in_place_of_float32(CASES[name], DType.BFLOAT16)
        assert half is not None
        found[f"{name} in bfloat16"] = half
    for layer in (Convolution, Deconvolution):
        for dtype in (DType.FLOAT32, DType.FLOAT16):
            found[f"{layer.__name__} in 3-D, {dtype.value}"] = _space(layer, dtype)
    for dilation, stride, groups in ((2, 1, 1), (2, 2, 1), (1, 2, 3), (2, 1, 3)):
        pair, image = (dilation, 1), In((2, 6, 7, 5))
        layer = Deconvolution((1, stride), (0, 0), (0, 0), pair, groups)
        kernel = torch.randn(6, 2, 2, 3)
        found[f"Deconvolution {dilation} {stride} {groups}"] = Case("dilated", layer, (image, kernel), torch.add)
    found["weights of INT4"] = FewBits("weights of INT4", MatrixMultiply(), (), torch.matmul)
    found["attention in FP8"] = FewBitsOfAttention("attention in FP8", Attention(), (), torch.matmul)
    found["SoftMax of one dim"] = Case("one", SoftMax(0), (In(("b",)),), torch.softmax)
    return found


_CASES = _cases()


def _says(target: Target, network: Network) -> bool:
    """Whether a target has all of a network."""
    missing = any(
        lacks(target, placed.layer, [network.tensors[number] for number in placed.inputs]) for placed in network.layers
    )
    return not missing and {tensor.dtype.value for tensor in network.tensors} <= target.dtypes


# What a target has of a layer is quick for all in tests/network and in test_emitter_contract.py.
@thinned("name", _CASES, every=12)
def test_the_builder_says_what_the_target_says(name: str) -> None:
    network = _CASES[name].network()
    release = get_rtx_target(None)
    scaled = any(placed.layer.kind.endswith("uantize") for placed in network.layers)
    if release.version == "rtx-1.4" and scaled and not torch.cuda.is_available():
        pytest.skip("1.4 asks the GPU here about scales, whatever it builds for: 'Cuda Runtime (In generateForCurrent'")
    has = [gpu for gpu in release.gpus if _says(release.on((gpu,)), network)]
    lacking = [(gpu,) for gpu in release.gpus if gpu not in has]
    if has:
        _build(network, tuple(has))
    else:
        lacking = lacking[-1:]  # what the release lacks is no matter of the generation
    for gpus in lacking:
        with pytest.raises(EngineBuildError):
            _build(network, gpus)


def _build(network: Network, gpus: tuple[str, ...]) -> None:
    """By the target of the same API, so that the builder refuses and not our own check."""
    base = get_target(get_rtx_target(None).api)
    sizes = {name: size for name, size in POINTS[1].items() if name in network.ranges}
    options = CompileOptions(backend="tensorrt-rtx", gpu=gpus)
    get_backend("tensorrt-rtx").build(network, network_profile(network, sizes), options, base, Watch())
