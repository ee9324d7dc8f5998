"""Products of matrices, sums and means, and tensors of one number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trtdiag.lower.complex.arithmetic import magnitude, times
from trtdiag.lower.complex.pair import Call, Pair, map_parts, on_pairs
from trtdiag.lower.template import UntraceableError


def product(left: Pair | Tensor, right: Pair | Tensor) -> Pair:
    """The matrix product: four real ones, or two where one operand is real."""
    if not isinstance(left, Pair):
        assert isinstance(right, Pair)
        return Pair(torch.matmul(left, right.real), torch.matmul(left, right.imag))
    if not isinstance(right, Pair):
        return Pair(torch.matmul(left.real, right), torch.matmul(left.imag, right))
    return Pair(real_product(left, right), torch.matmul(left.real, right.imag) + torch.matmul(left.imag, right.real))


def real_product(left: Pair, right: Pair) -> Tensor:
    """The real part of a matrix product."""
    return torch.matmul(left.real, right.real) - torch.matmul(left.imag, right.imag)


@on_pairs("matmul", "mm", "bmm", "mv", "dot")
def matmul(call: Call, **given: Any) -> Pair:
    """The matrix product."""
    right = next(given[name] for name in ("other", "mat2", "vec", "tensor") if name in given)
    return product(given["self"], right)


@on_pairs("vdot")
def vdot(call: Call, **given: Any) -> Pair:
    """The inner product, the first vector conjugated."""
    return product(Pair(given["self"].real, -given["self"].imag), given["other"])


@on_pairs("linear", "addmm", "baddbmm", "addmv")
def with_bias(call: Call, **given: Any) -> Pair:
    """The matrix product and what is added to it."""
    if call.op._schema.name == "aten::linear":
        weight, bias = given["weight"], given["bias"]
        turned = Pair(weight.real.mT, weight.imag.mT) if isinstance(weight, Pair) else weight.mT
        made, beta = product(given["input"], turned), 1
    else:
        names = [name for name in ("mat1", "batch1", "mat") if name in given]
        second = {"mat1": "mat2", "batch1": "batch2", "mat": "vec"}[names[0]]
        made, bias, beta = product(given[names[0]], given[second]), given["self"], given["beta"]
        made = made if given["alpha"] == 1 else times(made, given["alpha"])
    if bias is None:
        return made
    if not isinstance(bias, Pair):
        return Pair(made.real + bias * beta, made.imag)
    scaled = bias if beta == 1 else times(bias, beta)
    return Pair(made.real + scaled.real, made.imag + scaled.imag)


@on_pairs("sum", "mean", "cumsum", "trace")
def reduce(call: Call, **given: Any) -> Pair:
    """Each part by itself."""
    x = call.pair(given["self"])
    if "dtype" in given:
        given["dtype"] = None
    return Pair(*(call.real(**{**given, "self": part}) for part in (x.real, x.imag)))


@on_pairs("var")
def variance(call: Call, **given: Any) -> Tensor:
    """The sum of those of the parts."""
    real, imag = (call.real(**{**given, "self": part}) for part in (given["self"].real, given["self"].imag))
    made: Tensor = real + imag
    return made


@on_pairs("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolution(call: Call, **given: Any) -> Pair:
    """Four real convolutions, or two where one operand is real."""

    def one(x: Any, kernel: Any, bias: Any = None) -> Any:
        return call.real(**{**given, "input": x, "weight": kernel, "bias": bias})

    x, kernel, bias = given["input"], given["weight"], given["bias"]
    offset = Pair(None, None) if bias is None else call.pair(bias)
    if not isinstance(kernel, Pair):
        return Pair(one(x.real, kernel, offset.real), one(x.imag, kernel, offset.imag))
    if not isinstance(x, Pair):
        return Pair(one(x, kernel.real, offset.real), one(x, kernel.imag, offset.imag))
    return Pair(
        one(x.real, kernel.real, offset.real) - one(x.imag, kernel.imag),
        one(x.real, kernel.imag, offset.imag) + one(x.imag, kernel.real),
    )


@on_pairs("linalg_vector_norm", "norm")
def norm(call: Call, **given: Any) -> Tensor:
    """The norm of the lengths."""
    if given.get("dtype") is not None:
        raise UntraceableError("it asks for a norm in another dtype")
    made: Tensor = call.real(**{**given, "self": magnitude(given["self"])})
    return made


@on_pairs(
    *("full", "full_like", "new_full", "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"),
    *("scalar_tensor", "empty", "empty_like", "new_empty", "eye"),
)
def constant(call: Call, **given: Any) -> Pair:
    """The real part made of the same, the imaginary one of zeros or what the number has there."""
    if "self" in given and isinstance(given["self"], Pair):
        given["self"] = given["self"].real
    given["dtype"] = call.dtype
    number = next((name for name in ("fill_value", "s") if name in given), None)
    if number is None:
        real = call.real(**given)
        return Pair(real, torch.zeros_like(real))
    if isinstance(given[number], torch.Tensor):
        raise UntraceableError("it is filled with a number that is not known when it is compiled")
    value = complex(given[number])
    real, imag = map_parts([value.real, value.imag], lambda part: call.real(**{**given, number: part}))
    return Pair(real, imag)
