"""What complex tensors that lowering left complex mean for an op: the reason why it did, or that it is a mere view."""

from __future__ import annotations

from torch.fx import Node

from trtdiag.graph.limit import COMPLEX_VIEW, Limit
from trtdiag.graph.operators import operator_of, schema_name

_VIEWS = frozenset({"aten::view_as_real", "aten::view_as_complex", "aten::resolve_conj"})
_VIEWED = "between complex numbers of PyTorch and an engine it is a view of pairs of real ones, which copies nothing"
_FIXED = "give it a length of small factors, or one of at most 512 (torch.fft.rfft(x, n=512)), or leave it to PyTorch"
_REAL = "write it with real and imaginary part (torch.view_as_real), or leave it to PyTorch"
_DOUBLE = "pass truncate_double=True (--truncate-double), or use complex64"


def complex_limit(node: Node, why: str, target: str) -> Limit:
    """The limit of an op that takes or gives complex tensors.

    Args:
        node: The op.
        why: Why lowering left it as it is; empty where it says nothing.
        target: ``TensorRT 11.4 has no complex64``.
    """
    op = operator_of(node)
    name = "" if op is None else schema_name(op)
    if not why and name in _VIEWS:
        return Limit(COMPLEX_VIEW, _VIEWED, "take and return real tensors (torch.view_as_real)")
    if not why:
        return Limit("no-counterpart", f"it takes or gives complex numbers, and {target}", _REAL)
    fix = _DOUBLE if "truncate_double" in why else _FIXED if name.startswith("aten::_fft") else _REAL
    return Limit("no-counterpart", why, fix)
