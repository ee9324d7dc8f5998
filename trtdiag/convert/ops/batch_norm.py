"""Normalization of each channel over the batch, or with running statistics."""

from __future__ import annotations

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.moments import Moments, affine, moments, reciprocal_deviation, saved
from trtdiag.convert.layer_writers.statistics import by_channel, inference
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter
from trtdiag.network.dtype import DType
from trtdiag.network.facts import product
from trtdiag.network.value import Value
from trtdiag.symbolic import sub, truediv


@converter
def batch_norm(call: Call) -> Value:
    """aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
    bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor

    Refused where it also updates running statistics.
    """
    return _either(call, "eps")[0]


@converter
def native_batch_norm(call: Call) -> list[Value | None]:
    """aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
        bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)

    Refused where it also updates running statistics.

    aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,
        float eps) -> (Tensor, Tensor, Tensor)
    """
    if "running_mean" not in call.arguments and not call.flag("training"):
        raise refuse("argument-kind", "it has no running statistics, and does not take those of its input")
    y, own = _either(call, "eps")
    return [y] if own is None else [y, *_saved(call, own)]


@converter
def batch_norm_of_statistics(call: Call) -> Value:
    """aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
        Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)

    Refused where more than the first output is read: the others are empty.

    aten::_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
        float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)

    Refused where more than the first output is read.
    """
    return inference(call, float(call.number("eps")))


@converter
def cudnn_batch_norm(call: Call) -> list[Value | None]:
    """aten::cudnn_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
    bool training, float exponential_average_factor, float epsilon) -> (Tensor, Tensor, Tensor, Tensor)

    Refused where it also updates running statistics, or where more than the first output is read.
    """
    return [_either(call, "epsilon")[0]]


@converter
def native_batch_norm_legit_functional(call: Call) -> list[Value | None]:
    """aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
    Tensor running_var, bool training, float momentum, float eps)
    -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)
    """
    if not call.flag("training"):
        kept = [_as_output(call, 3, call.tensor("running_mean")), _as_output(call, 4, call.tensor("running_var"))]
        return [inference(call, float(call.number("eps"))), None, None, *kept]
    y, own = _of_batch(call, float(call.number("eps")))
    return [y, *_saved(call, own), *_updated(call, own)]


def _either(call: Call, epsilon: str) -> tuple[Value, Moments | None]:
    eps = float(call.number(epsilon))
    if not call.flag("training"):
        return inference(call, eps), None
    if call.has("running_mean") or call.has("running_var"):
        raise refuse("running-statistics", "it updates its running statistics", "call eval() on the module")
    return _of_batch(call, eps)


def _of_batch(call: Call, epsilon: float) -> tuple[Value, Moments]:
    """Normalized with mean and variance of the batch, in float32."""
    write, x = call.write, call.tensor("input")
    axes = [axis for axis in range(x.rank) if axis != 1]
    wide = write.cast(x, DType.FLOAT32)
    own = moments(write, wide, axes)
    y = (wide - own.mean) * reciprocal_deviation(write, own.variance, epsilon)
    weight, bias = (by_channel(write, x, call.tensor_or_none(name)) for name in ("weight", "bias"))
    return write.cast(affine(write, y, weight, bias), x.dtype), own


def _saved(call: Call, own: Moments) -> list[Value | None]:
    reciprocal = reciprocal_deviation(call.write, own.variance, float(call.number("eps")))
    return saved(call, own.mean, reciprocal)


def _updated(call: Call, own: Moments) -> list[Value | None]:
    """The running statistics moved towards those of the batch; the variance there is the unbiased one."""
    write, x = call.write, call.tensor("input")
    momentum = float(call.number("momentum"))
    count = product([size for axis, size in enumerate(x.shape) if axis != 1])
    factor = write.sizes.real(truediv(count, sub(count, 1)), DType.FLOAT32)
    found: list[Value | None] = []
    for name, value in (("running_mean", own.mean), ("running_var", own.variance)):
        running = call.tensor(name)
        batch = write.reshape(value, running.shape)
        if name == "running_var":
            batch = batch * factor
        kept = write.cast(running, DType.FLOAT32) * (1.0 - momentum)
        moved = batch * momentum
        found.append(_as_output(call, 3 + len(found), kept + moved))
    return found


def _as_output(call: Call, index: int, value: Value) -> Value:
    """A value in the dtype that an output must have."""
    wanted = call.outputs[index]
    return value if wanted is None else call.write.cast(value, wanted.dtype)
