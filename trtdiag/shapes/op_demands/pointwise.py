"""Ops that work element by element on tensors that broadcast."""

from __future__ import annotations

from trtdiag.shapes.op_call import OpCall
from trtdiag.shapes.op_demands.registry import POINTWISE, asks
from trtdiag.shapes.shape_constraints import SUMMED, Demands, alike, all_alike, equal, spread


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
