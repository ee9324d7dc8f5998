"""Ops that move elements and compute nothing: the same op on either part."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trtdiag.graph.operators import short_name
from trtdiag.lower.complex.pair import Call, Pair, map_parts, on_pairs

_VALUES = {
    "cat": ("tensors",),
    "meshgrid": ("tensors",),
    "broadcast_tensors": ("tensors",),
    "concat": ("tensors",),
    "stack": ("tensors",),
    "where": ("self", "other"),
    "copy": ("self", "src"),
    "slice_scatter": ("self", "src"),
    "select_scatter": ("self", "src"),
    "scatter": ("self", "src", "value"),
    "index_put": ("self", "values"),
    "_unsafe_index_put": ("self", "values"),
    "index_copy": ("self", "source"),
    "masked_fill": ("self", "value"),
    "constant_pad_nd": ("self", "value"),
    "pad": ("self", "value"),
    "fill": ("self", "value"),
}
"""The arguments that hold values of the result, where it is not ``self`` alone; the others go to both parts."""

_MOVES = (
    "permute permute_copy transpose transpose_copy t t_copy numpy_T mT movedim moveaxis swapaxes swapdims adjoint_copy"
    " expand expand_copy expand_as broadcast_to squeeze squeeze_copy unsqueeze unsqueeze_copy flatten unflatten ravel"
    " reshape reshape_as view_as select select_copy slice slice_copy narrow narrow_copy diagonal diagonal_copy"
    " split split_copy split_with_sizes split_with_sizes_copy unsafe_split unsafe_split_with_sizes chunk unsafe_chunk"
    " diag_embed tensor_split unbind unbind_copy unfold unfold_copy flip roll rot90 repeat repeat_interleave tile"
    " clone contiguous detach alias alias_copy lift_fresh lift_fresh_copy positive"
    " gather index index_select _unsafe_index take take_along_dim tril triu diag resolve_neg"
    " cat concat stack where copy slice_scatter select_scatter scatter index_put _unsafe_index_put index_copy"
    " masked_fill constant_pad_nd pad fill meshgrid broadcast_tensors"
)


@on_pairs(*_MOVES.split())
def move(call: Call, **given: Any) -> Any:
    """The same op on the real parts, and on the imaginary ones.

    A real value among complex ones has zeros there.
    """
    names = _VALUES.get(short_name(call.op), ("self",))

    def part(which: str) -> Any:
        def of(value: Any) -> Any:
            if value is None or not isinstance(value, (Pair, Tensor, int, float, complex)):
                return value
            return getattr(call.pair(value), which)

        mine = {name: map_parts(value, of) if name in names else value for name, value in given.items()}
        return call.real(**mine)

    real, imag = part("real"), part("imag")
    if isinstance(real, (list, tuple)):
        return [Pair(*parts) for parts in zip(real, imag, strict=True)]
    return Pair(real, imag)


@on_pairs("view", "_unsafe_view", "view_copy", "_reshape_alias")
def view(call: Call, **given: Any) -> Pair:
    """Reshape the parts, which may lie in memory otherwise than the complex tensor did."""
    x = given["self"]
    return Pair(x.real.reshape(given["size"]), x.imag.reshape(given["size"]))


@on_pairs("real")
def real(call: Call, **given: Any) -> Tensor:
    """The real part."""
    part: Tensor = given["self"].real
    return part


@on_pairs("imag")
def imag(call: Call, **given: Any) -> Tensor:
    """The imaginary part."""
    part: Tensor = given["self"].imag
    return part


@on_pairs("view_as_real", "view_as_real_copy")
def view_as_real(call: Call, **given: Any) -> Tensor:
    """Both parts along a last dim of 2."""
    x = given["self"]
    return torch.stack([x.real, x.imag], -1)


@on_pairs("view_as_complex", "view_as_complex_copy")
def view_as_complex(call: Call, **given: Any) -> Pair:
    """The two elements of the last dim."""
    return Pair(given["self"].select(-1, 0), given["self"].select(-1, 1))


@on_pairs("_to_copy", "to", "type_as")
def cast(call: Call, **given: Any) -> Any:
    """To another dtype: the imaginary part is dropped where that is real, and zero where the tensor was."""
    x = given["self"]
    parts = (x.real, x.imag) if isinstance(x, Pair) else (x,)
    moved = [part.to(call.dtype) if part.device == call.device else part.to(call.device, call.dtype) for part in parts]
    if not call.complex:
        return moved[0]
    return Pair(*moved) if len(moved) == 2 else Pair(moved[0], torch.zeros_like(moved[0]))
