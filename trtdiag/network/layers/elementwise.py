"""ElementWise and Select: functions of two and three tensors of one shape, where dims of size 1 repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np
import torch

from trtdiag.network.dtype import BOOLS, COMPUTED, FLOATS, NUMBERS, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.known_values import as_bool, compared, difference, greater, lesser, truth_of
from trtdiag.network.layer import Layer, broadcast, require_dtype, require_same_dtype
from trtdiag.network.tensor import Tensor, object_array, with_array
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
    """TensorRT's binary operations; the value is their name in torch.

    On integers ``DIV`` rounds towards zero and ``FLOOR_DIV`` towards minus infinity.  There is no remainder: it is
    ``a - FLOOR_DIV(a, b) * b`` with the sign of b, as in Python, or the same with DIV and the sign of a, as in C.
    """

    SUM = "add"
    PROD = "mul"
    MAX = "maximum"
    MIN = "minimum"
    SUB = "sub"
    DIV = "div"
    POW = "pow"
    FLOOR_DIV = "floor_divide"
    AND = "logical_and"
    OR = "logical_or"
    XOR = "logical_xor"
    EQUAL = "eq"
    GREATER = "gt"
    LESS = "lt"


_LOGICAL = (ElementWiseOperation.AND, ElementWiseOperation.OR, ElementWiseOperation.XOR)
_COMPARISONS = {
    ElementWiseOperation.EQUAL: Relation.EQ,
    ElementWiseOperation.GREATER: Relation.GT,
    ElementWiseOperation.LESS: Relation.LT,
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
            values = [value for a, b in pairs if (value := _OF_SIZES[self.op](a, b, facts)) is not None]
            if len(values) == pairs.size:
                return (with_array(dtype, object_array(values, pairs.shape)),)
        return (Tensor(dtype, shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The function of the same name."""
        if self.op is ElementWiseOperation.DIV:
            rounding = None if inputs[0].is_floating_point() else "trunc"
            return (torch.div(inputs[0], inputs[1], rounding_mode=rounding),)
        return (getattr(torch, self.op.value)(*inputs),)


def _exclusive(a: Expr, b: Expr, facts: ShapeConstraints) -> Expr:
    one, other = truth_of(a), truth_of(b)
    return as_bool(any_of((all_of((one, negate(other))), all_of((negate(one), other)))))


def _quotient(a: Expr, b: Expr, facts: ShapeConstraints, *, down: bool) -> Expr | None:
    if not (facts.at_least(b, 1) or (isinstance(b, Num) and b.value != 0)):
        return None
    down = down or (facts.at_least(a, 0) and facts.at_least(b, 1))
    return floordiv(a, b) if down else trunc(truediv(a, b))


_OF_SIZES: dict[ElementWiseOperation, Callable[[Expr, Expr, ShapeConstraints], Expr | None]] = {
    ElementWiseOperation.SUM: lambda a, b, facts: add(a, b),
    ElementWiseOperation.SUB: lambda a, b, facts: difference(a, b),
    ElementWiseOperation.PROD: lambda a, b, facts: mul(a, b),
    ElementWiseOperation.MAX: greater,
    ElementWiseOperation.MIN: lesser,
    ElementWiseOperation.AND: lambda a, b, facts: as_bool(all_of((truth_of(a), truth_of(b)))),
    ElementWiseOperation.OR: lambda a, b, facts: as_bool(any_of((truth_of(a), truth_of(b)))),
    ElementWiseOperation.XOR: _exclusive,
    ElementWiseOperation.DIV: partial(_quotient, down=False),
    ElementWiseOperation.FLOOR_DIV: partial(_quotient, down=True),
    ElementWiseOperation.POW: lambda a, b, facts: None,
    **{op: partial(compared, relation) for op, relation in _COMPARISONS.items()},
}
"""The same of two sizes; ``None`` where it divides by what may be zero."""


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
            chosen = (where(truth_of(c), a, b) for c, a, b in triples)
            return (with_array(then.dtype, object_array(chosen, triples.shape)),)
        return (Tensor(then.dtype, shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By ``torch.where``."""
        return (torch.where(inputs[0], inputs[1], inputs[2]),)
