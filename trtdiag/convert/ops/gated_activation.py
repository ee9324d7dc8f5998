"""Activations that weigh their input by a function of it: GELU, SiLU, Mish, GLU, and the soft ones."""

from __future__ import annotations

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.compute_dtype import in_float32
from trtdiag.convert.layer_writers.elementary import gelu as composed_gelu, softplus_of_negative
from trtdiag.network.layers.activation import ActivationType
from trtdiag.network.value import Value


@converter
def gelu(call: Call) -> Value:
    """aten::gelu(Tensor self, *, str approximate="none") -> Tensor"""
    x, write, by_tanh = call.tensor("self"), call.write, call.arguments["approximate"] == "tanh"
    native = ActivationType.GELU_TANH if by_tanh else ActivationType.GELU_ERF
    if native.name in write.target.activations:
        return write.activation(native, x)
    return in_float32(write, lambda value: composed_gelu(write, value, by_tanh=by_tanh), x)


@converter
def silu(call: Call) -> Value:
    """aten::silu(Tensor self) -> Tensor"""
    x, write = call.operand("self", call.out.dtype), call.write
    return x * write.activation(ActivationType.SIGMOID, x)


@converter
def softplus(call: Call) -> Value:
    """aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"""
    write, beta = call.write, float(call.number("beta"))
    if beta == 0:
        raise refuse("softplus-beta", "its beta is 0, so that every result is infinite")

    def compose(x: Value) -> Value:
        scaled = x if beta == 1 else x * beta
        steep = scaled > call.operand("threshold", x.dtype)
        return write.select(steep, x, write.activation(ActivationType.SOFTPLUS, x, 1 / beta, beta))

    return in_float32(write, compose, call.tensor("self"))


@converter
def soft(call: Call) -> Value:
    """aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)

    The buffer, which only the backward pass needs, is not written.

    aten::log_sigmoid(Tensor self) -> Tensor
    aten::mish(Tensor self) -> Tensor
    """
    write = call.write

    def compose(x: Value) -> Value:
        if call.op_name != "mish":
            return x.minimum(0) - softplus_of_negative(write, x)
        return x * write.activation(ActivationType.TANH, write.activation(ActivationType.SOFTPLUS, x, 1.0, 1.0))

    return in_float32(write, compose, call.tensor("self"))


@converter
def glu(call: Call) -> Value:
    """aten::glu(Tensor self, int dim=-1) -> Tensor"""
    x, write = call.tensor("self"), call.write
    axis = call.axis("dim", x.rank)
    half = call.out.shape[axis]
    gate = write.activation(ActivationType.SIGMOID, write.part(x, axis, half, half))
    return write.part(x, axis, 0, half) * gate
