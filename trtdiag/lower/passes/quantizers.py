"""Brings quantizers to one spelling: ``quantize_per_*`` and ``dequantize_per_*`` of ``torch.ops.quantized_decomposed``.

Later passes then know four forms in the place of a dozen, numbers of few bits stand between two ops, and what is
quantized of weights is computed once, with the constants.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

from trtdiag.graph.operators import ATEN, named_arguments, operator_of
from trtdiag.graph.quantizer import Grain, Quantizer, Step, scales_of
from trtdiag.graph.quantizers import decomposed_ops, quantizer_of
from trtdiag.lower.draft import Draft, insert_call
from trtdiag.lower.graph_copy import constant_tensors

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_MADE = "quantized_decomposed"


def name_quantizers_alike(draft: Draft) -> int:
    """Replace fake quantization, and what torchao and ModelOpt write; what is quantized to float8 stays as it is.

    An op whose scales are data stays, too: it is decomposed into plain arithmetic where it can be.
    """
    count = 0
    held = _held(draft)
    for node in list(draft.graph.nodes):
        op = operator_of(node)
        if op is None or op.namespace == _MADE:
            continue
        found = quantizer_of(node, held)
        if (
            found is not None
            and not found.is_float8
            and found.grain is not Grain.OTHER
            and scales_of(found) is not None
            and _rewritten(draft, node, found)
        ):
            count += 1
    return count


def _held(draft: Draft) -> Callable[[Node], torch.Tensor | None]:
    tensors = constant_tensors(draft.input_specs, draft.output_specs, draft.tensors, draft.graph)

    def held(node: Node) -> torch.Tensor | None:
        if operator_of(node) is ATEN.zeros_like.default:  # as torchao writes zero points that are not there
            like = node.meta["val"]
            sizes = tuple(like.shape)
            return torch.zeros(sizes, dtype=like.dtype) if all(isinstance(size, int) for size in sizes) else None
        found = tensors.get(node.name) if node.op == "placeholder" else None
        return None if isinstance(found, FakeTensor) else found

    return held


def _rewritten(draft: Draft, node: Node, found: Quantizer) -> bool:
    result = _result(node)
    source = node.all_input_nodes[0]
    value = source.meta["val"]
    floats = value.dtype if found.step is not Step.DEQUANTIZE else found.out_dtype
    if result is None or floats not in _FLOATS:
        return False
    with draft.graph.inserting_before(node):
        scale, zero_point = _parameters(draft, node, found)
        given: Any = source
        if found.step is not Step.DEQUANTIZE:
            given = _call(draft, node, found, "quantize", given, scale, zero_point, None)
        if found.step is not Step.QUANTIZE:
            given = _call(draft, node, found, "dequantize", given, scale, zero_point, floats)
    result.replace_all_uses_with(given)
    name = result.name
    for old in (result, node) if result is not node else (node,):
        draft.graph.erase_node(old)
    given.name = name
    return True


def _result(node: Node) -> Node | None:
    """The node that stands for the quantized tensor; ``None`` where a mask beside it is read."""
    if not isinstance(node.meta.get("val"), (list, tuple)):
        return node
    users = list(node.users)
    if len(users) == 1 and users[0].target is operator.getitem and users[0].args[1] == 0:
        return users[0]
    return None


def _parameters(draft: Draft, node: Node, found: Quantizer) -> tuple[Any, Any]:
    """Scales and zero points as ``quantized_decomposed`` takes them."""
    given = named_arguments(node, node.target)  # type: ignore[arg-type]  # quantizer_of has read it
    scale = given.get("scale", given.get("amax"))
    zero_point = given.get("zero_point")
    if not isinstance(scale, Node):
        return scale, zero_point
    value: torch.Tensor = scale.meta["val"]
    if found.bound != 1.0:
        scale = _derived(draft, node, ATEN.div.Tensor, (scale, found.bound), value, "scale")
    count = value.numel()
    shape = [] if found.grain is Grain.TENSOR else [count]
    if found.grain is Grain.BLOCK:
        shape = [node.all_input_nodes[0].meta["val"].shape[0], -1]
    scale = _shaped(draft, node, scale, shape, "scales")
    if value.dtype is not torch.float32:  # what is multiplied by it is rounded to float32, and not to its digits
        with draft.mode:
            wide = torch.empty_like(scale.meta["val"], dtype=torch.float32)
        scale = insert_call(draft.graph, ATEN._to_copy.default, (scale,), wide, node, "wide", {"dtype": torch.float32})
    if isinstance(zero_point, Node):
        zero_point = _shaped(draft, node, zero_point, shape, "zero_points")
    elif zero_point is None:
        with draft.mode:
            like = torch.empty_like(scale.meta["val"], dtype=torch.int64)
        zeros = torch.zeros(tuple(like.shape), dtype=torch.int64, device=like.device)
        zero_point = draft.add_constant(f"c_{node.name}_zero_points", zeros, like, prefix="c_")
    return scale, zero_point


def _shaped(draft: Draft, node: Node, source: Node, shape: list[int], suffix: str) -> Node:
    if list(source.meta["val"].shape) == shape or (-1 in shape and source.meta["val"].dim() == len(shape)):
        return source
    return _derived(draft, node, ATEN.view.default, (source, shape), source.meta["val"], suffix)


def _derived(draft: Draft, node: Node, op: Any, args: tuple[Any, ...], like: torch.Tensor, suffix: str) -> Node:
    with draft.mode:
        value = op(like, *args[1:])
    return insert_call(draft.graph, op, args, value, node, suffix)


def _call(
    draft: Draft,
    node: Node,
    found: Quantizer,
    step: str,
    given: Node,
    scale: Any,
    zero_point: Any,
    out_dtype: torch.dtype | None,
) -> Node:
    forms = {Grain.TENSOR: "tensor", Grain.CHANNEL: "channel", Grain.BLOCK: "channel_group"}
    packet = getattr(decomposed_ops(), f"{step}_per_{forms[found.grain]}")
    overload = packet.tensor if found.grain is Grain.TENSOR and isinstance(scale, Node) else packet.default
    bounds = (int(found.least), int(found.greatest), found.dtype)
    args: tuple[Any, ...] = (
        given,
        scale,
        zero_point,
        *((found.axis,) if found.grain is Grain.CHANNEL else ()),
        *bounds,
    )
    kwargs: dict[str, Any] = {}
    if found.grain is Grain.BLOCK:
        args = (*args, found.block, *((out_dtype,) if out_dtype else ()))
    elif out_dtype is not None and out_dtype is not torch.float32:
        kwargs["out_dtype"] = out_dtype
    like = given.meta["val"]
    with draft.mode:
        value = torch.empty_like(like, dtype=out_dtype or found.dtype)
    return insert_call(draft.graph, overload, args, value, node, step, kwargs)
