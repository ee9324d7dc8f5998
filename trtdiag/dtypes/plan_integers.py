"""Plans integers for targets that lack them: int32 where the values are proven to fit and nothing wraps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch.fx import Node

from trtdiag.dtypes.call import Scope
from trtdiag.dtypes.census import dtype_of_tensor
from trtdiag.dtypes.intervals import Constants, GraphSpans, graph_spans
from trtdiag.dtypes.plan_facts import Planned
from trtdiag.dtypes.plan_uint8 import is_cast
from trtdiag.dtypes.value_span import INT32_MAX, INT32_MIN, Span, leaves_dtype, to_integers
from trtdiag.graph.inputs import Placeholder
from trtdiag.graph.limit import Limit
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import OpOverload, given_to, operator_of, short_name, value_arguments
from trtdiag.graph.quantizers import is_quantizer
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.shapes.ranges import graph_sizes
from trtdiag.symbolic.ranges import Range
from trtdiag.wording import dtype_text

NARROW = frozenset({torch.int8, torch.uint8, torch.int16, torch.uint16})
"""Integers that int32 holds, but that wrap around earlier."""

# On values with their sign spread over more bits these give the same bits.
_BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "__and__", "__or__", "__xor__"})
_PLACES = frozenset({"searchsorted", "bucketize"})
_WIDE_FIX = "or compile for TensorRT 10 or later, which has int64"


@dataclass
class Integers:
    """The plan for integers that become int32; values are followed only when it is first asked.

    Args:
        lowered: The graph.
        ranges: Of its symbols.
        roles: What its placeholders stand for.
        names: Of symbols, for the text.
        constants: Spans of tensors that were read before.
    """

    lowered: Lowered
    ranges: Mapping[str, Range]
    roles: Mapping[str, Placeholder]
    names: Mapping[str, str]
    constants: Constants

    def narrowed(self, node: Node) -> Planned:
        """Return int32 for an int64 tensor whose values fit, or no dtype."""
        if classify(node) in (NodeKind.OP, NodeKind.HIGHER_ORDER) and isinstance(node.meta.get("val"), (list, tuple)):
            picked = [user for user in node.users if dtype_of_tensor(user) == torch.int64]
            spans = [self._span(user) for user in picked]
        else:
            spans = [self._span(node)]
        span = next((span for span in spans if span is None or not span.fits_int32), None)
        if all(each is not None and each.fits_int32 for each in spans):
            why = spans[0].why if spans and spans[0] is not None else "nothing reads it"
            return Planned(torch.int32, why)
        if span is None:
            return Planned(None, "nothing is known of its values", "int64-range", self._fix(node, None))
        why = span.why if not span.root or span.root in span.why else f"{span.why} (from {span.root})"
        holds = f"{span.as_range()}" if span.attained else f"{span.as_range()} as far as known"
        return Planned(None, f"int32 does not hold its values {holds}: {why}", "int64-range", self._fix(node, span))

    def limit(self, node: Node, narrowed: Collection[torch.dtype]) -> Limit | None:
        """Return why an op on tensors of these dtypes is not the same in int32; their values themselves fit."""
        op = operator_of(node)
        for argument in () if op is None else value_arguments(op):
            given = given_to(node, argument)
            if isinstance(given, int) and not INT32_MIN <= given <= INT32_MAX:
                why = f"its argument {argument.name}={given} does not fit into int32, which its integers become"
                return Limit("int64-range", why, f"use a number that int32 holds, {_WIDE_FIX}")
        computed = None if op is None else _computed_in(node)
        if op is not None and computed in NARROW and computed in narrowed:
            cut = self._cut_number(node, op, computed)
            if cut is not None:
                return cut
        dtype = dtype_of_tensor(node)
        if dtype in NARROW and dtype in narrowed:
            return self._wrapping(node, dtype)
        return None

    def _cut_number(self, node: Node, op: OpOverload, dtype: torch.dtype) -> Limit | None:
        """Return why a number beside tensors of ``dtype`` is another one: PyTorch first casts it to theirs."""
        if is_cast(node):
            return None
        for argument in value_arguments(op):
            given = given_to(node, argument)
            if isinstance(given, Node) and _is_number_beside(given, op, dtype):
                span = self._of_number(given)
            elif isinstance(given, int):
                span = self._scope.span_of(given)
            else:
                continue
            if leaves_dtype(span, dtype):
                told = f"its argument {argument.name} is {span.as_range()}, which {dtype_text(dtype)} does not hold"
                why = f"{told}: PyTorch cuts it off to its {8 * dtype.itemsize} bits, and int32 does not"
                return Limit("integer-width", why, "compute with int32 in the model, or use a number that fits")
        return None

    def _of_number(self, node: Node) -> Span:
        known = self._span(node)
        return self._scope.span(node) if known is None else known

    def _wrapping(self, node: Node, dtype: torch.dtype) -> Limit | None:
        op = operator_of(node)
        if op is not None and is_quantizer(op):
            return None  # it clamps
        name = "" if op is None else short_name(op)
        why = self._spans.wrapping.get(node.name, "")
        if name in _BITWISE and (dtype.is_signed or name != "bitwise_not"):
            why = ""
        source = node.args[0] if node.args else None
        given = dtype_of_tensor(source) if isinstance(source, Node) else None
        if is_cast(node) and isinstance(source, Node) and given is not None and given.is_floating_point:
            before = self._span(source)
            why = "" if before is not None and not leaves_dtype(to_integers(before), dtype) else "a cast from any float"
        if not why:
            return None
        text = f"its result is {dtype_text(dtype)} and may wrap around, which int32 does not do there: {why}"
        return Limit("integer-width", text, "compute with int32 in the model, or clamp the operands to what fits")

    def _fix(self, node: Node, span: Span | None) -> str:
        known = self.roles.get(node.name)
        if node.op == "placeholder" and known is not None and not known.held:
            return f"pass {node.name} as torch.int32 and export again, {_WIDE_FIX}"
        if node.op == "placeholder" or node.op == "get_attr" or (span is not None and span.attained):
            return f"use smaller values in the model (clamp them to int32), {_WIDE_FIX}"
        return f"clamp it to int32 where its values come from, or bound the sizes that it is computed from, {_WIDE_FIX}"

    def _span(self, node: Node) -> Span | None:
        return self._spans.spans.get(node.name)

    @cached_property
    def _scope(self) -> Scope:
        return Scope(graph_sizes(self.lowered.graph_module, self.ranges), self.names, "")

    @cached_property
    def _spans(self) -> GraphSpans:
        return graph_spans(self.lowered.graph_module, self.roles, self._scope.shapes, self.names, self.constants)


def _computed_in(node: Node) -> torch.dtype | None:
    """Return the dtype of what an op yields; of comparisons and of places in a sequence, what they compare in."""
    dtype, op = dtype_of_tensor(node), operator_of(node)
    places = op is not None and short_name(op) in _PLACES
    if dtype != torch.bool and not places:
        return dtype
    values = [source.meta.get("val") for source in node.all_input_nodes]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if not tensors:
        return None
    return tensors[0].dtype if places else torch.result_type(tensors[0], tensors[-1])


def _is_number_beside(node: Node, op: OpOverload, dtype: torch.dtype) -> bool:
    """Return whether an argument is an integer without dims that tensors of another dtype outweigh."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return isinstance(value, torch.SymInt)
    integral = not (value.dtype.is_floating_point or value.dtype.is_complex or value.dtype in (torch.bool, dtype))
    return value.dim() == 0 and integral and torch.Tag.pointwise in op.tags
