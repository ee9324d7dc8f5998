"""Products of matrices."""

from __future__ import annotations

from trtdiag.grouping import grouped
from trtdiag.shapes.op_call import OpCall
from trtdiag.shapes.op_demands.registry import asks
from trtdiag.shapes.shape_constraints import SUMMED, Demands, alike, all_alike, equal, multiplied, same_shape, spread


@asks("matmul", "mm", "mv")
def matmul(call: OpCall) -> Demands:
    """Columns of the first are rows of the second; the dims before broadcast."""
    left, right = call.tensor_shapes()[:2]
    if left and right:
        yield from multiplied(left, right)


@asks("bmm")
def bmm(call: OpCall) -> Demands:
    """As many matrices on both sides."""
    left, right = call.shape("self"), call.shape("mat2")
    yield from equal(left[0], right[0], "the batches")
    yield from equal(left[2], right[1], SUMMED)


@asks("addmm", "addmv", "addbmm", "baddbmm", "_addmm_activation")
def added_to_product(call: OpCall) -> Demands:
    """The product, and a tensor that is repeated to its shape."""
    added, left, right = call.tensor_shapes()[:3]
    if len(left) == 3:
        yield from equal(left[0], right[0], "the batches")
    yield from equal(left[-1], right[-2] if len(right) > 1 else right[0], SUMMED)
    rows = left[:-1] if len(added) == len(left) else left[-2:-1]
    yield from spread(added, (*rows, *right[-1:]) if len(right) > 1 else rows, "what is added and the product")


@asks("addr")
def addr(call: OpCall) -> Demands:
    """An outer product, and a matrix that is repeated to its shape."""
    yield from spread(call.shape("self"), (*call.shape("vec1"), *call.shape("vec2")), "what is added and the product")


@asks("linear")
def linear(call: OpCall) -> Demands:
    """Features of the input are columns of the weight; one bias for each row."""
    given, weight, bias = call.shape("input"), call.shape("weight"), call.optional_shape("bias")
    yield from equal(given[-1], weight[-1], "features of the input and of the weight")
    if bias is not None and len(weight) == 2:
        yield from spread(bias, weight[:1], "the bias and the outputs")


@asks("bilinear")
def bilinear(call: OpCall) -> Demands:
    """Two inputs that differ in their features only."""
    left, right, weight = call.shape("input1"), call.shape("input2"), call.shape("weight")
    yield from same_shape(left[:-1], right[:-1], "both inputs")
    yield from equal(left[-1], weight[1], "features of the first input and of the weight")
    yield from equal(right[-1], weight[2], "features of the second input and of the weight")


@asks("cdist", "_cdist_forward")
def cdist(call: OpCall) -> Demands:
    """Points of one space; the dims before them broadcast."""
    left, right = call.shape("x1"), call.shape("x2")
    yield from equal(left[-1], right[-1], "the coordinates of both sets of points")
    yield from alike(left[:-2], right[:-2], "the batches")


@asks("einsum")
def einsum(call: OpCall) -> Demands:
    """Dims of one letter are equal, or 1."""
    equation = call.given("equation")
    shapes = call.shapes("tensors")
    if not isinstance(equation, str) or "." in equation:
        return
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    operands = zip(terms, shapes, strict=False)
    sizes = grouped(pair for term, shape in operands for pair in zip(term, shape, strict=False))
    for letter, found in sizes.items():
        yield from all_alike([(size,) for size in found], f"dims {letter} of the einsum")
