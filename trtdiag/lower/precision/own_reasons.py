"""Why one op stays in float32 by itself: what it computes, its numbers, its constants, the user's list."""

from __future__ import annotations

import math

import torch
from torch.fx import Node

from trtdiag.frontend.node_origins import origin_of
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import given_to, operator_of, target_name, value_arguments
from trtdiag.graph.quantizers import QUANTIZED_DTYPES, is_quantizer
from trtdiag.graph.user_entries import Entries
from trtdiag.lower.precision.constants import Constants
from trtdiag.lower.precision.families import BATCH_NORMS, REDUCTIONS, STAYS
from trtdiag.lower.precision.floats import added_up, argument, float32_inputs, is_op, name_of, tensors
from trtdiag.wording import dtype_text

KEEPS_FLOAT32 = "keeps_float32"
"""The entry of a node's metadata in which lowering says why it stays in float32."""
_KNOWN_NAMESPACES = frozenset({"aten", "prims"})


class OwnReasons:
    """Answers for single ops.

    Args:
        dtype: The half precision.
        constants: Weights and constants.
        entries: The user's ``keep_fp32``.
        written: Nodes whose memory an op changes in place.
    """

    def __init__(self, dtype: torch.dtype, constants: Constants, entries: Entries, written: set[Node]) -> None:
        self.dtype = dtype
        self._kind = dtype_text(dtype)
        self._limits = torch.finfo(dtype)
        self._constants = constants
        self._entries = entries
        self._written = written

    def reason(self, node: Node) -> str | None:
        """Return why an op that takes float32 computes in it, ``None`` where nothing stands against half precision."""
        entry = self.named(node)
        if entry is not None:
            return f"keep_fp32 names {entry}"
        op = operator_of(node)
        if classify(node) is NodeKind.HIGHER_ORDER:
            return "it runs a nested graph"
        known = op is not None and (op.namespace in _KNOWN_NAMESPACES or is_quantizer(op))
        if op is None or not is_op(node) or not known:
            return "whether it takes another dtype is not known"
        if node in self._written or any(source in self._written for source in node.all_input_nodes):
            return "it shares memory with what an op changes in place"
        floats = {value.dtype for source in node.all_input_nodes for value in tensors(source)}
        floats |= {value.dtype for value in tensors(node)}
        allowed = {torch.float32, self.dtype, *(QUANTIZED_DTYPES if is_quantizer(op) else ())}
        others = {each for each in floats if each.is_floating_point or each.is_complex} - allowed
        if others:
            return f"it mixes float32 with {str(next(iter(others))).removeprefix('torch.')}"
        own: str | None = node.meta.get(KEEPS_FLOAT32)
        return own or self._by_name(node) or self._by_numbers(node) or self._by_constants(node)

    def named(self, node: Node) -> str | None:
        """Return the entry of ``keep_fp32`` that names an op."""
        return self._entries.naming(target_name(node.target), origin_of(node).module_path)

    def _by_name(self, node: Node) -> str | None:
        name = name_of(node)
        if name in STAYS:
            return STAYS[name]
        if argument(node, "dtype") == torch.float32:
            return "it asks for float32"
        if name in REDUCTIONS:
            count, longest = added_up(node), int(2 / self._limits.eps)
            if count is None:
                return "a sum over a dynamic number of elements, which may be long"
            if count > longest:
                return f"a sum of {count} elements: beyond {longest} equal ones, a sum in {self._kind} no longer grows"
        if name in ("_to_copy", "to", "convert_element_type"):
            made = tensors(node)[0].dtype
            if not made.is_floating_point:
                return f"it becomes {str(made).removeprefix('torch.')}, where rounding shows"
        return None

    def _by_numbers(self, node: Node) -> str | None:
        for number in numbers_of(node):
            if self.is_too_large(number):
                return f"its number {number} is beyond {self._kind}"
            if self.is_too_small(number):
                return f"its number {number} is next to nothing in {self._kind}"
        return None

    def _by_constants(self, node: Node) -> str | None:
        for source in float32_inputs(node):
            largest = self._constants.too_large(source)
            if largest is not None:
                return f"its constant {source.name} holds {largest:.4g}, which is infinite in {self._kind}"
        return None

    def is_too_large(self, number: float) -> bool:
        """Whether a finite number is infinite in half precision."""
        return math.isfinite(number) and abs(number) > self._limits.max

    def is_too_small(self, number: float) -> bool:
        """Whether a number loses its digits in half precision."""
        return 0 < abs(number) < self._limits.smallest_normal


def numbers_of(node: Node) -> list[float]:
    """Return the floats among the values that an op takes."""
    op = operator_of(node)
    given = [] if op is None else [given_to(node, each) for each in value_arguments(op)]
    return [float(each) for each in given if isinstance(each, (int, float)) and not isinstance(each, bool)]


def is_affine_batch_norm(node: Node, constants: Constants) -> bool:
    """Whether an op is a batch norm with constant statistics and weights: a scale and a shift for each channel."""
    if name_of(node) not in BATCH_NORMS or not node.args or argument(node, "training") is True:
        return False
    given = [each for each in node.args[1:5] if each is not None]
    has_statistics = len(node.args) > 4 and node.args[3] is not None and node.args[4] is not None
    return has_statistics and all(isinstance(each, Node) and constants.value(each) is not None for each in given)
