"""Products of matrices and vectors."""

from __future__ import annotations

from trtdiag.convert import Call, converter
from trtdiag.convert.layer_writers.matmul import product
from trtdiag.network.layers.reduce import ReduceOperation
from trtdiag.network.value import Value
from trtdiag.symbolic import mul


@converter
def linear(call: Call) -> Value:
    """aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    x, weight, bias = call.tensor("input"), call.tensor("weight"), call.tensor_or_none("bias")
    y = product(call.write, x, weight, transposed=weight.rank > 1)
    return y if bias is None else y + bias


@converter
def matmul(call: Call) -> Value:
    """aten::matmul(Tensor self, Tensor other) -> Tensor
    aten::mm(Tensor self, Tensor mat2) -> Tensor
    aten::bmm(Tensor self, Tensor mat2) -> Tensor
    aten::mv(Tensor self, Tensor vec) -> Tensor
    aten::dot(Tensor self, Tensor tensor) -> Tensor
    aten::vdot(Tensor self, Tensor other) -> Tensor
    """
    left, right = (call.tensor(name) for name in call.arguments)  # the second has four names
    return product(call.write, left, right)


@converter
def sum_with_product(call: Call) -> Value:
    """aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
    """
    write, dtype = call.write, call.out.dtype
    _, left, right = (call.tensor(name) for name in list(call.arguments)[:3])
    if call.op_name == "addr":
        column, row = write.unsqueeze(write.cast(left, dtype), [1]), write.unsqueeze(write.cast(right, dtype), [0])
        products = column * row
    else:
        products = product(write, left, right)
        products = write.reduce(ReduceOperation.SUM, products, [0]) if call.op_name == "addbmm" else products
    # With beta 0 what self holds does not matter, not even a NaN.
    alpha, beta = call.number("alpha"), call.number("beta")
    if alpha != 1:
        products = products * alpha
    if beta == 0:
        return products
    own = write.cast(call.tensor("self"), products.dtype)
    if beta != 1:
        own = own * beta
    return own + products


@converter
def bilinear(call: Call) -> Value:
    """aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor"""
    write = call.write
    left, right, weight = (call.tensor(name) for name in ("input1", "input2", "weight"))
    bias = call.tensor_or_none("bias")
    outputs, first, second = weight.shape
    table = write.reshape(write.permute(weight, [1, 0, 2]), [first, mul(outputs, second)])
    rows = product(write, left, table)  # (*, outputs * second)
    rows = write.reshape(rows, [*left.shape[:-1], outputs, second])
    products = rows * write.unsqueeze(right, [right.rank - 1])
    y = write.reduce(ReduceOperation.SUM, products, [products.rank - 1])
    return y if bias is None else y + bias
