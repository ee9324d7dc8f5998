"""Normalizations."""

from __future__ import annotations

from trtdiag.shapes.op_call import OpCall
from trtdiag.shapes.op_demands.registry import asks
from trtdiag.shapes.shape_constraints import Demands, equal, multiple, same_shape
from trtdiag.symbolic import Num


@asks("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm")
def layer_norm(call: OpCall) -> Demands:
    """The last dims are the normalized ones, and there is a weight for each of their elements."""
    given, wanted = call.shape("input"), call.sizes("normalized_shape")
    yield from same_shape(given[len(given) - len(wanted) :], wanted, "the normalized dims")
    for name in ("weight", "bias"):
        shape = call.optional_shape(name)
        if shape is not None:
            yield from same_shape(shape, wanted, f"the {name} and the normalized dims")


@asks("group_norm")
def group_norm(call: OpCall) -> Demands:
    """Channels fall into whole groups."""
    given = call.shape("input")
    yield from multiple(given[1], Num(call.number("num_groups")), "the channels and the groups")
    yield from _per_channel(call, given[1:2])


@asks("batch_norm", "instance_norm")
def batch_norm(call: OpCall) -> Demands:
    """A mean, a variance, a weight and a bias for each channel."""
    yield from _per_channel(call, call.shape("input")[1:2])


def _per_channel(call: OpCall, channels: tuple[object, ...]) -> Demands:
    for name in ("weight", "bias", "running_mean", "running_var"):
        shape = call.optional_shape(name)
        if shape is not None and len(shape) == 1 and channels:
            yield from equal(shape[0], channels[0], f"the {name} and the channels")  # type: ignore[arg-type]
