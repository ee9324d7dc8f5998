"""Ops of other packages that quantize: torch's own are registered here, ModelOpt's with its schema and numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from trtdiag.graph.quantizers import decomposed_ops

DECOMPOSED = decomposed_ops()
SCHEMA = "(Tensor input, Tensor amax, int num_bits, int exponent_bits, bool unsigned, bool narrow_range) -> Tensor"
"""Source: modelopt/torch/quantization/tensor_quant.py of NVIDIA's Model Optimizer."""


def _quantize(
    input: Tensor, amax: Tensor, num_bits: int, exponent_bits: int, unsigned: bool, narrow_range: bool
) -> Tensor:
    """Fake quantization by the greatest magnitude, as its kernels compute it."""
    if exponent_bits:
        scale = 448.0 / amax
        return (input * scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn).to(input.dtype) / scale
    greatest = 2 ** (num_bits - 1 + unsigned) - 1
    least = 0 if unsigned else -greatest - (not narrow_range)
    scale = greatest / amax
    return (input * scale).round().clamp(least, greatest) / scale


if not hasattr(torch.ops.tensorrt, "quantize_op"):
    torch.library.define("tensorrt::quantize_op", SCHEMA)
    torch.library.impl("tensorrt::quantize_op", "cpu")(_quantize)
    torch.library.register_fake("tensorrt::quantize_op")(lambda input, *_: torch.empty_like(input))
MODEL_OPTIMIZER = torch.ops.tensorrt.quantize_op.default
