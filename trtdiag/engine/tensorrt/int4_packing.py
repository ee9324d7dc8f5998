"""Weights of four bits, two in each byte."""

from __future__ import annotations

import torch

from trtdiag.network import DType

IN_HALF_BYTES = (DType.INT4, DType.FP4)
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of e2m1 in the order of their codes; the sign is the highest bit."""


def in_half_bytes(flat: torch.Tensor, dtype: DType) -> torch.Tensor:
    """The elements as TensorRT reads them: the first of each two in the four lower bits.

    Source: "Working with quantized types" of TensorRT, INT4: "the first element stored in the four least significant
    bits".
    """
    if dtype is DType.INT4:
        codes = flat.to(torch.uint8) & 15
    else:
        size = flat.float().abs()
        codes = torch.searchsorted(torch.tensor(_FP4), size).to(torch.uint8)
        codes = codes | (torch.signbit(flat.float()).to(torch.uint8) << 3)
    if len(codes) % 2:
        codes = torch.cat([codes, codes.new_zeros(1)])
    return codes[0::2] | (codes[1::2] << 4)
