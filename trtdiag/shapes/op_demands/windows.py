"""Ops that move a window over a tensor: convolution, pooling, unfold, padding."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.shapes.op_call import OpCall, UnreadableError, bare_name
from trtdiag.shapes.op_demands.registry import asks
from trtdiag.shapes.shape_constraints import Demands, at_most, equal
from trtdiag.symbolic import Expr, Num, add, maximum, mul, neg


@asks("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "cudnn_convolution", "mkldnn_convolution")
def convolution(call: OpCall) -> Demands:
    """The channels are those of the kernel, and the kernel fits into the padded input."""
    weight = call.shape("weight")
    given = call.shape("input") if call.given("input") is not None else call.shape("self")
    channels = given[1:] if len(given) == len(weight) else given
    if call.flag("transposed"):
        yield from equal(channels[0], weight[0], "the channels of the input and of the kernel")
        return
    groups = call.number("groups", 1)
    yield from equal(channels[0], mul(weight[1], groups), "the channels of the input and of the kernel")
    bias = call.optional_shape("bias")
    if bias is not None:
        yield from equal(bias[0], weight[0], "the bias and the outputs")
    if not isinstance(call.given("padding"), str):
        yield from _fits(call, channels[1:], weight[2:])


@asks("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(call: OpCall) -> Demands:
    """The channels are those of the kernel."""
    given, weight = call.shape("input"), call.shape("weight")
    channels = given[1] if len(given) == len(weight) else given[0]
    yield from equal(channels, weight[0], "the channels of the input and of the kernel")


@asks("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices")
@asks("avg_pool1d", "avg_pool2d", "avg_pool3d")
def pooling(call: OpCall) -> Demands:
    """The window fits into the padded input; one that may hang over the end asks for less, which is left to torch."""
    if call.flag("ceil_mode"):
        return
    given = call.shape("self")
    count = int(next(digit for digit in bare_name(call.op) if digit.isdigit()))
    window = [Num(size) for size in call.numbers("kernel_size", count)]
    yield from _fits(call, given[len(given) - count :], window)


def _fits(call: OpCall, given: Sequence[Expr], window: Sequence[Expr]) -> Demands:
    padding, dilation = call.numbers("padding", len(window)), call.numbers("dilation", len(window))
    for axis, (size, kernel) in enumerate(zip(given, window, strict=True)):
        reach = add(mul(max(dilation[axis], 1), add(kernel, -1)), 1)
        yield from at_most(reach, add(size, 2 * padding[axis]), f"dim {axis} of the window and the padded input")


@asks("unfold", "unfold_copy")
def unfold(call: OpCall) -> Demands:
    """The window fits."""
    given = call.shape("self")
    if given:
        axis = call.number("dimension") % len(given)
        yield from at_most(call.size("size"), given[axis], "the window and the dim")


@asks("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(call: OpCall) -> Demands:
    """There is something to reflect: less is added at each end than there is."""
    yield from _padded(call, call.sizes("padding"), 1)


@asks("pad")
def pad(call: OpCall) -> Demands:
    """The same, circular padding turns once at most, and there is what a negative amount cuts off."""
    mode = call.given("mode")
    if mode in ("reflect", "circular"):
        yield from _padded(call, call.sizes("pad"), int(mode == "reflect"))
    elif mode == "constant":
        yield from constant_pad(call)


@asks("constant_pad_nd")
def constant_pad(call: OpCall) -> Demands:
    """There is what negative amounts cut off, before anything is added at the other end."""
    given, amounts = call.shape("self"), call.sizes("pad")
    if len(amounts) > 2 * len(given):
        raise UnreadableError("pad")
    for place in range(0, len(amounts), 2):
        cut = add(*(maximum(neg(amount), Num(0)) for amount in amounts[place : place + 2]))
        yield from at_most(cut, given[-1 - place // 2], "what is cut off and the dim")


def _padded(call: OpCall, amounts: Sequence[Expr], beyond: int) -> Demands:
    given = call.shape("self" if call.given("self") is not None else "input")
    if len(amounts) > 2 * len(given):
        raise UnreadableError("pad")
    for place, amount in enumerate(amounts):
        yield from at_most(add(amount, beyond), given[-1 - place // 2], "what is added at an end and the dim")
