"""Computes what depends on weights alone, up to a size; equal computations on shared weights stay one tensor."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

from trtdiag.frontend.bounds_checked_run import trusted_calls_checked
from trtdiag.frontend.move_to_device import is_here
from trtdiag.graph.limit import DRAWN
from trtdiag.graph.operators import target_name, writes
from trtdiag.graph.quantizers import QUANTIZED_DTYPES, is_quantizer, is_quantizer_node, makes_floats
from trtdiag.lower.draft import Draft
from trtdiag.lower.graph_copy import constant_tensors, identity
from trtdiag.lower.recipes import current_tape
from trtdiag.lower.template import frozen

LIMIT_BYTES = 4 * 2**20
"""Of each folded tensor; a larger one is cheaper to compute again than to store beside the weight it comes from."""


def fold_constants(draft: Draft) -> int:
    """Replace calls on weights and constants by their value, entered as new constants of the signature.

    Left alone: what is random, changed by the program, without real values (meta or fake weights), on a device that
    this machine lacks, or larger than LIMIT_BYTES, and bare factory calls such as ``zeros``: they are short as they
    are.
    """
    known, keys = _given(draft)
    seen: dict[Any, Any] = {}
    folded: dict[Node, Any] = {}
    with torch.no_grad(), trusted_calls_checked(draft.graph_module):
        for node in draft.graph.nodes:
            value = _computed(node, known, keys, seen)
            if value is not None:
                known[node], keys[node] = value
                folded[node] = value[0]
    return _enter(draft, folded)


def _given(draft: Draft) -> tuple[dict[Node, Any], dict[Node, Any]]:
    tensors = constant_tensors(draft.input_specs, draft.output_specs, draft.tensors, draft.graph)
    known = {
        node: tensors[node.name]
        for node in draft.placeholders
        if node.name in tensors
        if not isinstance(tensors[node.name], FakeTensor) and _computes(tensors[node.name].device)
    }
    return known, {node: identity(tensor) for node, tensor in known.items()}


def _computed(
    node: Node, known: dict[Node, Any], keys: dict[Node, Any], seen: dict[Any, Any]
) -> tuple[Any, Any] | None:
    """The value of a call on known values with its identity, ``None`` where it must or need not be computed."""
    if node.op != "call_function" or not all(source in known for source in node.all_input_nodes):
        return None
    if not _may_run(node) or node.meta.get(DRAWN):
        return None
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), keys.__getitem__)
    key = (node.target, frozen(args), frozen(kwargs))
    if key not in seen:
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), known.__getitem__)
        try:
            seen[key] = node.target(*args, **kwargs)  # type: ignore[operator]  # a call_function's target is callable
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            return None  # no kernel on this machine: the engine or PyTorch computes it at run time
    return seen[key], key


def _may_run(node: Node) -> bool:
    target = node.target
    if target is operator.getitem:
        return True
    if not isinstance(target, OpOverload) or writes(node):
        return False
    if is_quantizer(target):  # what dequantizes stays beside its op: TensorRT multiplies the few bits
        return target_name(target).startswith(("quantized_decomposed.quantize_", "torchao.quantize_affine_float8_"))
    if target.namespace not in ("aten", "prims") or _widens(node):
        return False
    if torch.Tag.nondeterministic_seeded in target.tags or node.meta.get("unbacked_bindings"):
        return False
    if target._schema.name.startswith("aten::empty"):
        return False
    val = node.meta.get("val")
    outputs = val if isinstance(val, (list, tuple)) else [val]
    return all(isinstance(each, torch.Tensor) and _bytes(each) is not None for each in outputs)


def _widens(node: Node) -> bool:
    """Whether it makes floats of quantized numbers: an engine holds them as they are.

    One that takes other weights later holds floats: what was cast alone can change, and TensorRT's constants of int8
    cannot.
    """
    if current_tape() is not None and not is_quantizer_node(node):
        return False
    source = node.args[0] if node.args else None
    before = source.meta.get("val") if isinstance(source, Node) else None
    return isinstance(before, torch.Tensor) and before.dtype in QUANTIZED_DTYPES and makes_floats(node)


def _bytes(val: torch.Tensor) -> int | None:
    """The size of a value in bytes, ``None`` where it is dynamic, too large or on a device that computes nothing."""
    if not _computes(val.device) or any(not isinstance(size, int) for size in val.shape):
        return None
    size = math.prod(val.shape) * val.dtype.itemsize
    return size if size <= LIMIT_BYTES else None


def _computes(device: torch.device) -> bool:
    return device.type != "meta" and is_here(device)


def _enter(draft: Draft, folded: dict[Node, Any]) -> int:
    entered: dict[int, Node] = {}
    count = 0
    for node, value in folded.items():
        outside = [user for user in node.users if user not in folded]
        if not outside or not node.all_input_nodes or not isinstance(value, torch.Tensor):
            continue
        if id(value) not in entered:
            name = f"c_folded_{len(entered)}"
            entered[id(value)] = draft.add_constant(name, value, node.meta["val"], prefix="c_")
        node.replace_all_uses_with(entered[id(value)], delete_user_cb=lambda user: user not in folded)
        count += 1
    for node in reversed(folded):
        if not node.users:
            draft.graph.erase_node(node)
    return count
