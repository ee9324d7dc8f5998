"""Products of matrices."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.registry import converter
from trtdiag.network.builder import Value
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation


@converter
def linear(call: Call) -> Value:
    """aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    x, weight, bias = call.tensor("input"), call.tensor("weight"), call.tensor_or_none("bias")
    write = call.write
    if x.rank > 1:
        weight = write.with_rank(weight, x.rank)
        y = write.add(MatrixMultiply(MatrixOperation.NONE, MatrixOperation.TRANSPOSE), x, weight)
    else:
        y = write.add(MatrixMultiply(MatrixOperation.VECTOR, MatrixOperation.TRANSPOSE), x, weight)
    return y if bias is None else write.elementwise(Op.SUM, y, bias)
