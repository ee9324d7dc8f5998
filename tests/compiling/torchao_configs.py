"""torchao's configurations: how each quantizes, and what engines hold of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

Layers = Mapping[tuple[str, str], int]
INT8, INT4, FLOAT8 = ("Dequantize", "int8"), ("Dequantize", "int4"), ("Dequantize", "float8_e4m3fn")
ROUNDED = ("Quantize", "float32")


class Block(nn.Module):
    """A layer of a transformer: four products of one size or another, attention between them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.norm, self.qkv, self.out = nn.LayerNorm(128), nn.Linear(128, 384), nn.Linear(128, 128, bias=False)
        self.up, self.down = nn.Linear(128, 256), nn.Linear(256, 128)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, time, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(nn.functional.gelu(self.up(x)))


class Perceptron(nn.Module):
    """Two products."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.up, self.down = nn.Linear(128, 256), nn.Linear(256, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Convolutions(nn.Module):
    """What torchao leaves in floats, before a product."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second, self.head = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 128, 1), nn.Linear(128, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(torch.relu(self.first(x))).mean((2, 3)))


def inputs(seed: int = 1) -> dict[str, tuple[type[nn.Module], Tensor, dict[int, Any]]]:
    """By name: a model, an input and its dynamic dims."""
    drawn = torch.Generator().manual_seed(seed)
    batch, time = Dim("batch", min=1, max=8), Dim("time", min=1, max=24)
    return {
        "perceptron": (Perceptron, torch.randn(4, 128, generator=drawn), {0: batch}),
        "block": (Block, torch.randn(2, 7, 128, generator=drawn), {0: batch, 1: time}),
        "convolutions": (Convolutions, torch.randn(2, 3, 9, 11, generator=drawn), {0: batch}),
    }


@dataclass(frozen=True)
class Row:
    """A configuration and what becomes of it.

    Attributes:
        quantize: Quantizes a model in place.
        layers: Of the engine for 10 and 11, for each product.
        old: The same for 8.6.
        rules: Findings for 11.4.
        stays: Codes of what stays in PyTorch on 8.6.
        rel: The largest difference of an output, of its magnitude, on the reference backend.
        dtype: Of the model.
    """

    quantize: Callable[[nn.Module], None]
    layers: Layers = field(default_factory=dict)
    old: Layers = field(default_factory=dict)
    rules: frozenset[str] = frozenset()
    stays: frozenset[str] = frozenset()
    rel: float = 2e-6
    dtype: torch.dtype = torch.float32


