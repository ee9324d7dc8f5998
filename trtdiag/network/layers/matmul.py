"""MatrixMultiply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch

from trtdiag.network.dtype import FLOATS
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.layer import Layer, broadcast, require, require_dtype, require_fitting, require_same_dtype
from trtdiag.network.tensor import Tensor
from trtdiag.shapes.op_call import Shape
from trtdiag.shapes.shape_constraints import SUMMED, equal


class MatrixOperation(Enum):
    """How an operand is read: as matrices, as transposed matrices, or as vectors."""

    NONE = "none"
    TRANSPOSE = "transpose"
    VECTOR = "vector"


@dataclass(frozen=True)
class MatrixMultiply(Layer, inputs=2):
    """Products of matrices, the last two dims, or vectors, the last dim; the dims before them broadcast.

    Operands have equally many dims before their matrix or vector.  A vector on the left is a row, on the right a
    column, and has no dim in the output.
    """

    op0: MatrixOperation = MatrixOperation.NONE
    op1: MatrixOperation = MatrixOperation.NONE

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The batch dims, then rows and columns."""
        left, right = inputs
        require_dtype(left, FLOATS, "the first operand")
        require_same_dtype(inputs)
        rows, inner, first = _split(left, self.op0)
        columns, other, second = _split(right, self.op1)
        if self.op1 is not MatrixOperation.VECTOR:
            columns, other = other, columns
        require_fitting(facts, equal(inner[0], other[0], SUMMED))
        batch = broadcast((Tensor(left.dtype, first), Tensor(right.dtype, second)), facts)
        return (Tensor(left.dtype, (*batch, *rows, *columns)),)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """By ``torch.matmul`` on matrices, where vectors have gained a dim and lose it again."""
        operands, gained = [], []
        for x, op, axis in zip(inputs, (self.op0, self.op1), (-2, -1), strict=True):
            if op is MatrixOperation.VECTOR:
                x = x.unsqueeze(axis)
                gained.append(axis)
            operands.append(x.mT if op is MatrixOperation.TRANSPOSE else x)
        return (torch.matmul(*operands).squeeze(gained),)


def _split(tensor: Tensor, op: MatrixOperation) -> tuple[Shape, Shape, Shape]:
    """Rows and columns after ``op`` (a vector is columns only), and the dims before."""
    dims = 1 if op is MatrixOperation.VECTOR else 2
    require(tensor.rank >= dims, f"an operand has rank {tensor.rank}; {op.name} needs {dims} or more")
    if op is MatrixOperation.VECTOR:
        return (), tensor.shape[-1:], tensor.shape[:-1]
    rows, columns = tensor.shape[-2:-1], tensor.shape[-1:]
    if op is MatrixOperation.TRANSPOSE:
        rows, columns = columns, rows
    return rows, columns, tensor.shape[:-2]
