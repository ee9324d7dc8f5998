"""The ops of ``torch.ops.prims``, which decompositions leave in graphs, as the ATen ops that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from trtdiag.graph.operators import ATEN

# ATen's of the same name do the same; those that no engine takes under that name either are not here.
_SAME_NAME = (
    "abs acos acosh asin asinh atan atan2 atanh bitwise_not cat ceil clone cos cosh erf erfc exp exp2 expm1 floor"
    " isfinite log log10 log1p log2 maximum minimum neg reciprocal reshape round rsqrt sign sin sinh sqrt tan tanh"
    " trunc"
)
_OF_TWO = "add bitwise_and bitwise_or bitwise_xor eq fmod ge gt le lt mul ne remainder sub"
_OVERLOADS: dict[str, OpOverload] = {
    **{name: getattr(ATEN, name).default for name in _SAME_NAME.split()},
    **{name: getattr(ATEN, name).Tensor for name in _OF_TWO.split()},
    "pow": ATEN.pow.Tensor_Tensor,
    "rev": ATEN.flip.default,
    "shift_left": ATEN.bitwise_left_shift.Tensor,
    "shift_right_arithmetic": ATEN.bitwise_right_shift.Tensor,
    "squeeze": ATEN.squeeze.dims,
    "transpose": ATEN.permute.default,
    "view_of_dtype": ATEN.view.dtype,
    "where": ATEN.where.self,
}


def _sum(inp: Tensor, dims: list[int], *, output_dtype: torch.dtype | None = None) -> Tensor:
    return torch.sum(inp, dims, dtype=output_dtype)


def _prod(inp: Tensor, dims: list[int], *, output_dtype: torch.dtype | None = None) -> Tensor:
    for dim in sorted(dims, reverse=True):
        inp = torch.prod(inp, dim, dtype=output_dtype)
    return inp


def _amax(inp: Tensor, dims: list[int], *, output_dtype: torch.dtype | None = None) -> Tensor:
    return torch.amax(inp, dims).to(output_dtype or inp.dtype)


def _amin(inp: Tensor, dims: list[int], *, output_dtype: torch.dtype | None = None) -> Tensor:
    return torch.amin(inp, dims).to(output_dtype or inp.dtype)


def _var(
    inp: Tensor, dims: list[int], correction: float | None = 1, *, output_dtype: torch.dtype | None = None
) -> Tensor:
    return torch.var(inp, dims, correction=correction).to(output_dtype or inp.dtype)


def _fmax(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.maximum(a, b)))


def _fmin(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.minimum(a, b)))


def _device_put(a: Tensor, device: torch.device, non_blocking: bool = False) -> Tensor:
    del non_blocking
    return a.to(device)


def _broadcast_in_dim(a: Tensor, shape: Sequence[Any], broadcast_dimensions: Sequence[int]) -> Tensor:
    for axis in range(len(shape)):
        if axis not in broadcast_dimensions:
            a = a.unsqueeze(axis)
    return a.expand(shape)


def _div(a: Tensor, b: Tensor) -> Tensor:
    whole = not (a.dtype.is_floating_point or a.dtype.is_complex)
    return torch.div(a, b, rounding_mode="trunc") if whole else torch.true_divide(a, b)


def _collapsed(a: Tensor, start: int, end: int) -> Tensor:
    return a.flatten(start, end)


def _split_dim(a: Tensor, dim: int, outer_length: Any) -> Tensor:
    return a.reshape(*a.shape[:dim], outer_length, a.shape[dim] // outer_length, *a.shape[dim + 1 :])


def _full(shape: Sequence[Any], fill_value: Any, *, requires_grad: bool, **options: Any) -> Tensor:
    del requires_grad
    return torch.full(shape, fill_value, **options)


def _full_like(a: Tensor, fill_value: Any, *, requires_grad: bool, **options: Any) -> Tensor:
    del requires_grad
    return torch.full(a.shape, fill_value, **options)


def _fill(a: Tensor, value: Any) -> Tensor:
    return torch.full(a.shape, value, dtype=a.dtype, device=a.device)


def _iota(length: Any, *, start: Any, step: Any, requires_grad: bool, **options: Any) -> Tensor:
    del requires_grad
    return torch.arange(start, start + length * step, step, **options)


def _same(a: Tensor) -> Tensor:
    return a.view(a.shape)


def _copied(a: Tensor, stride: Sequence[Any]) -> Tensor:
    del stride  # the order in memory, which no engine has
    return a.clone()


_WRITTEN_OUT: dict[str, Callable[..., Any]] = {
    "amax": _amax,
    "amin": _amin,
    "broadcast_in_dim": _broadcast_in_dim,
    "collapse": _collapsed,
    "collapse_view": _collapsed,
    "convert_element_type": Tensor.to,
    "copy_strided": _copied,
    "device_put": _device_put,
    "div": _div,
    "fill": _fill,
    "fmax": _fmax,
    "fmin": _fmin,
    "full": _full,
    "full_like": _full_like,
    "iota": _iota,
    "prod": _prod,
    "scalar_tensor": torch.scalar_tensor,
    "split_dim": _split_dim,
    "sum": _sum,
    "var": _var,
    "view_of": _same,
}


def as_aten(op: OpOverload) -> Callable[..., Any] | None:
    """What a prim does in ATen ops; ``None`` for prims that draw or write, and where no engine takes those either."""
    name = op._schema.name.partition("::")[2]
    return _WRITTEN_OUT.get(name) or _OVERLOADS.get(name)
