"""Tensors that count: arange, linspace, eye, indices of triangles."""

from __future__ import annotations

import torch

from trtdiag.convert import Call, converter, refuse
from trtdiag.network import INPUT, DType, Value
from trtdiag.network.layers.constant import Fill
from trtdiag.symbolic import Expr, Num, as_expr, is_condition, is_integer


@converter
def arange(call: Call) -> Value:
    """aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
        pin_memory=None) -> Tensor
    aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
        bool? pin_memory=None) -> Tensor
    aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None,
        Device? device=None, bool? pin_memory=None) -> Tensor

    Where the length is dynamic and the step is not whole, elements are start + i * step in float32.
    """
    # ``start + i * step``, exactly where both are whole or the length is known.
    write, out = call.write, call.out
    length = out.shape[0]
    terms = [_term(call, name, default) for name, default in (("start", 0), ("step", 1))]
    if not out.dtype.is_float:  # PyTorch rounds both towards zero first
        terms = [int(term) if isinstance(term, float) else term for term in terms]
    start, step = (int(term) if isinstance(term, float) and term.is_integer() else term for term in terms)
    if not isinstance(start, float) and not isinstance(step, float) and all(map(_is_whole, (start, step))):
        return write.cast(write.counting(length, start, step), out.dtype)
    if not out.dtype.is_float:
        raise refuse("argument-kind", "it counts in integers from or by a number that need not be whole")
    if isinstance(length, Num) and isinstance(start, int | float) and isinstance(step, int | float):
        places = torch.arange(int(length.value), dtype=torch.float64)
        return write.constant((start + step * places).to(out.dtype.torch))
    first, by = (_real(call, term) for term in (start, step))
    shape = write.sizes.vector([length])
    counted = write.add(Fill(INPUT, DType.FLOAT32, INPUT, INPUT), shape, first, write.reshape(by, [1]))
    return write.cast(counted, out.dtype)


def _term(call: Call, name: str, default: int) -> int | float | Expr:
    value = call.arguments.get(name)
    if value is None:
        return default
    if isinstance(value, (int, float)):
        return value if isinstance(value, float) else int(value)
    if isinstance(value, Value) or is_condition(value):
        raise refuse("argument-kind", f"its {name} is no number")
    return int(value.value) if isinstance(value, Num) and isinstance(value.value, int) else as_expr(value)


def _is_whole(term: int | Expr) -> bool:
    return isinstance(term, int) or is_integer(term)


def _real(call: Call, term: float | Expr) -> Value:
    write = call.write
    if isinstance(term, int | float):
        return write.number(term, DType.FLOAT32)
    return write.reshape(write.sizes.real(term, DType.FLOAT32), [])


@converter
def linspace(call: Call) -> Value:
    """aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device?
        device=None, bool? pin_memory=None) -> Tensor
    aten::linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None,
        Device? device=None, bool? pin_memory=None) -> Tensor
    aten::linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None,
        Device? device=None, bool? pin_memory=None) -> Tensor
    aten::linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None,
        Device? device=None, bool? pin_memory=None) -> Tensor
    """
    # From both ends to the middle, as PyTorch does, so that both ends are exact.
    write, out, steps = call.write, call.out, call.integer("steps")
    if call.is_number("start") and call.is_number("end"):
        start, end = call.number("start"), call.number("end")
        return write.constant(torch.linspace(start, end, steps, dtype=out.dtype.torch))
    if not out.dtype.is_float:
        raise refuse("dtype", f"its elements are {out.dtype.value}, and its ends known only when the network runs")
    first, last = (write.unsqueeze(call.operand(name, DType.FLOAT32), [0]) for name in ("start", "end"))
    if steps < 2:
        return write.cast(write.broadcast_to(first, [steps]), out.dtype)
    number = write.number(steps - 1, DType.FLOAT32, 1)
    step = (last - first) / number
    places = torch.arange(steps, dtype=torch.float32)
    up = first + step * write.constant(places)
    down = last - step * write.constant(places.flip(0))
    return write.cast(write.select(write.constant(places < steps // 2), up, down), out.dtype)


@converter
def eye(call: Call) -> Value:
    """aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)
        -> Tensor
    aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
        pin_memory=None) -> Tensor
    """
    write, (rows, columns) = call.write, call.out.shape
    row = write.unsqueeze(write.counting(rows), [1])
    return write.cast(row.eq(write.unsqueeze(write.counting(columns), [0])), call.out.dtype)


@converter
def indices_of_triangle(call: Call) -> Value:
    """aten::tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device?
        device=None, bool? pin_memory=None) -> Tensor
    aten::triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None,
        bool? pin_memory=None) -> Tensor
    """
    indices = torch.tril_indices if call.op_name == "tril_indices" else torch.triu_indices
    found = indices(*(call.integer(name) for name in ("row", "col", "offset")))
    return call.write.constant(found.to(call.out.dtype.torch))
