"""Reads a torch.fx graph into the partitioner's own: one pass, no metadata changed, no guard added."""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import replace

from torch.fx import Graph, Node

from trtdiag.graph.aliases import alias_base
from trtdiag.graph.limit import Limit
from trtdiag.graph.values import NumberValue, OtherValue, TensorValue, Value, ValueReader
from trtdiag.graph.walk import NodeKind, classify
from trtdiag.partition.extents import Extents
from trtdiag.partition.nature import (
    EFFECT,
    FROM_DATA,
    OPAQUE,
    UNUSED,
    VIEW_OF_WRITTEN,
    WHOLE_LIST,
    Memory,
    described,
    of_kind,
)
from trtdiag.partition.plan import Op, OpGraph, SizeNode, Tensor
from trtdiag.shapes.symbols import is_backed
from trtdiag.symbolic.tree import free_symbols


def read_graph(graph: Graph, held: Collection[str]) -> OpGraph:
    """Return the ops of a graph, the tensors between them, and what computes each size.

    Args:
        graph: A graph in topological order.
        held: Placeholders whose value the program brings: weights, buffers that it does not change, constants.

    Cost: linear in nodes and edges.
    """
    return _Reading(graph, held).read()


class _Reading:
    def __init__(self, graph: Graph, held: Collection[str]) -> None:
        self._graph = graph
        self._held = held
        self._values = ValueReader()
        self._memory = Memory(graph)
        self._owner: dict[Node, int] = {}  # op nodes and their getitem nodes
        self._nodes: list[Node] = []  # by op
        self._before: list[tuple[int, ...]] = []
        self._arguments: list[tuple[tuple[int, ...], tuple[str, ...], tuple[str, ...]]] = []
        self._natures: list[Limit | None] = []
        self._kinds: list[NodeKind] = []
        self._elements: list[list[str]] = []
        self._tensors: dict[Node, int] = {}
        self._tensor_values: list[TensorValue | None] = []
        self._readers: list[dict[int, None]] = []
        self._constants: set[Node] = set()
        self._lists: set[Node] = set()
        self._opaque: set[Node] = set()
        self._sizes: dict[str, SizeNode] = {}
        self._extents = Extents()
        self._bearers: dict[str, int] = {}  # symbols born from data, by op
        self._born: dict[str, int] = {}  # the tensors and numbers in which they are born, by op

    def read(self) -> OpGraph:
        for node in self._graph.nodes:
            kind = classify(node)
            if kind is NodeKind.OUTPUT:
                self._mark_whole_lists(node)
            elif kind is NodeKind.PLACEHOLDER:
                self._placeholder(node)
            elif kind is NodeKind.ATTRIBUTE:
                # A buffer that is written is no constant: its value at the time of the call enters.
                if node in self._memory.written_roots:
                    self._yielded(node, next(iter(self._values.read(node)), None))
                else:
                    self._constants.add(node)
            elif kind is NodeKind.SUBGRAPH:
                continue
            elif kind is NodeKind.SHAPE and node.op == "call_function":
                self._computed_size(node)
            elif kind is NodeKind.ELEMENT and node.args[0] in self._owner:
                self._element(node)
            else:
                self._op(node, kind)
        return self._finish()

    def _placeholder(self, node: Node) -> None:
        if node.name in self._held and node not in self._memory.written_roots:
            self._constants.add(node)
            return
        values = self._values.read(node)
        value = values[0] if values else None
        self._yielded(node, value)
        self._extents.add(node.name, value)

    def _yielded(self, node: Node, value: Value | None) -> None:
        """Enter a node that yields one value, by what it is; a value without metadata counts as a tensor."""
        if isinstance(value, NumberValue):
            before = frozenset({self._owner[node]} if node in self._owner else ())
            self._sizes[node.name] = SizeNode(node.name, value.expr, True, (), (), before)
        elif isinstance(value, OtherValue) and "Tensor" not in value.type:
            self._opaque.add(node)
        else:
            self._tensor(node, value if isinstance(value, TensorValue) else None)

    def _tensor(self, node: Node, value: TensorValue | None) -> None:
        self._tensors[node] = len(self._tensor_values)
        self._tensor_values.append(value)
        self._readers.append({})

    def _op(self, node: Node, kind: NodeKind) -> None:
        index = len(self._nodes)
        nature = of_kind(node, kind)
        if nature is None and self._memory.is_view_of_written(node):
            nature = VIEW_OF_WRITTEN
        reads, sizes, constants = [], [], []
        before = dict.fromkeys(self._memory.before(index, node, node.all_input_nodes))
        for argument in node.all_input_nodes:
            if argument in self._tensors:
                reads.append(self._tensors[argument])
                self._readers[self._tensors[argument]][index] = None
                if argument in self._owner:
                    before[self._owner[argument]] = None
            elif argument.name in self._sizes:
                sizes.append(argument.name)
                before.update(dict.fromkeys(sorted(self._sizes[argument.name].before)))
            elif argument in self._constants:
                constants.append(argument.name)
            elif argument in self._owner:
                before[self._owner[argument]] = None
                nature = nature or (OPAQUE if argument in self._opaque else WHOLE_LIST)
            elif argument in self._opaque:
                nature = nature or OPAQUE
        self._mark_whole_lists(node)
        self._owner[node] = index
        self._nodes.append(node)
        self._kinds.append(kind)
        self._before.append(tuple(sorted(before)))
        self._arguments.append((tuple(reads), tuple(sizes), tuple(constants)))
        self._natures.append(nature)
        self._elements.append([])
        self._output_of(node, index)

    def _output_of(self, node: Node, index: int) -> None:
        """Enter what an op or a getitem node yields; sizes born here make the op one that data decides."""
        values = self._values.read(node)
        if isinstance(node.meta.get("val"), (list, tuple)):
            self._lists.add(node)
        else:
            self._yielded(node, values[0] if values else None)
        bears = any(isinstance(value, NumberValue) for value in values)
        for symbol in sorted({s for value in values for s in _symbols(value)}):
            if not is_backed(symbol):
                bears |= self._bearers.setdefault(symbol, index) == index
        if bears:
            self._natures[index] = self._natures[index] or FROM_DATA
            if node not in self._lists:
                self._extents.add(node.name, values[0])
                self._born[node.name] = index

    def _element(self, node: Node) -> None:
        source = node.args[0]
        index = self._owner[source]  # type: ignore[index]
        self._owner[node] = index
        self._elements[index].append(node.name)
        self._output_of(node, index)

    def _mark_whole_lists(self, node: Node) -> None:
        for argument in node.all_input_nodes:
            if argument in self._lists and node.target is not operator.getitem:
                owner = self._owner[argument]
                self._natures[owner] = self._natures[owner] or WHOLE_LIST

    def _computed_size(self, node: Node) -> None:
        values = self._values.read(node)
        expr = values[0].expr if values and isinstance(values[0], NumberValue) else None
        operands = tuple(argument.name for argument in node.all_input_nodes)
        sources = None if expr is None else self._extents.solve(expr)
        before: set[int] = set()
        if sources is None or expr is None:
            for argument in node.all_input_nodes:
                if argument in self._owner:
                    before.add(self._owner[argument])
                elif argument.name in self._sizes:
                    before |= self._sizes[argument.name].before
        else:
            before |= {self._born[source.tensor] for source in sources if source.tensor in self._born}
        self._sizes[node.name] = SizeNode(node.name, expr, False, operands, sources, frozenset(before))

    def _finish(self) -> OpGraph:
        outputs = [node for end in self._graph.find_nodes(op="output") for node in end.all_input_nodes]
        after: list[list[int]] = [[] for _ in self._nodes]
        for index, earlier in enumerate(self._before):
            for other in earlier:
                after[other].append(index)
        output_sizes = tuple(node.name for node in outputs if node.name in self._sizes)
        ends = {self._owner[node] for node in outputs if node in self._owner}
        ends |= {index for name in output_sizes for index in self._sizes[name].before}
        ops = [self._made(index) for index in range(len(self._nodes))]
        for index in range(len(ops) - 1, -1, -1):
            op = ops[index]
            if op.nature is None and index not in ends and all(ops[other].nature is UNUSED for other in after[index]):
                impure = self._nodes[index].is_impure()
                ops[index] = replace(op, nature=EFFECT if impure else UNUSED, computes=False, runs=impure)
        returned = set(outputs)
        readers = [tuple(reader for reader in found if ops[reader].runs) for found in self._readers]
        tensors = [
            Tensor(node.name, self._owner.get(node, -1), self._tensor_values[place], readers[place], node in returned)
            for node, place in self._tensors.items()
        ]
        return OpGraph(
            ops=ops,
            before=self._before,
            after=[tuple(later) for later in after],
            tensors=tensors,
            tensor_index={tensor.name: place for place, tensor in enumerate(tensors)},
            sizes=self._sizes,
            output_sizes=output_sizes,
        )

    def _made(self, index: int) -> Op:
        node, kind = self._nodes[index], self._kinds[index]
        reads, sizes, constants = self._arguments[index]
        return Op(
            name=node.name,
            target=described(node),
            elements=tuple(self._elements[index]),
            reads=reads,
            sizes=sizes,
            constants=constants,
            work=kind is NodeKind.OP and alias_base(node) is None,
            nature=self._natures[index],
            computes=kind is not NodeKind.ASSERT,
        )


def _symbols(value: Value) -> frozenset[str]:
    if isinstance(value, TensorValue):
        return frozenset().union(*(free_symbols(dim) for dim in value.dims))
    if isinstance(value, NumberValue) and value.expr is not None:
        return free_symbols(value.expr)
    return frozenset()
