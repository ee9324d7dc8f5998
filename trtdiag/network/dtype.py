"""The dtypes of network tensors: those that a TensorRT network computes with."""

from __future__ import annotations

from enum import Enum

import torch
from torch import dtype as TorchDType


class DType(Enum):
    """A dtype; the value is its name in torch, the key of ``targets.COUNTERPARTS``.

    There is no float64: the type plan has replaced it before a network is written.
    """

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT64 = "int64"
    INT32 = "int32"
    INT8 = "int8"
    UINT8 = "uint8"
    BOOL = "bool"
    FP8 = "float8_e4m3fn"
    INT4 = "int4"
    FP4 = "float4_e2m1fn_x2"
    E8M0 = "float8_e8m0fnu"

    @property
    def torch(self) -> TorchDType:
        """The torch dtype that holds it, an element in each: int8 for INT4, float8_e4m3fn for FP4."""
        return _TORCH[self]

    @property
    def is_float(self) -> bool:
        """Whether it holds real numbers."""
        return self in FLOATS

    @classmethod
    def of(cls, dtype: TorchDType) -> DType | None:
        """The member for a torch dtype of programs; ``None`` where networks have none (float64, complex, ...).

        Quantized ones are asked for by name: in programs these dtypes are cast to and from like others.
        """
        found = _FROM_TORCH.get(dtype)
        return None if found in QUANTIZED else found

    @classmethod
    def holding(cls, dtype: TorchDType) -> DType:
        """The member of the same name as a torch dtype that weights are held in."""
        return _FROM_TORCH[dtype]

    def holds(self, value: int) -> bool:
        """Whether an integer type (or bool, as 0 and 1) can hold ``value``."""
        if self is DType.BOOL:
            return value in (0, 1)
        if self is DType.INT4:
            return -8 <= value <= 7
        limits = torch.iinfo(self.torch)
        return limits.min <= value <= limits.max


_HELD_IN = {DType.INT4: torch.int8, DType.FP4: torch.float8_e4m3fn}
_TORCH: dict[DType, TorchDType] = {
    dtype: _HELD_IN[dtype] if dtype in _HELD_IN else getattr(torch, dtype.value) for dtype in DType
}
_FROM_TORCH = {
    torch_dtype: dtype for dtype, torch_dtype in _TORCH.items() if torch_dtype is getattr(torch, dtype.value, None)
}

FLOATS = frozenset({DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16})
INDICES = frozenset({DType.INT32, DType.INT64})
NUMBERS = FLOATS | INDICES
BOOLS = frozenset({DType.BOOL})
SMALL = frozenset({DType.INT8, DType.UINT8})
COMPUTED = NUMBERS | {DType.INT8, DType.BOOL}
"""Everything but uint8, which only casts and moves at the network's edge take."""
QUANTIZED = frozenset({DType.FP8, DType.INT4, DType.FP4, DType.E8M0})
"""What only Quantize and Dequantize, constants and the network's edge have."""
ANY = frozenset(DType) - QUANTIZED
