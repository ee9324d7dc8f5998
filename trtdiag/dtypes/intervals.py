"""The span of values of every tensor of a program, integers exactly, floats as far as they become integers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node

from trtdiag.dtypes.call import Call, MissingArgumentError, Result, Scope, dtype_of
from trtdiag.dtypes.index_use import IndexUse, IndexUses
from trtdiag.dtypes.interval_ops import RULES
from trtdiag.dtypes.nested_graphs import ALWAYS_RUN, BRANCHES, operands
from trtdiag.dtypes.value_span import Span, confine, join, leaves_dtype, limits, unknown
from trtdiag.frontend.program import Program
from trtdiag.graph.aliases import alias_roots
from trtdiag.graph.inputs import Placeholder, placeholders, storage_key
from trtdiag.graph.node_kinds import NodeKind, attribute_of, classify
from trtdiag.graph.operators import OpOverload, short_name, target_name, writes
from trtdiag.lower.facts import Checked
from trtdiag.shapes.facts import ShapeFacts

# Float weights only matter where they become integers; those are small tables.
_MOST_FLOATS = 65536
# Quantized weights and engines: a byte holds few values, and reading gigabytes of them tells no finding more.
_MOST_BYTES = 1 << 20

Constants = Mapping[Hashable, Span]


def value_spans(program: Program, checked: Checked, shapes: ShapeFacts) -> GraphSpans:
    """Return the span of every node of a program that yields one tensor.

    Sizes enter through ``shapes``, so the spans hold for every size in its ranges.  What is not known is said to be
    not known: an op without a rule yields every value of its dtype.

    Cost: linear in nodes, plus one pass over each integer weight.
    """
    roles = placeholders(program.exported) if program.exported is not None else {}
    return graph_spans(checked.graph_module, roles, shapes, program.words)


@dataclass(frozen=True)
class GraphSpans:
    """Spans by qualified name, and why the integers of a node may have wrapped around or are not computed.

    ``constants`` are the spans of the tensors that were read for it, by their memory and form.
    """

    spans: Mapping[str, Span]
    wrapping: Mapping[str, str]
    constants: Constants


def graph_spans(
    graph_module: GraphModule,
    roles: Mapping[str, Placeholder],
    shapes: ShapeFacts,
    names: Mapping[str, str],
    constants: Constants | None = None,
) -> GraphSpans:
    """Return the same for any graph whose nodes have values, with what may wrap around.

    Args:
        graph_module: The graph.
        roles: What its placeholders stand for, by name.
        shapes: Its sizes.
        names: Of symbols, for the text.
        constants: Of tensors that were read before.
    """
    interpreter = _Interpreter(shapes, names, roles, constants=dict(constants or {}))
    interpreter.run(graph_module, "", {})
    return GraphSpans(interpreter.spans, interpreter.wrapping, interpreter.constants)


@dataclass
class _Interpreter:
    shapes: ShapeFacts
    names: Mapping[str, str]
    roles: Mapping[str, Placeholder]
    spans: dict[str, Span] = field(default_factory=dict)
    wrapping: dict[str, str] = field(default_factory=dict)
    constants: dict[Hashable, Span] = field(default_factory=dict)
    changed: set[Node] = field(default_factory=set)

    def run(self, owner: GraphModule, prefix: str, given: Mapping[Node, Span]) -> list[Result]:
        """Interpret one graph and return what its output node hands out, flat."""
        scope = Scope(self.shapes, self.names, prefix)
        weights = {name: held.weight for name, held in self.roles.items() if held.weight}
        bases = alias_roots(owner.graph, perhaps=True)
        written = {bases[source] for node in owner.graph.nodes for source in _written(node)}
        self.changed.update(node for node in written if node.op == "placeholder")
        # What a use says about a tensor's values then, it does not say about the values before a write.
        uses = {
            node: use
            for node, use in IndexUses(owner, scope, weights, self._held(owner, scope)).narrowest().items()
            if bases[node] not in written
        }
        outputs: list[Result] = []
        for node in owner.graph.nodes:
            if node.op == "output":
                outputs = [scope.spans.get(value, ()) for value in _handed_out(node)]
                continue
            result = self._result(owner, node, scope, given)
            if isinstance(result, Span):
                if result.root == f"{node.name}: {result.why}" or leaves_dtype(result, dtype_of(node)):
                    self.wrapping.setdefault(prefix + node.name, result.why)
                result = _narrowed(confine(result, dtype_of(node)), uses.get(node))
                if isinstance(node.meta.get("val"), torch.Tensor):
                    name = prefix + node.name
                    # A graph that runs more than once holds the values of every run.
                    result = join((self.spans[name], result)) if name in self.spans else result
                    self.spans[name] = result
            scope.spans[node] = result
            for source in _written(node):
                self._spread(prefix, scope, bases, bases[source], _put(node, source, result))
        return outputs

    def _result(self, owner: GraphModule, node: Node, scope: Scope, given: Mapping[Node, Span]) -> Result:
        kind = classify(node)
        if kind is NodeKind.PLACEHOLDER:
            return given[node] if node in given else self._placeholder(node, scope)
        if kind is NodeKind.ATTRIBUTE:
            value = attribute_of(owner, node)
            return self._constant(value, node.name) if isinstance(value, torch.Tensor) else ()
        if kind is NodeKind.ELEMENT:
            return _element(node, scope)
        if kind is NodeKind.HIGHER_ORDER:
            return self._nested(owner, node, scope)
        if kind is NodeKind.SHAPE:
            return scope.span(node)
        if isinstance(node.target, OpOverload):
            return _operator(node, node.target, scope)
        return unknown(dtype_of(node), f"no range rule for {target_name(node.target)}")

    def _placeholder(self, node: Node, scope: Scope) -> Result:
        held = self.roles.get(node.name) if not scope.prefix else None
        if scope.prefix + node.name in self.shapes.scalars:
            return scope.span(node)
        dtype = dtype_of(node)
        if held is not None and held.held and (held.changed or node in self.changed):
            why = f"{held.weight}: a buffer that the program changes, any value"
        elif held is not None and held.tensor is not None:
            return self._constant(held.tensor, held.weight or node.name)
        elif held is not None and held.held:
            why = f"{held.weight}: values not loaded"
        else:
            what = "user input" if held is not None else "argument of a nested graph"
            why = f"{what}, any {str(dtype).removeprefix('torch.')}"
        return unknown(dtype, why, why)

    def _held(self, owner: GraphModule, scope: Scope) -> dict[Node, Span]:
        """Return the spans of the tensors that the program itself brings into a graph."""
        held: dict[Node, Span] = {}
        for node in owner.graph.nodes:
            given = classify(node) in (NodeKind.PLACEHOLDER, NodeKind.ATTRIBUTE)
            if not given and not (node.all_input_nodes and all(source in held for source in node.all_input_nodes)):
                continue
            span = self._result(owner, node, scope, {})
            if isinstance(span, Span) and span.attained and node.users:
                held[node] = scope.spans[node] = span
        return held

    def _constant(self, tensor: torch.Tensor, name: str) -> Span:
        key = (storage_key(tensor), tensor.dtype, tuple(tensor.shape), tensor.storage_offset(), tensor.stride())
        if key not in self.constants:
            self.constants[key] = _read(tensor, name)
        return self.constants[key]

    def _nested(self, owner: GraphModule, node: Node, scope: Scope) -> Result:
        """Run the graphs under a higher-order op; only plain calls and branches hand their results on."""
        runs: list[list[Result]] = []
        for nested in operands(owner, node, scope.prefix):
            given = {inner: scope.span_of(value) for inner, value in nested.bound}
            runs.append(self.run(nested.graph, nested.prefix, given))
        name = target_name(node.target)
        lengths = {len(run) for run in runs}
        value = node.meta.get("val")
        if name not in ALWAYS_RUN | BRANCHES or len(lengths) != 1 or not isinstance(value, (list, tuple)):
            return ()
        columns = [[item for item in column if isinstance(item, Span)] for column in zip(*runs, strict=True)]
        if len(columns) != len(value) or any(len(column) != len(runs) for column in columns):
            return ()
        return tuple(join(span.part() if len(runs) > 1 else span for span in column) for column in columns)

    def _spread(self, prefix: str, scope: Scope, bases: Mapping[Node, Node], written: Node, result: Span) -> None:
        """After a write in place, every view of that memory may hold the old values or the new ones."""
        for node, base in bases.items():
            before = scope.spans.get(node)
            if base is written and isinstance(before, Span):
                after = join((before, result)).part()
                scope.spans[node] = after
                if prefix + node.name in self.spans:
                    self.spans[prefix + node.name] = after


def _operator(node: Node, target: OpOverload, scope: Scope) -> Result:
    rule = RULES.get(short_name(target))
    if rule is not None:
        with suppress(MissingArgumentError):  # the rule is for other overloads of this name
            return rule(Call(node, target, scope))
    dtype = dtype_of(node)
    if dtype == torch.bool:
        return Span(0, 1, "bool")
    why = f"no range rule for {target_name(target)}"
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)):
        return tuple(unknown(item.dtype, why, why) for item in value if isinstance(item, torch.Tensor))
    return unknown(dtype, why, f"{node.name}: {why}")


def _element(node: Node, scope: Scope) -> Result:
    source, index = node.args[0], node.args[1]
    several = scope.spans.get(source) if isinstance(source, Node) else None
    if isinstance(several, tuple) and isinstance(index, int) and -len(several) <= index < len(several):
        return several[index]
    why = f"output of {source.name if isinstance(source, Node) else source}, any value"
    return unknown(dtype_of(node), why, why)


def _narrowed(span: Span, use: IndexUse | None) -> Span:
    """Return what an index use leaves of a span; constants that were read are what they are."""
    if use is None or span.attained or (span.low >= use.low and span.high <= use.high):
        return span
    low, high = max(span.low, use.low), min(span.high, use.high)
    if low > high:
        return span
    return Span(low, high, span.why if span.fits_int32 else use.why)


def _written(node: Node) -> list[Node]:
    """Return the nodes whose memory an op changes in place."""
    return [] if classify(node) is NodeKind.NO_OP else writes(node)


def _put(node: Node, source: Node, result: Result) -> Span:
    """Return what an op has written into one of its arguments: its result into the first, else anything."""
    if isinstance(result, Span) and node.all_input_nodes and node.all_input_nodes[0] is source:
        return result
    why = f"written by {target_name(node.target)}"
    return unknown(dtype_of(source), why, f"{source.name}: {why}")


def _handed_out(output: Node) -> list[Node]:
    """Return what a graph hands out, in order, repeats included; the node itself stands for what is no node."""
    values = output.args[0] if isinstance(output.args[0], (list, tuple)) else (output.args[0],)
    return [value if isinstance(value, Node) else output for value in values]


def _read(tensor: torch.Tensor, name: str) -> Span:
    """Return the least and greatest value of a constant; without reading what has no values (fake, on ``meta``)."""
    dtype = tensor.dtype
    root = f"{name}: values not read"
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor" or dtype.is_complex or tensor.layout != torch.strided:
        return unknown(dtype, root, root)
    if tensor.numel() == 0:
        return Span(0, 0, f"{name} has no elements")
    if dtype.is_floating_point and (tensor.numel() > _MOST_FLOATS or dtype.itemsize == 1):
        return unknown(dtype, f"{name}: float weights not read", root)
    if dtype in (torch.uint8, torch.int8) and tensor.numel() > _MOST_BYTES:
        low, high = limits(dtype)
        return Span(low, high, f"{name}: any {str(dtype).removeprefix('torch.')}, not read")
    with torch.no_grad():
        values = tensor.detach()
        if dtype == torch.bool or dtype in (torch.uint16, torch.uint32):
            values = values.to(torch.int64)
        try:
            low, high = (end.item() for end in torch.aminmax(values))
        except (NotImplementedError, RuntimeError):
            # aminmax has no kernel for this dtype (packed and unsigned 64-bit integers).
            return unknown(dtype, root, root)
    return Span(low, high, f"values read: {low}..{high}", attained=not dtype.is_floating_point)
