"""Which ops have a decomposition, and which of them must not be taken apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch._decomp import _core_aten_decompositions_post_autograd, decomposition_table
from torch._ops import OpOverload
from torch.fx import Node

from trtdiag.graph.operators import named_arguments, schema_name, written_arguments
from trtdiag.graph.recurrent import why_not_unrolled
from trtdiag.lower.lstm_steps import unrolled_lstm
from trtdiag.lower.prims import as_aten

Decomposition = Callable[..., Any]

# They ask a tensor for its form, and TensorRT's shape layers or Python answer.
_ASKS = frozenset({"aten::item", "aten::is_nonzero", "aten::_local_scalar_dense", "aten::numel"})
# They fix the order in memory, which no later stage relies on; the clean-up removes them.
_MEMORY_ONLY = frozenset({"aten::contiguous", "aten::reshape", "aten::detach", "aten::lift_fresh"})
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
    if name in _ASKS or name in _MEMORY_ONLY or written_arguments(op) or op._schema.is_mutable:
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
    if node.meta.get("unbacked_bindings"):
        return "its size depends on data, and the symbol that stands for it belongs to this op"
    return why_not_unrolled(node, op, longest)


def draws(node: Node, op: OpOverload) -> bool:
    """Whether a call of a random op is random: dropout is not, outside of training or with probability zero."""
    named = named_arguments(node, op)
    trains = all(named.get(name) is not False for name in ("train", "training"))
    return trains and all(named.get(name) != 0.0 for name in ("dropout", "dropout_p"))
