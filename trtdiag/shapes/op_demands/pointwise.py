"""Ops that work element by element on tensors that broadcast, and normalizations."""

from __future__ import annotations

from trtdiag.shapes.op_call import OpCall
from trtdiag.shapes.op_demands.registry import POINTWISE, asks
from trtdiag.shapes.shape_constraints import SUMMED, Demands, alike, all_alike, equal, multiple, same_shape, spread
from trtdiag.symbolic import Num


@asks(POINTWISE, "masked_fill", "masked_select", "where", "huber_loss", "mse_loss", "l1_loss", "smooth_l1_loss")
@asks("binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_similarity", "pairwise_distance")
@asks("linalg_cross", "cross", "lerp", "addcmul", "addcdiv", "clamp", "clamp_min", "clamp_max", "rrelu_with_noise")
def pointwise(call: OpCall) -> Demands:
    """All tensors broadcast; one that is written in place keeps its shape."""
    shapes = call.tensor_shapes()
    if not shapes:
        return
    if call.in_place:
        for other in shapes[1:]:
            yield from spread(other, shapes[0], "what is written and where it is written to")
        return
    yield from all_alike(shapes, "tensors that are taken element by element")


@asks("masked_scatter")
def masked_scatter(call: OpCall) -> Demands:
    """The mask broadcasts with the tensor; how many elements it takes from the source is decided by data."""
    given, mask = call.shape("self"), call.shape("mask")
    yield from (
        spread(mask, given, "the mask and the tensor")
        if call.in_place
        else alike(mask, given, "the mask and the tensor")
    )


@asks("copy")
def copied(call: OpCall) -> Demands:
    """What is copied is repeated to the shape that it is copied into."""
    yield from spread(call.shape("src"), call.shape("self"), "what is copied and where it is copied to")


@asks("prelu", "_prelu_kernel")
def prelu(call: OpCall) -> Demands:
    """One slope for all channels, or one each."""
    given, slopes = call.shape("self"), call.shape("weight")
    if len(given) > 1 and len(slopes) == 1:
        yield from spread(slopes, given[1:2], "the slopes and the channels")


@asks("dot", "vdot")
def dot(call: OpCall) -> Demands:
    """Two vectors of one length."""
    left, right = call.tensor_shapes()[:2]
    yield from equal(left[0], right[0], SUMMED)


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
