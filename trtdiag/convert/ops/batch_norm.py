"""Normalization of each channel over the batch, or with running statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtdiag.convert import Call, converter, refuse
from trtdiag.convert.layer_writers.statistics import (
    affine,
    as_outputs,
    by_channel,
    inference,
    moments,
    reciprocal_deviation,
)
from trtdiag.network import DType, Value
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import sub, truediv


@converter
def batch_norm(call: Call) -> list[Value | None]:
    """aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
        bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor
    aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
        bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)

    Refused where it also updates running statistics.

    aten::cudnn_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
        bool training, float exponential_average_factor, float epsilon) -> (Tensor, Tensor, Tensor, Tensor)

    Refused where it also updates running statistics, or where more than the first output is read.

    aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
        Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)

    Refused where more than the first output is read: the others are empty.

    aten::_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
        float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)

    Refused where more than the first output is read.

    aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,
        float eps) -> (Tensor, Tensor, Tensor)
    aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
        Tensor running_var, bool training, float momentum, float eps)
        -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)
    """
    write, x, cudnn = call.write, call.tensor("input"), "epsilon" in call.arguments
    epsilon = float(call.number("epsilon" if cudnn else "eps"))
    running = [call.tensor(name) for name in ("running_mean", "running_var")] if len(call.outputs) == 5 else []
    if not call.flag("training"):
        return [inference(call, epsilon), None, None, *as_outputs(call, 3, *running)]
    if not running and (call.has("running_mean") or call.has("running_var")):
        raise refuse("running-statistics", "it updates its running statistics", "call eval() on the module")
    # Normalized with mean and variance of the batch, in float32.
    wide, axes = write.cast(x, DType.FLOAT32), [axis for axis in range(x.rank) if axis != 1]
    mean, variance = moments(write, wide, axes)
    reciprocal = reciprocal_deviation(write, variance, epsilon)
    weight, bias = (by_channel(write, x, call.tensor_or_none(name)) for name in ("weight", "bias"))
    y = write.cast(affine(write, (wide - mean) * reciprocal, weight, bias), x.dtype)
    own = [] if cudnn else as_outputs(call, 1, mean, reciprocal)
    return [y, *own, *as_outputs(call, 3, *_updated(call, axes, running, (mean, variance)))]


def _updated(call: Call, axes: Sequence[int], running: Sequence[Value], batch: Sequence[Value]) -> Iterator[Value]:
    """The running statistics moved towards those of the batch; the variance there is the unbiased one."""
    write, momentum = call.write, float(call.number("momentum")) if running else 0.0
    for place, (old, new) in enumerate(zip(running, batch, strict=False)):
        own = write.reshape(new, old.shape)
        if place == 1:
            count = elements([call.tensor("input").shape[axis] for axis in axes])
            own = own * write.sizes.real(truediv(count, sub(count, 1)), DType.FLOAT32)
        yield write.cast(old, DType.FLOAT32) * (1.0 - momentum) + own * momentum
