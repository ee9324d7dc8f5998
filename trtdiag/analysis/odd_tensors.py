"""Tensors of odd dtypes, each under the op that brought the dtype in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trtdiag.analysis.wording import at_line, counted
from trtdiag.dtypes.facts import OddTensor, Role


@dataclass(frozen=True)
class Origin:
    """An op, constant or input that brings a dtype in, and the tensors from there on to the next such op."""

    root: OddTensor
    tensors: tuple[OddTensor, ...]

    @property
    def key(self) -> str:
        """The cause: the dtype, and the line that brought it in (the op's name where no line is known)."""
        return f"{self.root.dtype} @ {self.root.frame or self.root.node}"

    @property
    def spoken(self) -> str:
        """``mul_3 (aten.mul.Tensor) at model.py:7 makes float64 and 4 tensors after it``."""
        root = self.root
        behind = len(self.tensors) - 1
        more = f", with {counted(behind, 'tensor')} after it" if behind else ""
        if root.role in (Role.INPUT, Role.CONSTANT):
            return f"{root.role.value} {root.node} is {root.dtype}{more}"
        return f"{root.node} ({root.op}){at_line(root.frame)} makes {root.dtype}{more}"


def by_origin(tensors: Iterable[OddTensor]) -> tuple[Origin, ...]:
    """The tensors, in graph order, each under the last root of its dtype before it; roots of one line together."""
    found: dict[str, list[OddTensor]] = {}
    current: dict[str, str] = {}
    for tensor in tensors:
        if tensor.root or tensor.dtype not in current:
            current[tensor.dtype] = f"{tensor.dtype} @ {tensor.frame or tensor.node}"
        found.setdefault(current[tensor.dtype], []).append(tensor)
    return tuple(Origin(members[0], tuple(members)) for members in found.values())
