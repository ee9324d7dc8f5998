"""Normalization over groups of channels, and over each channel of each image."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.normalization import normalized
from trtdiag.convert.layer_writers.statistics import (
    affine,
    as_outputs,
    by_channel,
    inference,
    moments,
    reciprocal_deviation,
)
from trtdiag.network import DType, Value
from trtdiag.symbolic import Expr, Num, floordiv


@converter
def group_norm(call: Call) -> list[Value | None]:
    """aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None,
        float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor
    aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group,
        float eps) -> (Tensor, Tensor, Tensor)
    """
    write, x = call.write, call.tensor("input")
    groups, epsilon = call.integer("group" if "group" in call.arguments else "num_groups"), float(call.number("eps"))
    if not any(call.outputs[1:]):
        return [_normalized(call, x, groups, epsilon)]
    # All of it from the same moments: beside them TensorRT 8.6.0 has no kernel for a Normalization in float16 ("Could
    # not find any implementation", seen on an H200; each of three other ways to write that was refused too).
    sizes = _grouped(call, x, groups)
    grouped = write.cast(write.reshape(x, sizes), DType.FLOAT32)
    mean, variance = moments(write, grouped, range(2, grouped.rank))
    reciprocal = reciprocal_deviation(write, variance, epsilon)
    normal = (grouped - mean) * reciprocal
    y = affine(write, normal, *_scale_and_shift(call, x, [1, *sizes[1:3], *[1] * (x.rank - 2)]))
    return [write.cast(write.reshape(y, x.shape), x.dtype), *as_outputs(call, 1, mean, reciprocal)]


@converter
def instance_norm(call: Call) -> Value:
    """aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
    bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor

    Refused where it also updates running statistics.
    """
    x, eps = call.tensor("input"), float(call.number("eps"))
    if not call.flag("use_input_stats"):
        return inference(call, eps)
    if call.has("running_mean") or call.has("running_var"):
        raise refuse("running-statistics", "it updates its running statistics", "call eval() on the module")
    shape = [1, x.shape[1], *[1] * (x.rank - 2)]
    return normalized(call.write, x, range(2, x.rank), eps, *_scale_and_shift(call, x, shape), shape=shape)


def _normalized(call: Call, x: Value, groups: int, epsilon: float) -> Value:
    write, y = call.write, x
    first, own = 2, 1
    shape: Sequence[Expr | int] = [1, x.shape[1], *[1] * (x.rank - 2)]
    if groups == 1:
        first = 1
    elif x.rank > 2 and isinstance(x.shape[1], Num) and write.target.groups:
        own = groups
    else:  # one dim more: a group's channels stand beside its elements
        sizes = _grouped(call, x, groups)
        y, shape = write.reshape(x, sizes), [1, *sizes[1:3], *[1] * (x.rank - 2)]
    parts = _scale_and_shift(call, x, shape)
    y = normalized(write, y, range(first, y.rank), epsilon, *parts, shape=shape, groups=own)
    return write.reshape(y, x.shape)


def _scale_and_shift(call: Call, x: Value, shape: Sequence[Expr | int]) -> tuple[Value | None, Value | None]:
    """What is given of the two, in a shape that has the channels."""

    def of(name: str) -> Value | None:
        value = by_channel(call.write, x, call.tensor_or_none(name))
        return None if value is None else call.write.reshape(value, shape)

    return of("weight"), of("bias")


def _grouped(call: Call, x: Value, groups: int) -> Sequence[Expr | int]:
    facts = call.write.builder.facts
    each = floordiv(x.shape[1], groups)
    if facts.quotient([x.shape[1]], [Num(groups)]) is None:
        raise refuse("channels-not-proven", f"its channels are not proven to be a multiple of {groups}")
    return [x.shape[0], groups, each, *x.shape[2:]]
