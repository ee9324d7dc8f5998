"""Where quantizers go: the inputs of what TensorRT computes in INT8, and nowhere else.

A quantizer in another place costs a pass over the tensor, or ends a fusion, and wins nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from trtdiag.calibration.constant_values import ConstantValues
from trtdiag.frontend.node_origins import origin_of
from trtdiag.graph.operators import named_arguments, operator_of, short_name, target_name, writes
from trtdiag.graph.user_entries import Entries

_FLOATS = frozenset({torch.float32, torch.float16, torch.bfloat16})
_CONVOLUTIONS = frozenset({"conv2d", "conv3d", "convolution"})
_PRODUCTS = {"linear": ("input", "weight", 0), "matmul": ("self", "other", 1), "mm": ("self", "mat2", 1)}
"""The computed operand, the weight, and the dim of its output channels."""
_MATRIX = 2


@dataclass(frozen=True)
class Place:
    """One op to quantize.

    Attributes:
        node: The op.
        inputs: The places of its arguments that are computed and take a quantizer.
        weight: The place of its constant; ``None`` of a residual sum.
        axis: The dim of output channels in the constant.
    """

    node: Node
    inputs: tuple[int, ...]
    weight: int | None = None
    axis: int = 0

    @property
    def op(self) -> str:
        """As one writes it."""
        return target_name(self.node.target)

    @property
    def module(self) -> str:
        """The path of its module."""
        return origin_of(self.node).module_path


@dataclass(frozen=True)
class Places:
    """All ops to quantize, in graph order, and how many the user keeps in floats."""

    ops: tuple[Place, ...]
    kept: int


def places_of(graph: Graph, constants: ConstantValues, keep: Entries) -> Places:
    """The ops of a graph to quantize.

    These are convolutions and products whose weight is a constant, and of a sum that follows one of the former
    directly the other summand, which engines add in the same kernel.  Products of two computed matrices stay: attention
    is one kernel in half precision.

    Args:
        graph: Of an exported program, batch norms folded.
        constants: Its weights.
        keep: What the user keeps in floats.
    """
    found: dict[Node, Place] = {}
    kept = 0
    for node in graph.nodes:
        place = _product(node, constants) or _residual(node, found, constants)
        if place is None:
            continue
        if keep.naming(place.op, place.module) is None:
            found[node] = place
        else:
            kept += 1
    return Places(tuple(found.values()), kept)


def _product(node: Node, constants: ConstantValues) -> Place | None:
    op = operator_of(node)
    if op is None or op.namespace != "aten" or not _is_float(node):
        return None
    given, name = named_arguments(node, op), short_name(op)
    names = list(given)
    if name in _CONVOLUTIONS:
        transposed = given.get("transposed") is True
        taken, weight, axis = "input", "weight", 0
        if transposed or (name == "convolution" and _rank(given["weight"]) not in (4, 5)):
            return None
    elif name == "addmm" and given["beta"] == 1 and given["alpha"] == 1:
        taken, weight, axis = "mat1", "mat2", 1
    elif name in _PRODUCTS:
        taken, weight, axis = _PRODUCTS[name]
    else:
        return None
    if not constants.known(given[weight]) or constants.known(given[taken]) or not _is_float(given[taken]):
        return None
    if name not in _CONVOLUTIONS and _rank(given[weight]) != _MATRIX:
        return None
    at = names.index(taken), names.index(weight)
    return Place(node, at[:1], at[1], axis) if max(at) < len(node.args) else None


def _residual(node: Node, found: dict[Node, Place], constants: ConstantValues) -> Place | None:
    """The sum of a quantized convolution that nothing else reads, and of another tensor of its shape."""
    op = operator_of(node)
    if op is None or short_name(op) != "add" or len(node.args) < 2 or node.kwargs.get("alpha", 1) != 1:
        return None

    def is_convolution(each: object) -> bool:
        place = found.get(each) if isinstance(each, Node) else None
        return place is not None and place.weight is not None and _rank(place.node.args[place.weight]) > _MATRIX

    first, second = node.args[:2]
    if not isinstance(first, Node) or not isinstance(second, Node) or first is second:
        return None
    if not _is_float(first) or not _is_float(second) or _shape(first) != _shape(second):
        return None
    # Of two convolutions the second is the branch: x + downsample(x) is written so.
    if is_convolution(first) and len(first.users) == 1 and not constants.known(second):
        return Place(node, (1,))
    # What a sum writes into stays what it is.
    if is_convolution(second) and len(second.users) == 1 and not constants.known(first) and not writes(node):
        return Place(node, (0,))
    return None


def _is_float(node: object) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dtype in _FLOATS


def _rank(node: object) -> int:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value.dim() if isinstance(value, torch.Tensor) else -1


def _shape(node: Node) -> tuple[str, ...]:
    """Sizes as texts: asking whether two symbols are equal would add a guard."""
    return tuple(map(str, node.meta["val"].shape))


def readers_of(places: Places) -> Iterator[tuple[Node, Place, int]]:
    """Each computed input that takes a quantizer, with who reads it and where."""
    for place in places.ops:
        for at in place.inputs:
            source = place.node.args[at]
            assert isinstance(source, Node)
            yield source, place, at