def rows() -> dict[str, Row]:
    """Every configuration of ``torchao.quantization`` that quantizes on a CPU, by name."""
    from torchao import quantization as q
    from torchao.quantization.quantize_.workflows.intx.intx_choose_qparams_algorithm import IntxChooseQParamsAlgorithm

    def by(config: Any) -> Callable[[nn.Module], None]:
        return lambda model: q.quantize_(model, config)

    def intx(bits: int, granularity: Any = None, **more: Any) -> Callable[[nn.Module], None]:
        how = {} if granularity is None else {"granularity": granularity}
        return by(q.IntxWeightOnlyConfig(weight_dtype=getattr(torch, f"int{bits}"), **how, **more))

    def dynamic(**how: Any) -> Callable[[nn.Module], None]:
        return by(q.Int8DynamicActivationInt8WeightConfig(**how))

    def dynamic_intx(bits: int, **how: Any) -> Callable[[nn.Module], None]:
        return by(q.Int8DynamicActivationIntxWeightConfig(weight_dtype=getattr(torch, f"int{bits}"), **how))

    def static(granularity: Any, zero: int | None = None) -> Callable[[nn.Module], None]:
        kind = q.MappingType.SYMMETRIC if zero is None else q.MappingType.ASYMMETRIC

        def quantize(model: nn.Module) -> None:
            ones = (1,) * (3 if isinstance(model, Block) else 2)  # as many dims as what is rounded has
            point = None if zero is None else torch.full(ones, zero, dtype=torch.int8)
            how = {"act_quant_scale": torch.full(ones, 0.02), "act_quant_zero_point": point, "act_mapping_type": kind}
            by(q.Int8StaticActivationInt8WeightConfig(granularity=granularity, **how))(model)

        return quantize

    def static_float8() -> Callable[[nn.Module], None]:
        return by(q.Float8StaticActivationFloat8WeightConfig(act_quant_scale=torch.tensor([[0.01]])))

    data, zero_points, blocks = frozenset({"TYP404"}), frozenset({"TYP405"}), frozenset({"TYP406"})
    asymmetric, by_32 = q.MappingType.ASYMMETRIC, q.PerGroup(32)
    both = [q.PerTensor(), q.PerRow()]
    scale_only = IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY
    no_clip = q.MappingType.SYMMETRIC_NO_CLIPPING_ERR
    one8, one4, one_float8 = {INT8: 1}, {INT4: 1}, {FLOAT8: 1}
    q_dq = {ROUNDED: 1, FLOAT8: 2}
    left = frozenset({"float8-missing"})
    weights_too = {ROUNDED: 2, INT8: 2}  # 8.6 has no constants of int8: the weights are floats that are rounded
    return {
        "int8 weights by row": Row(by(q.Int8WeightOnlyConfig()), one8),
        "int8 weights, one scale": Row(by(q.Int8WeightOnlyConfig(granularity=q.PerTensor())), one8),
        "int8 weights in blocks": Row(by(q.Int8WeightOnlyConfig(granularity=by_32)), rules=blocks),
        "dynamic int8": Row(dynamic(), one8, rules=data),
        "dynamic int8, one scale": Row(dynamic(granularity=q.PerTensor()), one8, rules=data),
        "dynamic int8, both": Row(dynamic(granularity=both), one8, rules=data),
        "dynamic int8, asymmetric": Row(dynamic(act_mapping_type=asymmetric), one8, rules=data),
        "dynamic int8, narrower": Row(dynamic(reduce_range=True), one8, rules=data),
        "dynamic int8, decode": Row(dynamic(weight_only_decode=True), one8, rules=data),
        "static int8": Row(static(both), {ROUNDED: 1, INT8: 2}, weights_too),
        "static int8, one scale": Row(static(q.PerTensor()), {ROUNDED: 1, INT8: 2}, weights_too),
        "static int8, asymmetric": Row(static(both, 3), {INT8: 2}, rules=zero_points),
        **{f"int{bits} weights": Row(intx(bits), one8) for bits in range(1, 9)},
        "int4 weights in blocks": Row(intx(4, by_32), one4),
        "int3 weights in blocks": Row(intx(3, by_32), one4),
        "int8 weights in blocks, intx": Row(intx(8, by_32), rules=blocks),
        "int4 in blocks, asymmetric": Row(intx(4, by_32, mapping_type=asymmetric), rules=zero_points),
        "int4 in blocks, no clipping": Row(intx(4, by_32, mapping_type=no_clip), one4),
        "int4 in blocks, HQQ": Row(intx(4, by_32, intx_choose_qparams_algorithm=scale_only), one4),
        "int4 in blocks, bfloat16 scales": Row(intx(4, by_32, scale_dtype=torch.bfloat16), one4),
        "dynamic int8, int4 weights": Row(dynamic_intx(4), one4, rules=data),
        "dynamic int8, int8 weights": Row(dynamic_intx(8, weight_granularity=q.PerAxis(0)), one8, rules=data),
        "dynamic int8, asymmetric int4": Row(dynamic_intx(4, weight_mapping_type=asymmetric), rules=data | zero_points),
        "float8 weights": Row(by(q.Float8WeightOnlyConfig()), one_float8),
        "float8 weights, one scale": Row(by(q.Float8WeightOnlyConfig(granularity=q.PerTensor())), one_float8),
        "float8 weights in blocks": Row(by(q.Float8WeightOnlyConfig(granularity=by_32)), one_float8),
        "float8_e5m2 weights": Row(
            by(q.Float8WeightOnlyConfig(weight_dtype=torch.float8_e5m2)), rules=frozenset({"TYP403"})
        ),
        "static float8": Row(static_float8(), q_dq, stays=left),
        "dynamic float8": Row(_float8_as_on_a_gpu(q.PerTensor()), q_dq, stays=left),
        "dynamic float8 by row": Row(_float8_as_on_a_gpu(q.PerRow()), q_dq, stays=left),
        "dynamic float8, bounds": Row(_float8_as_on_a_gpu(q.PerTensor(), 0.1, 2.0), q_dq, stays=left),
        # bfloat16 has 8 bits: a number between two steps may fall to either, and steps of float8 pass that on.
        "dynamic float8 in bfloat16": Row(
            _float8_as_on_a_gpu(q.PerRow()), q_dq, stays=left | {"no-counterpart"}, rel=4e-2, dtype=torch.bfloat16
        ),
    }


def _float8_as_on_a_gpu(granularity: Any, least: float | None = None, most: float | None = None) -> Callable[..., None]:
    """``Float8DynamicActivationFloat8WeightConfig`` without its check that there is a GPU."""

    def quantize(model: nn.Module) -> None:
        from torchao.float8.inference import Float8MMConfig
        from torchao.quantization.quantize_.workflows.float8 import float8_tensor as float8

        how = float8.QuantizeTensorToFloat8Kwargs(granularity=granularity, hp_value_lb=least, hp_value_ub=most)
        for module in model.modules():
            if isinstance(module, nn.Linear):
                weight = float8.Float8Tensor.from_hp(
                    module.weight.detach(),
                    granularity=granularity,
                    mm_config=Float8MMConfig(use_fast_accum=True),
                    act_quant_kwargs=how,
                )
                module.weight = nn.Parameter(weight, requires_grad=False)

    return quantize
