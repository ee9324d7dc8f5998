"""Writes MatrixMultiply."""

from __future__ import annotations

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network.layers.matmul import MatrixMultiply


@emitter(MatrixMultiply)
def matrix_multiply(step: Step, layer: MatrixMultiply) -> Outputs:
    """One layer."""
    first, second = step.dialect.member(layer.op0), step.dialect.member(layer.op1)
    return step.place(step.definition.add_matrix_multiply(step.tensor(0), first, step.tensor(1), second))
