"""Reads a torch.fx graph into the partitioner's own: one pass, no metadata changed, no guard added."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence, Set as AbstractSet
from typing import TypeAlias, Union

from torch.fx import Graph, Node

from trtdiag.graph.aliases import alias_base
from trtdiag.graph.limit import DRAWN, DRAWN_OUTSIDE, FROM_DATA, Limit
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import target_name
from trtdiag.graph.values import NodeReader, NodeValues, NumberValue, OtherValue, TensorValue, Value
from trtdiag.partition.intrinsic_limits import (
    CALLED_BY_OP,
    EFFECT,
    NO_CALL,
    OPAQUE,
    UNUSED,
    VIEW_OF_WRITTEN,
    WHOLE_LIST,
    Called,
    Memory,
    called,
)
from trtdiag.partition.op_graph import Op, OpGraph, SizeNode, Tensor, edges_after
from trtdiag.partition.segment_sizes import Extents
from trtdiag.shapes.symbols import is_backed

# Read once: before Python 3.12 a member of an enumeration is looked up slowly.
_OP, _SHAPE, _ELEMENT, _ASSERT = NodeKind.OP, NodeKind.SHAPE, NodeKind.ELEMENT, NodeKind.ASSERT
_PLACEHOLDER, _OUTPUT = NodeKind.PLACEHOLDER, NodeKind.OUTPUT
_NO_NODES: frozenset[Node] = frozenset()

_Entered: TypeAlias = tuple[int, int, Union[TensorValue, None], list[int]]
"""A tensor as it is read: its place among tensors, the op that makes it (-1 for what enters), value, readers so far."""


def read_graph(graph: Graph, held: Collection[str], reader: NodeReader | None = None) -> OpGraph:
    """Return the ops of a graph, the tensors between them, and what computes each size.

    Args:
        graph: A graph in topological order.
        held: Placeholders whose value the program brings: weights, buffers that it does not change, constants.
        reader: Reads the metadata of nodes, if it has read them before.

    Cost: linear in nodes and edges.
    """
    return _Reading(graph, held, NodeReader() if reader is None else reader).read()


class _Reading:
    def __init__(self, graph: Graph, held: Collection[str], reader: NodeReader) -> None:
        self._all = [
            (node, called(node.target) if node.op == "call_function" else CALLED_BY_OP.get(node.op, NO_CALL))
            for node in graph.nodes
        ]
        self._held = frozenset(held)
        self._values = reader
        writers = [node for node, call in self._all if call.writes]
        self._memory = Memory(graph, writers, reader) if writers else None
        self._written = self._memory.written_roots if self._memory else _NO_NODES
        self._owner: dict[Node, int] = {}  # op nodes and their getitem nodes
        self._nodes: list[Node] = []  # by op
        self._ops: list[Op] = []
        self._before: list[tuple[int, ...]] = []
        self._elements: dict[int, list[str]] = {}
        self._tensors: dict[Node, _Entered] = {}
        self._constants: set[Node] = set()
        self._lists: set[Node] = set()
        self._opaque: set[Node] = set()
        self._sizes: dict[str, SizeNode] = {}
        self._extents = Extents()
        self._bearers: dict[str, int] = {}  # symbols born from data, by op
        self._backed: set[str] = set()  # the other symbols
        self._born: dict[str, int] = {}  # the tensors and numbers in which they are born, by op
        self._outputs: list[Node] = []

    def read(self) -> OpGraph:
        for node, call in self._all:
            kind = call.kind or classify(node)
            if kind is _OP:
                self._op(node, kind, call)
            elif kind is _PLACEHOLDER:
                if node.name in self._held and node not in self._written:
                    self._constants.add(node)
                else:
                    self._entering(node)
            elif kind is _SHAPE and node.op == "call_function":
                self._computed_size(node)
            elif kind is _ELEMENT and node.args[0] in self._owner:
                self._element(node)
            elif kind is _OUTPUT:
                self._outputs += node.all_input_nodes
                self._mark_whole_lists(node, self._outputs)
            elif kind is NodeKind.ATTRIBUTE:
                # A buffer that is written is no constant: its value at the time of the call enters.
                if node in self._written:
                    self._yielded(node, next(iter(self._values.read(node)), None), -1)
                else:
                    self._constants.add(node)
            elif kind is NodeKind.SUBGRAPH:
                continue
            else:
                self._op(node, kind, call)
        return self._finish()

    def _entering(self, node: Node) -> None:
        values = self._values.read(node)
        value = values[0] if values else None
        self._yielded(node, value, -1)
        self._extents.add(node.name, value)

    def _yielded(self, node: Node, value: Value | None, producer: int) -> None:
        """Enter a node that yields one value, by what it is; a value without metadata counts as a tensor.

        Args:
            node: The node.
            value: What it yields.
            producer: The index of the op that makes it, -1 for what enters the program.
        """
        if isinstance(value, NumberValue):
            before = frozenset(() if producer < 0 else (producer,))
            self._sizes[node.name] = SizeNode(node.name, value.expr, True, (), (), before)
        elif isinstance(value, OtherValue) and "Tensor" not in value.type:
            self._opaque.add(node)
        else:
            tensor = value if isinstance(value, TensorValue) else None
            self._tensors[node] = len(self._tensors), producer, tensor, []

    def _op(self, node: Node, kind: NodeKind, call: Called) -> None:
        index = len(self._nodes)
        drawn = node.meta.get(DRAWN, False)
        nature = DRAWN_OUTSIDE if drawn else call.nature
        arguments = node.all_input_nodes
        before: set[int] = set()
        if self._memory is not None:
            before.update(self._memory.before(index, node, arguments))
            if nature is None and self._memory.is_view_of_written(node):
                nature = VIEW_OF_WRITTEN
        reads: list[int] = []
        sizes: list[str] = []
        constants: list[str] = []
        for argument in arguments:
            entered = self._tensors.get(argument)
            if entered is not None:
                place, producer, _, readers = entered
                reads.append(place)
                readers.append(index)
                if producer >= 0:
                    before.add(producer)
            elif argument in self._constants:
                constants.append(argument.name)
            elif argument.name in self._sizes:
                sizes.append(argument.name)
                before |= self._sizes[argument.name].before
            elif argument in self._owner:
                before.add(self._owner[argument])
                nature = nature or (OPAQUE if argument in self._opaque else WHOLE_LIST)
            elif argument in self._opaque:
                nature = nature or OPAQUE
        if self._lists:
            self._mark_whole_lists(node, arguments)
        self._owner[node] = index
        self._nodes.append(node)
        self._before.append(tuple(sorted(before)) if len(before) > 1 else tuple(before))
        name, target = node.name, call.target or target_name(node.target)
        work = kind is _OP and not (call.shares and alias_base(node, self._values) is not None)
        read = tuple(reads), tuple(sizes), tuple(constants)
        self._ops.append(Op(name, target, (), *read, work, nature, kind is not _ASSERT and not drawn))
        found = self._values.node(node)
        values = found.values
        if values and type(values[0]) is TensorValue and not found.is_list and found.symbols <= self._backed:
            self._tensors[node] = len(self._tensors), index, values[0], []  # as nearly all ops
        else:
            self._output_of(node, index, found)

    def _output_of(self, node: Node, index: int, found: NodeValues) -> None:
        """Enter what an op or a getitem node yields, with the sizes that are born here.

        A number that only the data decides keeps the op out of engines, among several outputs where something reads it;
        of a tensor of such a size its converter says.
        """
        values = found.values
        if found.is_list:
            self._lists.add(node)
        else:
            self._yielded(node, values[0] if values else None, index)
        bears = False
        for value in values:
            if type(value) is NumberValue and not found.is_list:
                bears = True
                self._refuse(index, FROM_DATA)
        if not found.symbols <= self._backed:
            for symbol in sorted(found.symbols):
                if is_backed(symbol):
                    self._backed.add(symbol)
                else:
                    bears |= self._bearers.setdefault(symbol, index) == index
        if bears and not found.is_list:
            self._extents.add(node.name, values[0])
            self._born[node.name] = index

    def _element(self, node: Node) -> None:
        source = node.args[0]
        index = self._owner[source]  # type: ignore[index]
        self._owner[node] = index
        self._elements.setdefault(index, []).append(node.name)
        self._output_of(node, index, self._values.node(node))

    def _mark_whole_lists(self, node: Node, arguments: Sequence[Node]) -> None:
        for argument in arguments:
            if argument in self._lists and node.target is not operator.getitem:
                self._refuse(self._owner[argument], WHOLE_LIST)

    def _refuse(self, index: int, nature: Limit) -> None:
        if self._ops[index].nature is None:
            self._ops[index] = self._ops[index]._replace(nature=nature)

    def _computed_size(self, node: Node) -> None:
        values = self._values.read(node)
        number = values[0] if values and isinstance(values[0], NumberValue) else NumberValue("int", None)
        expr = number.expr
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
        real = number.kind == "float"
        self._sizes[node.name] = SizeNode(node.name, expr, False, operands, sources, frozenset(before), real)

    def _finish(self) -> OpGraph:
        ops, outputs = self._ops, self._outputs
        for index, elements in self._elements.items():
            ops[index] = ops[index]._replace(elements=tuple(elements))
        output_sizes = tuple([node.name for node in outputs if node.name in self._sizes])
        ends = {self._owner[node] for node in outputs if node in self._owner}
        for name in output_sizes:
            ends |= self._sizes[name].before
        unused = self._without_readers(ends)
        returned = set(outputs)
        tensors = []
        for node, (_, producer, value, readers) in self._tensors.items():
            read_by = [reader for reader in readers if reader not in unused] if unused else readers
            tensors.append(Tensor(node.name, producer, value, tuple(read_by), node in returned))
        return OpGraph(
            ops=ops,
            before=self._before,
            tensors=tensors,
            sizes=self._sizes,
            output_sizes=output_sizes,
        )

    def _without_readers(self, ends: set[int]) -> AbstractSet[int]:
        """Mark the ops that nothing reads; return those that are not run, for they have no effect either."""
        unused: set[int] = set()
        if len(ends.union(*self._before)) == len(self._before):
            return unused  # every op is read, as in nearly all programs
        after = edges_after(self._before)
        for index in range(len(after) - 1, -1, -1):
            if index not in ends and unused.issuperset(after[index]) and self._ops[index].nature is None:
                impure = self._nodes[index].is_impure()
                nature = EFFECT if impure else UNUSED
                self._ops[index] = self._ops[index]._replace(nature=nature, computes=False, runs=impure)
                if not impure:
                    unused.add(index)
        return unused
