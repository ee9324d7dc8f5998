"""Bytes at the maximum of every range: weights, inputs, and the largest set of tensors alive at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node

from trtdiag.frontend.node_origins import stack_of
from trtdiag.frontend.program import Program
from trtdiag.frontend.sizes_of_data import sizes_of_data
from trtdiag.graph.aliases import alias_roots
from trtdiag.graph.inputs import held_tensors, placeholders, storage_bytes, storage_key
from trtdiag.graph.node_kinds import NodeKind, classify, subgraph_of
from trtdiag.grouping import grouped
from trtdiag.lower.facts import Checked
from trtdiag.shapes.facts import MemoryEstimate, MemoryStep, ShapeFacts
from trtdiag.symbolic import Range, evaluate, free_symbols

# As many nodes as a person reads.
MOST_NODES = 10
IF_ASSUMED = (1024, 4096, 16384)
"""Own choice: greatest values of sizes from data to tell the memory for, as batches, sequences and frames have them."""
MOST_STEPS = 40
"""Own choice: what a picture shows of a course."""


def memory_estimate(
    program: Program, checked: Checked, shapes: ShapeFacts, usual: Mapping[str, int] | None = None
) -> MemoryEstimate:
    """Return what the program holds at the maximum of every range, as PyTorch would hold it in graph order.

    Weights are counted apart from the live set: the two add up.  The caller holds the inputs all along, so they are
    part of every live set.  It is an upper bound, because it adds the maxima of single tensors, which may not be
    reached by the same sizes.

    Args:
        program: The program.
        checked: Its graph.
        shapes: Of its values.
        usual: The size of each symbol that engines are tuned for; the course at these is not known without.
    """

    def at_maximum(name: str) -> int | None:
        return output_bytes(shapes, name)

    def at_usual(name: str) -> int | None:
        return _bytes_at(shapes, name, usual or {})

    weights = {}
    inputs: list[str] = []
    if program.exported is not None:
        weights = {storage_key(tensor): storage_bytes(tensor) for tensor in held_tensors(program.exported)}
        roles = placeholders(program.exported)
        inputs = [name for name, held in roles.items() if held.kind is InputKind.USER_INPUT]
    liveness, usually = _Liveness(at_maximum), _Liveness(at_usual)
    peak, usual_peak = (each.peak(checked.graph_module, "") for each in (liveness, usually))
    input_bytes, usual_input_bytes = (_sum(list(map(each, inputs))) for each in (at_maximum, at_usual))
    live_bytes = _sum([input_bytes, peak.bytes])
    live_at = peak.at if live_bytes is not None else None
    largest = sorted(liveness.allocated.items(), key=lambda item: -item[1])[:MOST_NODES]
    return MemoryEstimate(
        weight_bytes=sum(weights.values()),
        input_bytes=input_bytes,
        live_bytes=live_bytes,
        live_at=live_at,
        live_frame=stack_of(program.origins, live_at).best if live_at else None,
        largest=tuple(largest),
        steps=_steps(
            [node.name for node in checked.graph_module.graph.nodes],
            usually.course_over(usual_input_bytes if usual_peak.bytes is not None else None),
            liveness.course_over(input_bytes if peak.bytes is not None else None),
        ),
        if_assumed=() if live_bytes is not None else tuple(_if_assumed(program, checked, shapes, usual or {}, inputs)),
    )


def _if_assumed(
    program: Program, checked: Checked, shapes: ShapeFacts, usual: Mapping[str, int], inputs: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Yield bytes that are alive where each size from data that has no maximum gets one."""
    endless = {symbol for symbol in sizes_of_data(program) if program.ranges.get(symbol, Range()).max is None}
    for most in IF_ASSUMED if endless else ():
        ends = {symbol: own.max for symbol, own in program.ranges.items() if own.max is not None}
        sizes = {**usual, **ends, **dict.fromkeys(endless, most)}
        live = _Liveness(partial(_bytes_at, shapes, sizes=sizes))
        found = _sum([live.peak(checked.graph_module, "").bytes, *(live.bytes_of(name) for name in inputs)])
        if found is not None:
            yield most, found


