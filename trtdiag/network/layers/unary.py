"""Unary: mathematical functions of one element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import torch

from trtdiag.network.dtype import BOOLS, FLOATS, NUMBERS, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.known_values import as_bool, truth_of
from trtdiag.network.layer import Layer, require_dtype
from trtdiag.network.tensor import Tensor, object_array, with_array
from trtdiag.symbolic import Expr, Relation, compare, maximum, neg, negate, where


class UnaryOperation(Enum):
    """TensorRT's unary operations by their names in torch; ``ROUND`` goes to the even one of two neighbours."""

    ABS = "abs"
    ACOS = "acos"
    ACOSH = "acosh"
    ASIN = "asin"
    ASINH = "asinh"
    ATAN = "atan"
    ATANH = "atanh"
    CEIL = "ceil"
    COS = "cos"
    COSH = "cosh"
    ERF = "erf"
    EXP = "exp"
    FLOOR = "floor"
    ISINF = "isinf"
    ISNAN = "isnan"
    LOG = "log"
    NEG = "neg"
    NOT = "logical_not"
    RECIP = "reciprocal"
    ROUND = "round"
    SIGN = "sign"
    SIN = "sin"
    SINH = "sinh"
    SQRT = "sqrt"
    TAN = "tan"


_ALSO_INTEGERS = (UnaryOperation.ABS, UnaryOperation.SIGN)
"""Source: TensorRT Operators, Unary, and for NEG "operation NEG not allowed on type Int32", seen on 8.6.0, H200."""
_TESTS = (UnaryOperation.ISINF, UnaryOperation.ISNAN)


@dataclass(frozen=True)
class Unary(Layer):
    """``op`` of each element: floats; ABS and SIGN also integers; NOT bools only; ISINF and ISNAN give bools."""

    op: UnaryOperation

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The shape of the input."""
        x = inputs[0]
        if self.op is UnaryOperation.NOT:
            require_dtype(x, BOOLS)
        else:
            require_dtype(x, NUMBERS if self.op in _ALSO_INTEGERS else FLOATS)
        sizes = x.static_shape
        if x.values is not None and sizes is not None and self.op in _SIZES:
            return (with_array(x.dtype, object_array([_SIZES[self.op](v) for v in x.values], sizes)),)
        return (Tensor(DType.BOOL if self.op in _TESTS else x.dtype, x.shape),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The function of the same name."""
        return (getattr(torch, self.op.value)(inputs[0]),)


_SIZES: dict[UnaryOperation, Callable[[Expr], Expr]] = {
    UnaryOperation.ABS: lambda value: maximum(value, neg(value)),
    UnaryOperation.NOT: lambda value: as_bool(negate(truth_of(value))),
    UnaryOperation.SIGN: lambda value: where(
        compare(Relation.GT, value, 0), 1, where(compare(Relation.LT, value, 0), -1, 0)
    ),
}
