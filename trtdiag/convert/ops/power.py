"""Powers."""

from __future__ import annotations

from trtdiag.convert import Call, Writer, converter, refuse
from trtdiag.network.value import Value


@converter
def power(call: Call) -> Value:
    """aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor
    aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor

    Integers to integers are refused.

    aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor
    """
    dtype = call.out.dtype
    if call.is_number("exponent"):
        return _constant_power(call.write, call.operand("self", dtype), call.number("exponent"))
    if not dtype.is_float:
        raise refuse(
            "integer-power",
            "it raises integers to a power that is known only when the network runs, and TensorRT's power takes floats",
            "make the exponent a Python number, or compute in float",
        )
    return call.operand("self", dtype) ** call.operand("exponent", dtype)


def _constant_power(write: Writer, base: Value, exponent: float) -> Value:
    """``base ** exponent``, by products, roots and reciprocals where PyTorch takes these."""
    if exponent == 0:
        return write.filled(base.shape, 1, base.dtype)
    if not base.dtype.is_float:
        if exponent < 0 or exponent != int(exponent):
            raise refuse("integer-power", f"it raises integers to {exponent}")
        return _repeated(write, base, int(exponent))
    match exponent:
        case 0.5:
            return base.sqrt()
        case -0.5:
            return base.sqrt().reciprocal()
        case 1 | 2 | 3:
            return _repeated(write, base, int(exponent))
        case -1 | -2:
            return _repeated(write, base, int(-exponent)).reciprocal()
    return base**exponent


def _repeated(write: Writer, base: Value, times: int) -> Value:
    """The product of ``times`` equal factors, by squares."""
    result: Value | None = None
    while True:
        if times % 2:
            result = base if result is None else result * base
        times //= 2
        if not times:
            assert result is not None
            return result
        base = base * base