def _steps(nodes: Sequence[str], usual: Sequence[int] | None, maximum: Sequence[int] | None) -> tuple[MemoryStep, ...]:
    """The course in stretches of equal length; nothing where it is known at no sizes."""
    leading = maximum or usual
    if not leading:
        return ()
    count = min(MOST_STEPS, len(nodes))
    ends = [len(nodes) * at // count for at in range(count + 1)]
    return tuple(
        MemoryStep(
            nodes[max(range(begin, end), key=leading.__getitem__)],
            max(usual[begin:end]) if usual else None,
            max(maximum[begin:end]) if maximum else None,
        )
        for begin, end in pairwise(ends)
    )


def output_bytes(shapes: ShapeFacts, name: str) -> int | None:
    """Return the bytes of all tensors of a node at the maximum, ``None`` where one has no maximum."""
    sizes = ((tensor.volume.range.max, tensor.element_bytes) for tensor in shapes.tensors.get(name, ()))
    return _sum([None if most is None else most * element_bytes for most, element_bytes in sizes])


def live_bytes(checked: Checked, shapes: ShapeFacts, sizes: Mapping[str, int]) -> int | None:
    """The bytes of all tensors that a program computes and that are alive at once, the most there are.

    Args:
        checked: Its graph.
        shapes: Of its values.
        sizes: Of each symbol; ``None`` is given where one has none that a tensor needs.
    """
    return _Liveness(partial(_bytes_at, shapes, sizes=sizes)).peak(checked.graph_module, "").bytes


def _bytes_at(shapes: ShapeFacts, name: str, sizes: Mapping[str, int]) -> int | None:
    """Return the bytes of all tensors of a node at these sizes, ``None`` where a symbol has none."""
    total = 0
    for tensor in shapes.tensors.get(name, ()):
        if not free_symbols(tensor.volume.expr) <= sizes.keys():
            return None
        total += int(evaluate(tensor.volume.expr, sizes)) * tensor.element_bytes
    return total


def _sum(parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


@dataclass
class _Peak:
    """The largest live set of one graph: its bytes (``None``: no maximum) and the node it is reached at."""

    bytes: int | None = 0
    at: str | None = None


@dataclass
class _Liveness:
    bytes_of: Callable[[str], int | None]
    allocated: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, _Peak] = field(default_factory=dict)
    course: list[int] = field(default_factory=list)

    def course_over(self, held: int | None) -> list[int] | None:
        """Bytes alive at each node of the outer graph, on top of what is held all along."""
        return None if held is None else [held + live for live in self.course]

    def peak(self, owner: GraphModule, prefix: str) -> _Peak:
        """Walk one graph in order; tensors die after the last use of any view of them."""
        bases = alias_roots(owner.graph)
        last_use = _last_uses(owner, bases)
        live: dict[Node, int] = {}
        total, found, bounded = 0, _Peak(0, None), True
        for node in owner.graph.nodes:
            nested = self._nested(owner, node, prefix)
            size = self._own_bytes(node, bases, prefix)
            if size is None or nested.bytes is None:
                bounded = False
                continue
            if size:
                live[node] = size
                total += size
            # The nested graph's results are this node's own outputs: they are not there twice.
            inside = max(0, nested.bytes - size)
            if total + inside > (found.bytes or 0):
                found = _Peak(total + inside, nested.at if inside and nested.at else prefix + node.name)
            if not prefix:
                self.course.append(total + inside)
            for dead in last_use.get(node, ()):
                total -= live.pop(dead, 0)
        return found if bounded else _Peak(None, None)

    def _own_bytes(self, node: Node, bases: Mapping[Node, Node], prefix: str) -> int | None:
        if bases[node] is not node or classify(node) in (NodeKind.PLACEHOLDER, NodeKind.ATTRIBUTE, NodeKind.OUTPUT):
            return 0
        size = self.bytes_of(prefix + node.name)
        if size and classify(node) is not NodeKind.HIGHER_ORDER:
            self.allocated[prefix + node.name] = size
        return size

    def _nested(self, owner: GraphModule, node: Node, prefix: str) -> _Peak:
        """Return the largest peak of the graphs that a higher-order op runs (one branch at a time)."""
        if classify(node) is not NodeKind.HIGHER_ORDER:
            return _Peak()
        largest = _Peak()
        for argument in node.all_input_nodes:
            graph = subgraph_of(owner, argument)
            if graph is None:
                continue
            name = f"{prefix}{argument.target}."
            if name not in self.peaks:
                self.peaks[name] = self.peak(graph, name)
            peak = self.peaks[name]
            if peak.bytes is None:
                return peak
            if peak.bytes > (largest.bytes or 0):
                largest = peak
        return largest


def _last_uses(owner: GraphModule, bases: Mapping[Node, Node]) -> Mapping[Node, list[Node]]:
    """Return, by node, the memory owners that nothing reads after it; an unused one dies where it is made."""
    last: dict[Node, Node] = {}
    for node in owner.graph.nodes:
        last.setdefault(bases[node], node)
        for argument in node.all_input_nodes:
            last[bases[argument]] = node
    return grouped((node, base) for base, node in last.items())
