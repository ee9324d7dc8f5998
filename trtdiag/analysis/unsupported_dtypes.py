"""Tensors of odd dtypes, each under the op that brought the dtype in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from trtdiag.analysis.places import at_line
from trtdiag.dtypes.facts import OddTensor, Role
from trtdiag.wording import amount

_LAYER = re.compile(r"(?<=_)[0-9]+(?=_|$)")


@dataclass(frozen=True)
class Origin:
    """An op, constant or input that brings a dtype in, and the tensors from there on to the next such op."""

    root: OddTensor
    tensors: tuple[OddTensor, ...]

    @property
    def key(self) -> str:
        """The cause: the dtype, and the line that brought it in; where none is known, the name in all layers alike."""
        return _key(self.root)

    @property
    def identity(self) -> str:
        """What tells it from other origins whatever the nodes are called."""
        root = self.root
        return f"{root.dtype} {root.role.value} {root.op if root.role is Role.INNER else _alike(root.node)}"

    @property
    def spoken(self) -> str:
        """``mul_3 (aten.mul.Tensor) at model.py:7 makes float64 and 4 tensors after it``."""
        root = self.root
        behind = len(self.tensors) - 1
        more = f", with {amount(behind, 'tensor')} after it" if behind else ""
        if root.role in (Role.INPUT, Role.CONSTANT):
            return f"{root.role.value} {root.called or root.node} is {root.dtype}{more}"
        return f"{root.node} ({root.op}){at_line(root.frame)} makes {root.dtype}{more}"


def by_origin(tensors: Iterable[OddTensor]) -> tuple[Origin, ...]:
    """The tensors, in graph order, each under the last root of its dtype before it.

    Roots of one line are together, and constants of one name but for the number of their layer.
    """
    found: dict[str, list[OddTensor]] = {}
    current: dict[str, str] = {}
    for tensor in tensors:
        if tensor.root or tensor.dtype not in current:
            current[tensor.dtype] = _key(tensor)
        found.setdefault(current[tensor.dtype], []).append(tensor)
    return tuple(Origin(members[0], tuple(members)) for members in found.values())


def _key(root: OddTensor) -> str:
    return f"{root.dtype} @ {root.frame or _alike(root.node)}"


def _alike(node: str) -> str:
    """``b_layers_*_scale``: 32 identical layers have one such constant."""
    return _LAYER.sub("*", node)
