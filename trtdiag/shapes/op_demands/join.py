"""Tensors one after the other."""

from __future__ import annotations

from trtdiag.shapes.op_call import OpCall, bare_name
from trtdiag.shapes.op_demands.registry import asks
from trtdiag.shapes.shape_constraints import Demands, all_alike, concatenated, equal, same_shape
from trtdiag.symbolic import add


@asks("cat", "concat", "concatenate")
def cat(call: OpCall) -> Demands:
    """All dims but one are the same; a tensor of one dim among larger ones is the empty one that cat passes over."""
    shapes = call.shapes("tensors")
    rank = max(map(len, shapes), default=0)
    whole = [shape for shape in shapes if len(shape) == rank]
    if whole:
        yield from concatenated(whole, call.axis("dim", rank))


@asks("stack", "column_stack")
def stack(call: OpCall) -> Demands:
    """All tensors have one shape."""
    shapes = call.shapes("tensors")
    for shape in shapes[1:]:
        yield from same_shape(shapes[0], shape, "the tensors")


@asks("hstack", "vstack", "dstack")
def stacks(call: OpCall) -> Demands:
    """As cat, along the second dim, the first or the third, of tensors with so many dims."""
    axis = {"hstack": 1, "vstack": 0, "dstack": 2}[bare_name(call.op)]
    shapes = call.shapes("tensors")
    if all(len(shape) == len(shapes[0]) > max(axis, 1) for shape in shapes):
        yield from concatenated(shapes, axis)


@asks("broadcast_tensors")
def together(call: OpCall) -> Demands:
    """Tensors that broadcast with each other."""
    yield from all_alike(call.shapes("tensors"), "the tensors")


@asks("split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes")
def split_with_sizes(call: OpCall) -> Demands:
    """The parts are the whole."""
    given = call.shape("self")
    parts = add(0, *call.sizes("split_sizes"))
    yield from equal(parts, given[call.axis("dim", len(given))], "the parts and the dim that is split")


@asks("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "_grid_sampler_2d_cpu_fallback", "cudnn_grid_sampler")
def grid_sampler(call: OpCall) -> Demands:
    """A grid for each image."""
    given, grid = call.tensor_shapes()[:2]
    yield from equal(given[0], grid[0], "the images and the grids")


@asks("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward")
def classes(call: OpCall) -> Demands:
    """A class for each row of scores."""
    scores, target = call.shape("self"), call.shape("target")
    if len(scores) == len(target) + 1 and len(scores) > 1:
        yield from same_shape((scores[0], *scores[2:]), target, "the scores without their classes and the target")
