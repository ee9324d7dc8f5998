"""Networks of float16 that show how TensorRT 8.6 takes layers held to their types, as they are and as variants."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "engine" / "tensorrt_backend"))

from layer_samples import case_for, in_half
from seed_models import seeds

from trtdiag.engine.backend import Profile
from trtdiag.engine.profiles import network_profile
from trtdiag.network import DType, Network, NetworkBuilder
from trtdiag.network.layers.cast import Cast
from trtdiag.network.layers.constant import Constant
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages

_HALF = {DType.FLOAT32: DType.FLOAT16}
_CALM = {"Normalization", "SoftMax", "Shuffle", "Select", "Slice", "Concatenation", "Constant", "Gather"}
"""Kinds that compute in float32 inside or not at all: they give the same in float16, but for its rounding."""


class Only(nn.Module):
    """A function of one tensor with the parameters of a layer."""

    def __init__(self, function: Callable[..., Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


class Block(nn.Module):
    """An encoder's or a decoder's layer, as BERT and GPT have it."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, width = x.shape
        y = self.first(x) if self.causal else x
        q, k, v = (t.view(batch, steps, self.heads, -1).transpose(1, 2) for t in self.qkv(y).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, steps, width))
        if self.causal:
            return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))
        x = self.first(x)
        return self.second(x + self.down(F.gelu(self.up(x))))


def models() -> dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]]:
    """Each model with its example, keyword arguments and dims: small ones to see what fails, and two of real size."""
    torch.manual_seed(0)
    small = torch.randn(2, 7, 16)
    dims = {"x": {0: Dim("batch", min=1, max=5), 1: Dim("steps", min=2, max=17)}}
    parts = {
        "linear": Only(lambda m, x: m.a(x), a=nn.Linear(16, 16)),
        "norm": Only(lambda m, x: m.a(x), a=nn.LayerNorm(16)),
        "norm_linear": Only(lambda m, x: m.b(m.a(x)), a=nn.LayerNorm(16), b=nn.Linear(16, 16)),
        "linear_norm": Only(lambda m, x: m.a(m.b(x) + x), a=nn.LayerNorm(16), b=nn.Linear(16, 16)),
        "softmax": Only(lambda m, x: (m.a(x) @ x.mT).softmax(-1) @ x, a=nn.Linear(16, 16)),
        "attention": Only(lambda m, x: F.scaled_dot_product_attention(m.a(x), x, x), a=nn.Linear(16, 16)),
        "causal": Only(lambda m, x: F.scaled_dot_product_attention(m.a(x), x, x, is_causal=True), a=nn.Linear(16, 16)),
        "gelu": Only(lambda m, x: m.b(F.gelu(m.a(x), approximate="tanh")), a=nn.Linear(16, 32), b=nn.Linear(32, 16)),
    }
    found: dict[str, Any] = {name: (part.eval(), (small,), {}, dims) for name, part in parts.items()}
    found["transformer"], found["conv"] = seeds()["transformer"], seeds()["conv"]
    wide = nn.Sequential(Block(768, 12, False), Block(768, 12, False)).eval()
    deep = nn.Sequential(Block(768, 12, True), Block(768, 12, True)).eval()
    found["encoder"] = (wide, (torch.randn(8, 128, 768),), {}, None)
    found["decoder"] = (deep, (torch.randn(1, 512, 768),), {}, {"input": {1: Dim("steps", min=1, max=512)}})
    return found


SMALL = ("linear", "norm", "norm_linear", "linear_norm", "softmax", "attention", "causal", "gelu", "conv")
LARGE = ("transformer", "encoder", "decoder")
LAYERS = ("convolution_uneven_padding_groups", "convolution_3d")


def network_of(name: str) -> tuple[Network, Profile]:
    """The network of a model in float16, or of one layer, with the sizes to build for."""
    if name in LAYERS:
        case = in_half(case_for(name, "8.6"))
        assert case is not None
        network = case.network()
        return network, network_profile(network, {k: v for k, v in case.points[1].items() if k in network.ranges})
    options = CompileOptions(
        "8.6", "reference", Precision.FP16, verify=False, partition=PartitionOptions(min_segment_ops=0)
    )
    found = compile_in_stages(models()[name], options)
    (converted,), (engine,) = found.converted, found.engines
    return converted.network, {port.name: port.profile for port in engine.manifest.inputs}


def all_half(network: Network) -> Network:
    """Every float32 tensor between inputs and outputs in float16."""
    return _retyped(network, set(range(len(network.tensors))))


def calm_half(network: Network) -> Network:
    """Only the stretches of float32 in which nothing but norms, softmax and moves is: those that TensorRT fuses."""
    group = list(range(len(network.tensors)))

    def root(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    wide = [tensor.dtype is DType.FLOAT32 for tensor in network.tensors]
    loud: set[int] = set()
    for placed in network.layers:
        if isinstance(placed.layer, Cast):
            continue
        touched = [number for number in (*placed.inputs, *placed.outputs) if wide[number]]
        for number in touched[1:]:
            group[root(number)] = root(touched[0])
        if touched and placed.layer.kind not in _CALM:
            loud.add(touched[0])
    loud_roots = {root(number) for number in loud}
    return _retyped(network, {n for n in range(len(wide)) if wide[n] and root(n) not in loud_roots})


def _retyped(network: Network, chosen: set[int]) -> Network:
    builder = NetworkBuilder(network.ranges, network.given, network.definitions)
    known: dict[int, Any] = {}
    for port, tensor in zip(network.inputs, network.input_types, strict=True):
        known[port.tensor] = builder.input(port.name, tensor.dtype, tensor.shape, tensor.values)
    for placed in network.layers:
        layer, output = placed.layer, placed.outputs[0]
        narrow = output in chosen and network.tensors[output].dtype is DType.FLOAT32
        if isinstance(layer, Constant):
            weight = network.weights[layer.weights]
            known[output] = builder.constant(weight.half() if narrow else weight, placed.origin)
            continue
        inputs = [known[number] for number in placed.inputs]
        if isinstance(layer, Cast):
            to = _HALF.get(layer.to, layer.to) if narrow else layer.to
            same = inputs[0].dtype is to
            known[output] = inputs[0] if same else builder.add_single(Cast(to), inputs[0], origin=placed.origin)
            continue
        if any(value.dtype is DType.FLOAT16 for value in inputs):  # inputs and constants that stay float32
            inputs = [
                builder.add_single(Cast(DType.FLOAT16), v, origin=placed.origin) if v.dtype is DType.FLOAT32 else v
                for v in inputs
            ]
        typed = {
            entry.name: _HALF[getattr(layer, entry.name)]
            for entry in fields(layer)
            if narrow and isinstance(getattr(layer, entry.name), DType) and getattr(layer, entry.name) in _HALF
        }
        made = builder.add(replace(layer, **typed) if typed else layer, *inputs, origin=placed.origin)
        known.update(zip(placed.outputs, made, strict=True))
    for port, tensor in zip(network.outputs, network.output_types, strict=True):
        value = known[port.tensor]
        builder.output(
            port.name, value if value.dtype is tensor.dtype else builder.add_single(Cast(tensor.dtype), value)
        )
    return builder.build()
