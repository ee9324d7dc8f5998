"""In which dtype a composition is computed."""

from __future__ import annotations

from collections.abc import Callable

from trtdiag.convert.writer import Writer
from trtdiag.network.dtype import DType
from trtdiag.network.value import Value

_SIXTEEN_BITS = (DType.FLOAT16, DType.BFLOAT16)


def in_float32(write: Writer, compose: Callable[..., Value], *values: Value) -> Value:
    """``compose(*values)``, for 16 bit floats computed in float32 and rounded once, as PyTorch does."""
    dtype = values[0].dtype
    if dtype not in _SIXTEEN_BITS:
        return compose(*values)
    return write.cast(compose(*(write.cast(value, DType.FLOAT32) for value in values)), dtype)
