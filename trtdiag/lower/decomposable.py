"""Which ops have a decomposition, and which of them must not be taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch._decomp import _core_aten_decompositions_post_autograd, decomposition_table
from torch._ops import OpOverload
from torch.fx import Node

from trtdiag.graph.operators import ATEN, named_arguments, schema_name, written_arguments
from trtdiag.graph.recurrent import why_not_unrolled
from trtdiag.lower.lstm_steps import unrolled_lstm

Decomposition = Callable[..., Any]

# They ask a tensor for its form, and TensorRT's shape layers or Python answer.
_ASKS = frozenset({"aten::item", "aten::is_nonzero", "aten::_local_scalar_dense", "aten::numel"})
# They fix the order in memory, which no later stage relies on; the clean-up removes them.
_MEMORY_ONLY = frozenset({"aten::contiguous", "aten::reshape", "aten::detach", "aten::lift_fresh"})
# Torch 2.13's decomposition is wrong: behind the first -1 it counts labels 0 (2.05 for its documentation's 0.85).
_WRONG = frozenset({"aten::multilabel_margin_loss", "aten::multilabel_margin_loss_forward"})
_WHOLE = _ASKS | _MEMORY_ONLY | _WRONG
# Outside of torch's core table, and yet taken apart into ops of it without loss.
_BEYOND_CORE = frozenset(
    {
        *("aten::_native_batch_norm_legit_functional", "aten::linalg_vector_norm", "aten::bucketize"),
        *("aten::fmax", "aten::fmin", "aten::copysign", "aten::hypot", "aten::narrow_copy", "aten::permute_copy"),
        *("aten::std", "aten::std_mean", "aten::var_mean", "aten::relu6"),
        *("aten::upsample_nearest1d", "aten::upsample_nearest3d", "aten::upsample_bicubic2d"),
        *("aten::upsample_trilinear3d", "aten::_upsample_nearest_exact1d", "aten::_upsample_nearest_exact2d"),
    }
)

_OWN: dict[OpOverload, Decomposition] = {torch.ops.aten.lstm.input: unrolled_lstm}


@lru_cache(maxsize=1)
def _table() -> dict[Any, Decomposition]:
    return dict(_core_aten_decompositions_post_autograd())


@lru_cache(maxsize=4096)
def decomposition_of(op: OpOverload) -> Decomposition | None:
    """One step of the op's decomposition, torch's but for a few; ``None`` where there is none to take."""
    name = schema_name(op)
    if name in _WHOLE or written_arguments(op) or op._schema.is_mutable:
        return None
    returned = [str(output.type) for output in op._schema.returns]
    if not returned or any(kind not in ("Tensor", "List[Tensor]") for kind in returned):
        return None
    if op in _OWN:
        return _OWN[op]
    if op.namespace == "prims":
        return as_aten(op)
    if op in _table():
        return _table()[op]
    if name in _BEYOND_CORE and torch.Tag.core not in op.tags and op in decomposition_table:
        return decomposition_table[op]
    return op.decompose if op._can_decompose() else None


@lru_cache(maxsize=4096)
def traces_whole(op: OpOverload) -> bool:
    """Whether tracing above autograd would record the op itself: its decomposition is one of torch's C++ kernels."""
    return op not in _table() and torch._C.DispatchKey.CompositeImplicitAutograd not in op.py_kernels


def stays_whole(node: Node, op: OpOverload, longest: int) -> str:
    """Why this call must not be taken apart although its op has a decomposition; empty where it may.

    ``longest``: ``longest_unrolled`` of the program.
    """
    if torch.Tag.nondeterministic_seeded in op.tags and draws(node, op):
        return "it draws random numbers: the same must be drawn as by the op itself"
    if schema_name(op) == "aten::isin" and _looks_up_a_number(node, op):
        return "its decomposition looks the one number up in another dtype"
    if node.meta.get("unbacked_bindings"):
        return "its size depends on data, and the symbol that stands for it belongs to this op"
    return why_not_unrolled(node, op, longest)


def _looks_up_a_number(node: Node, op: OpOverload) -> bool:
    """Whether ``isin`` is asked of one number: the op casts it to the dtype of the others (-1 is 255 of uint8)."""
    named = named_arguments(node, op)
    elements, others = (each.meta.get("val") if isinstance(each, Node) else each for each in list(named.values())[:2])
    if not isinstance(elements, Tensor) or not isinstance(others, Tensor):
        return isinstance(others, Tensor)
    return elements.dim() == 0 and elements.dtype != others.dtype


def draws(node: Node, op: OpOverload) -> bool:
    """Whether a call of a random op is random: dropout is not, outside of training or with probability zero."""
    named = named_arguments(node, op)
    trains = all(named.get(name) is not False for name in ("train", "training"))
    return trains and all(named.get(name) != 0.0 for name in ("dropout", "dropout_p"))


# The ops of ``torch.ops.prims``, which decompositions leave in graphs, as the ATen ops that they stand for.


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
