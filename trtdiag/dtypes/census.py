"""Every dtype of a program, and the tensors that a target would narrow or has no counterpart for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import replace

import torch
from torch.fx import Node

from trtdiag.dtypes.facts import DtypeFacts, Fit, OddTensor, Role, WideTensor
from trtdiag.dtypes.intervals import value_spans
from trtdiag.dtypes.quantizers import quantized_tensors
from trtdiag.dtypes.value_span import Span
from trtdiag.frontend.node_origins import stack_of
from trtdiag.frontend.program import Program
from trtdiag.graph.inputs import placeholders
from trtdiag.graph.node_kinds import LocatedNode, NodeKind, walk
from trtdiag.graph.operators import target_name
from trtdiag.lower.facts import Checked
from trtdiag.lower.lowered_facts import Lowered, whole_of
from trtdiag.shapes.facts import ShapeFacts
from trtdiag.targets.target import Target
from trtdiag.wording import dtype_text


def dtype_facts(program: Program, checked: Checked, shapes: ShapeFacts, target: Target) -> DtypeFacts:
    """Return the dtypes of every tensor, nested graphs included, as ``target`` sees them.

    A node with several outputs is counted through the nodes that pick them; outputs nobody picks do not count, nor do
    weights nobody reads (a batch norm's ``num_batches_tracked``): they never reach the target.
    """
    roles = _Roles(program, checked)
    found = value_spans(program, checked, shapes)
    counts: Counter[str] = Counter()
    wide: list[WideTensor] = []
    doubles: list[OddTensor] = []
    unsupported: list[OddTensor] = []
    for located in walk(checked.graph_module):
        dtype = dtype_of_tensor(located.node)
        if dtype is None or located.kind is NodeKind.OUTPUT or roles.is_unread(located):
            continue
        name = dtype_text(dtype)
        counts[name] += 1
        if dtype == torch.int64:
            wide.append(_wide(program, located, roles.of(located), found.spans[located.name]))
        elif dtype == torch.float64:
            doubles.append(_odd(program, located, roles.of(located), _is_double))
        if name not in target.dtypes and dtype not in (torch.int64, torch.float64):
            unsupported.append(_odd(program, located, roles.of(located), _like(dtype)))
    return DtypeFacts(
        target=target.version,
        counts=tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        int64=tuple(wide),
        float64=tuple(doubles),
        unsupported=tuple(unsupported),
        native_int64="int64" in target.dtypes,
        constants=found.constants,
        quantized=quantized_tensors(program, checked.graph_module.graph),
    )


def without_pairs(facts: DtypeFacts, checked: Checked, lowered: Lowered) -> DtypeFacts:
    """The facts without the complex tensors that lowering writes as pairs of real ones.

    Args:
        facts: Of the program as it was exported.
        checked: Its graph.
        lowered: What became of it.
    """
    names = {node.name: node for node in checked.graph_module.graph.nodes}
    left = {
        whole_of(node.name, names)
        for node in lowered.graph_module.graph.nodes
        if node.op == "call_function" and any(dtype.is_complex for dtype in _dtypes(node)) and not _is_edge(node)
    }
    kept = {tensor.node for tensor in facts.unsupported if "complex" not in tensor.dtype or tensor.node in left}
    unsupported = tuple(
        replace(tensor, root=tensor.root or _begins(tensor, names, kept))
        for tensor in facts.unsupported
        if tensor.node in kept
    )
    return replace(facts, unsupported=unsupported)


def _is_edge(node: Node) -> bool:
    """Whether it hands what an engine gives or takes on as complex numbers."""
    return target_name(node.target) in ("aten.view_as_complex.default", "aten.resolve_conj.default")


def _begins(tensor: OddTensor, nodes: Mapping[str, Node], kept: Container[str]) -> bool:
    """Whether no input of a complex op is among those that are kept."""
    node = nodes.get(tensor.node)
    return (
        "complex" in tensor.dtype and node is not None and all(each.name not in kept for each in node.all_input_nodes)
    )


def _is_double(dtype: torch.dtype) -> bool:
    return dtype in (torch.float64, torch.complex128)


def _like(dtype: torch.dtype) -> Callable[[torch.dtype], bool]:
    """Return a test for the same dtype; all complex ones count as one."""
    return lambda other: other == dtype or (other.is_complex and dtype.is_complex)


def fit_of(span: Span) -> Fit:
    """Return whether int32 holds a span; overflow is only stated of values that are surely there."""
    if span.fits_int32:
        return Fit.FITS
    return Fit.OVERFLOWS if span.attained else Fit.UNKNOWN


def _wide(program: Program, located: LocatedNode, role: Role, span: Span) -> WideTensor:
    why = span.why
    if not span.fits_int32 and span.root and why not in span.root and span.root not in why:
        why = f"{why} (from {span.root})"
    frame = stack_of(program.origins, located.name).best
    return WideTensor(located.name, role, span.as_range(), fit_of(span), why, frame)


def _odd(program: Program, located: LocatedNode, role: Role, same: Callable[[torch.dtype], bool]) -> OddTensor:
    inherited = any(same(dtype) for source in located.node.all_input_nodes for dtype in _dtypes(source))
    op = located.node.op if located.node.op != "call_function" else target_name(located.node.target)
    name = dtype_text(dtype_of_tensor(located.node) or torch.float64)
    frame = stack_of(program.origins, located.name).best
    called = _names_of_weights(program).get(located.name, "") if role is Role.CONSTANT else ""
    return OddTensor(located.name, role, name, op, not inherited, frame, called)


def _names_of_weights(program: Program) -> Mapping[str, str]:
    """By the name of its node, what the model calls each weight and each constant."""
    if program.exported is None:
        return {}
    signature = program.exported.graph_signature
    return {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }


def dtype_of_tensor(node: Node) -> torch.dtype | None:
    """Return the dtype of the one tensor that a node yields; ``None`` where it yields anything else."""
    value = node.meta.get("val")
    return value.dtype if isinstance(value, torch.Tensor) else None


def _dtypes(node: Node) -> tuple[torch.dtype, ...]:
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(item.dtype for item in values if isinstance(item, torch.Tensor))


class _Roles:
    """What each tensor is to the program; inside nested graphs every tensor is an inner one."""

    def __init__(self, program: Program, checked: Checked) -> None:
        found = placeholders(program.exported) if program.exported is not None else {}
        self._placeholders: Mapping[str, Role] = {
            name: Role.CONSTANT if held.held else Role.INPUT for name, held in found.items()
        }
        outputs = checked.graph_module.graph.find_nodes(op="output")
        self._outputs = {source.name for node in outputs for source in node.all_input_nodes}

    def is_unread(self, located: LocatedNode) -> bool:
        """Whether a node is a weight that no op reads."""
        return not located.node.users and self.of(located) is Role.CONSTANT

    def of(self, located: LocatedNode) -> Role:
        if located.kind is NodeKind.ATTRIBUTE:
            return Role.CONSTANT
        if located.depth:
            return Role.INNER
        if located.kind is NodeKind.PLACEHOLDER:
            return self._placeholders.get(located.name, Role.INPUT)
        return Role.OUTPUT if located.name in self._outputs else Role.INNER
