"""Finds quantizers in graphs, whoever wrote them, and what they do (``Quantizer``)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.operators import OpOverload, named_arguments, operator_of, short_name, target_name
from trtdiag.graph.quantizer import Quantizer
from trtdiag.graph.quantizer_ops import READERS

QUANTIZED_DTYPES = frozenset({torch.int8, torch.float8_e4m3fn})
"""Of weights that engines may hold in as many bits as the program does."""
_aten = torch.ops.aten
PRODUCTS: frozenset[OpOverload] = frozenset(
    {_aten._int_mm.default, _aten._scaled_mm.default, _aten._weight_int8pack_mm.default}  # noqa: SLF001 - their names are public
)
"""Of two matrices of int8 or float8, and of one by weights of int8."""
_CASTS = frozenset({"_to_copy", "to", "type_as", "convert_element_type"})
_FLOATS = frozenset({torch.float32, torch.float16, torch.bfloat16})


def quantizer_of(node: Node, held: Callable[[Node], torch.Tensor | None] = lambda node: None) -> Quantizer | None:
    """Return what a node does as a quantizer, ``None`` where it is none.

    Args:
        node: The node.
        held: Gives the value of a constant; scales and zero points of constants are then in the result.
    """
    op = operator_of(node)
    if op is None or not is_quantizer(op):
        return None
    given = named_arguments(node, op)
    values = {name: _value(argument, held) for name, argument in given.items()}
    source = next(iter(given.values()))
    value = source.meta.get("val") if isinstance(source, Node) else None
    return read_quantizer(op, values, tuple(value.shape) if isinstance(value, torch.Tensor) else ())


def is_quantizer(op: OpOverload) -> bool:
    """Whether an op is of a family that this module reads."""
    return target_name(op).rpartition(".")[0] in READERS


def read_quantizer(op: OpOverload, given: Mapping[str, Any], shape: Sequence[Any] = ()) -> Quantizer | None:
    """Return what a call does as a quantizer, ``None`` where it is none that this module can name.

    Args:
        op: The op.
        given: Its arguments by name.
        shape: Of what it quantizes or dequantizes; blocks are told by it.
    """
    reader = READERS.get(target_name(op).rpartition(".")[0])
    return None if reader is None else reader(given, tuple(shape))


def is_quantizer_node(node: Node) -> bool:
    """Whether a node calls an op of such a family."""
    op = operator_of(node)
    return op is not None and is_quantizer(op)


def rounds_tensors(node: Node) -> bool:
    """Whether a node quantizes; dequantizing alone, as of weights, rounds nothing."""
    return is_quantizer_node(node) and not is_dequantizer(node.target)


def makes_floats(node: Node) -> bool:
    """Whether a node makes floats of quantized numbers: it dequantizes them, multiplies them, or is a cast."""
    op, value = operator_of(node), node.meta.get("val")
    casts = op is not None and short_name(op) in _CASTS and isinstance(value, torch.Tensor) and value.dtype in _FLOATS
    return casts or op in PRODUCTS or is_dequantizer(node.target)


def decomposed_ops() -> Any:
    """Return ``torch.ops.quantized_decomposed``; torch registers it when it is asked for, not when it is imported."""
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    return torch.ops.quantized_decomposed


def is_dequantizer(op: object) -> bool:
    """Whether an op, or that of such a name, reads quantized numbers and gives floats."""
    return target_name(op).partition(".")[2].startswith("dequantize_")


def _value(argument: Any, held: Callable[[Node], torch.Tensor | None]) -> Any:
    if isinstance(argument, (list, tuple)):
        return [_value(each, held) for each in argument]
    if not isinstance(argument, Node):
        return argument
    if isinstance(argument.meta.get("val"), torch.SymInt):
        return argument.meta["val"]
    value = held(argument)
    return argument if value is None else value
