"""ElementWise and Select: functions of two and three tensors of one shape, where dims of size 1 repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch

from trtdiag.network.dtype import BOOLS, COMPUTED, FLOATS, NUMBERS, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.known_values import as_bool, compared, difference, greater, lesser, truth_of
from trtdiag.network.layer import Layer, broadcast, require_dtype, require_same_dtype
from trtdiag.network.tensor import Tensor, with_array
from trtdiag.symbolic import (
    Expr,
    Num,
    Relation,
    add,
    all_of,
    any_of,
    floordiv,
    mul,
    negate,
    truediv,
    trunc,
    where,
)


class ElementWiseOperation(Enum):
    """TensorRT's binary operations.

    On integers ``DIV`` rounds towards zero and ``FLOOR_DIV`` towards minus infinity.  There is no remainder: it is
    ``a - FLOOR_DIV(a, b) * b`` with the sign of b, as in Python, or the same with DIV and the sign of a, as in C.
    """

    SUM = "+"
    PROD = "*"
    MAX = "max"
    MIN = "min"
    SUB = "-"
    DIV = "/"
    POW = "**"
    FLOOR_DIV = "//"
    AND = "and"
    OR = "or"
    XOR = "xor"
    EQUAL = "=="
    GREATER = ">"
    LESS = "<"


_LOGICAL = (ElementWiseOperation.AND, ElementWiseOperation.OR, ElementWiseOperation.XOR)
_COMPARISONS = {
    ElementWiseOperation.EQUAL: Relation.EQ,
    ElementWiseOperation.GREATER: Relation.GT,
    ElementWiseOperation.LESS: Relation.LT,
}
_FUNCTIONS: dict[ElementWiseOperation, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    ElementWiseOperation.SUM: torch.add,
    ElementWiseOperation.PROD: torch.mul,
    ElementWiseOperation.MAX: torch.maximum,
    ElementWiseOperation.MIN: torch.minimum,
    ElementWiseOperation.SUB: torch.sub,
    ElementWiseOperation.POW: torch.pow,
    ElementWiseOperation.FLOOR_DIV: torch.floor_divide,
    ElementWiseOperation.AND: torch.logical_and,
    ElementWiseOperation.OR: torch.logical_or,
    ElementWiseOperation.XOR: torch.logical_xor,
    ElementWiseOperation.EQUAL: torch.eq,
    ElementWiseOperation.GREATER: torch.gt,
    ElementWiseOperation.LESS: torch.lt,
}


@dataclass(frozen=True)
class ElementWise(Layer, inputs=2):
    """``op`` of two tensors of one dtype and rank.

    Arithmetic and comparisons take floats and integers, POW floats only, AND, OR and XOR bools only.
    """

    op: ElementWiseOperation

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The common shape; comparisons give bools."""
        taken = BOOLS if self.op in _LOGICAL else FLOATS if self.op is ElementWiseOperation.POW else NUMBERS
        require_dtype(inputs[0], taken, "the first input")
        require_same_dtype(inputs)
        shape = broadcast(inputs, facts)
        dtype = DType.BOOL if self.op in _COMPARISONS else inputs[0].dtype
        first, second = inputs[0].array(), inputs[1].array()
        if first is not None and second is not None:
            pairs = np.broadcast(first, second)
            values = [self._value(a, b, facts) for a, b in pairs]
            if all(value is not None for value in values):
                array: np.ndarray[Any, np.dtype[np.object_]] = np.empty(len(values), dtype=object)
                array[:] = values
                return (with_array(dtype, array.reshape(pairs.shape)),)
        return (Tensor(dtype, shape),)

    def _value(self, a: Expr, b: Expr, facts: ShapeConstraints) -> Expr | None:
        """The same of two sizes; ``None`` where it divides by what may be zero."""
        match self.op:
            case ElementWiseOperation.SUM:
                return add(a, b)
            case ElementWiseOperation.SUB:
                return difference(a, b)
            case ElementWiseOperation.PROD:
                return mul(a, b)
            case ElementWiseOperation.MAX:
                return greater(a, b, facts)
            case ElementWiseOperation.MIN:
                return lesser(a, b, facts)
            case ElementWiseOperation.AND:
                return as_bool(all_of((truth_of(a), truth_of(b))))
            case ElementWiseOperation.OR:
                return as_bool(any_of((truth_of(a), truth_of(b))))
            case ElementWiseOperation.XOR:
                one, other = truth_of(a), truth_of(b)
                return as_bool(any_of((all_of((one, negate(other))), all_of((negate(one), other)))))
            case ElementWiseOperation.DIV | ElementWiseOperation.FLOOR_DIV:
                if not (facts.at_least(b, 1) or (isinstance(b, Num) and b.value != 0)):
                    return None
                down = self.op is ElementWiseOperation.FLOOR_DIV or (facts.at_least(a, 0) and facts.at_least(b, 1))
                return floordiv(a, b) if down else trunc(truediv(a, b))
            case ElementWiseOperation.POW:
                return None
            case _:
                return compared(_COMPARISONS[self.op], a, b, facts)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The function of the same name."""
        if self.op is ElementWiseOperation.DIV:
            rounding = None if inputs[0].is_floating_point() else "trunc"
            return (torch.div(inputs[0], inputs[1], rounding_mode=rounding),)
        return (_FUNCTIONS[self.op](inputs[0], inputs[1]),)


@dataclass(frozen=True)
class Select(Layer, inputs=3):
    """``then`` where the condition is true, else ``otherwise`` (inputs: condition, then, otherwise)."""

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The common shape of all three, the dtype of the last two."""
        condition, then, otherwise = inputs
        require_dtype(condition, BOOLS, "the condition")
        require_dtype(then, COMPUTED, "the second input")
        require_same_dtype((then, otherwise))
        shape = broadcast(inputs, facts)
        arrays = [tensor.array() for tensor in inputs]
        if all(array is not None for array in arrays):
            triples = np.broadcast(*arrays)  # type: ignore[arg-type]
            array: np.ndarray[Any, np.dtype[np.object_]] = np.empty(triples.size, dtype=object)
            array[:] = [where(truth_of(c), a, b) for c, a, b in triples]
            return (with_array(then.dtype, array.reshape(triples.shape)),)
        return (Tensor(then.dtype, shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By ``torch.where``."""
        return (torch.where(inputs[0], inputs[1], inputs[2]),)
