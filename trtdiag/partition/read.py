"""Reads a torch.fx graph into the partitioner's own: one pass, no metadata changed, no guard added."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet

from torch.fx import Graph, Node

from trtdiag.graph.aliases import alias_base
from trtdiag.graph.limit import Limit
from trtdiag.graph.operators import target_name
from trtdiag.graph.values import NodeReader, NumberValue, OtherValue, TensorValue, Value
from trtdiag.graph.walk import NodeKind, classify
from trtdiag.partition.extents import Extents
from trtdiag.partition.nature import (
    CALLED_BY_OP,
    EFFECT,
    FROM_DATA,
    NO_CALL,
    OPAQUE,
    UNUSED,
    VIEW_OF_WRITTEN,
    WHOLE_LIST,
    Called,
    Memory,
    called,
)
from trtdiag.partition.plan import Op, OpGraph, SizeNode, Tensor
from trtdiag.shapes.symbols import is_backed

# Read once: on Python 3.10 a member of an enumeration is looked up slowly.
_OP, _ASSERT = NodeKind.OP, NodeKind.ASSERT


def read_graph(graph: Graph, held: Collection[str], reader: NodeReader | None = None) -> OpGraph:
    """Return the ops of a graph, the tensors between them, and what computes each size.

    Args:
        graph: A graph in topological order.
        held: Placeholders whose value the program brings: weights, buffers that it does not change, constants.
        reader: Reads the metadata of nodes, if it has read them before.

    Cost: linear in nodes and edges.
    """
    return _Reading(graph, held, NodeReader() if reader is None else reader).read()


def _called(node: Node) -> Called:
    op = node.op
    return called(node.target) if op == "call_function" else CALLED_BY_OP.get(op, NO_CALL)


class _Reading:
    def __init__(self, graph: Graph, held: Collection[str], reader: NodeReader) -> None:
        self._all = [(node, _called(node)) for node in graph.nodes]
        self._held = frozenset(held)
        self._values = reader
        self._memory = Memory(graph, (node for node, call in self._all if call.writes))
        self._owner: dict[Node, int] = {}  # op nodes and their getitem nodes
        self._nodes: list[Node] = []  # by op
        self._ops: list[Op] = []
        self._before: list[tuple[int, ...]] = []
        self._elements: dict[int, list[str]] = {}
        self._tensors: dict[Node, int] = {}
        self._tensor_values: list[TensorValue | None] = []
        self._producers: list[int] = []  # by tensor, -1 for inputs of the program
        self._readers: list[list[int]] = []
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
            elif kind is NodeKind.PLACEHOLDER:
                self._placeholder(node)
            elif kind is NodeKind.OUTPUT:
                self._outputs += node.all_input_nodes
                self._mark_whole_lists(node, node.all_input_nodes)
            elif kind is NodeKind.ATTRIBUTE:
                # A buffer that is written is no constant: its value at the time of the call enters.
                if node in self._memory.written_roots:
                    self._yielded(node, next(iter(self._values.read(node)), None), -1)
                else:
                    self._constants.add(node)
            elif kind is NodeKind.SUBGRAPH:
                continue
            elif kind is NodeKind.SHAPE and node.op == "call_function":
                self._computed_size(node)
            elif kind is NodeKind.ELEMENT and node.args[0] in self._owner:
                self._element(node)
            else:
                self._op(node, kind, call)
        return self._finish()

    def _placeholder(self, node: Node) -> None:
        if node.name in self._held and node not in self._memory.written_roots:
            self._constants.add(node)
            return
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
            self._tensor(node, value if isinstance(value, TensorValue) else None, producer)

    def _tensor(self, node: Node, value: TensorValue | None, producer: int) -> None:
        self._tensors[node] = len(self._producers)
        self._tensor_values.append(value)
        self._producers.append(producer)
        self._readers.append([])

    def _op(self, node: Node, kind: NodeKind, call: Called) -> None:
        index = len(self._nodes)
        nature = call.nature
        arguments = node.all_input_nodes
        before: set[int] = set()
        if self._memory.written_roots:
            before.update(self._memory.before(index, node, arguments))
            if nature is None and self._memory.is_view_of_written(node):
                nature = VIEW_OF_WRITTEN
        reads: list[int] = []
        sizes: list[str] = []
        constants: list[str] = []
        for argument in arguments:
            place = self._tensors.get(argument)
            if place is not None:
                reads.append(place)
                self._readers[place].append(index)
                producer = self._producers[place]
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
        work = kind is _OP and not (call.shares and alias_base(node) is not None)
        read = tuple(reads), tuple(sizes), tuple(constants)
        self._ops.append(Op(name, target, (), *read, work, nature, kind is not _ASSERT))
        self._output_of(node, index)

    def _output_of(self, node: Node, index: int) -> None:
        """Enter what an op or a getitem node yields, with the sizes that are born here.

        A number that only the data decides keeps the op out of engines; of a tensor of such a size its converter says.
        """
        found = self._values.node(node)
        values = found.values
        if not found.is_list and len(values) == 1 and type(values[0]) is TensorValue and found.symbols <= self._backed:
            self._tensor(node, values[0], index)  # as nearly all ops
            return
        if found.is_list:
            self._lists.add(node)
        else:
            self._yielded(node, values[0] if values else None, index)
        bears = False
        for value in values:
            if type(value) is NumberValue:
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
        self._output_of(node, index)

    def _mark_whole_lists(self, node: Node, arguments: Sequence[Node]) -> None:
        for argument in arguments:
            if argument in self._lists and node.target is not operator.getitem:
                self._refuse(self._owner[argument], WHOLE_LIST)

    def _refuse(self, index: int, nature: Limit) -> None:
        if self._ops[index].nature is None:
            self._ops[index] = self._ops[index]._replace(nature=nature)

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
        ops, outputs, readers = self._ops, self._outputs, self._readers
        after: list[list[int]] = [[] for _ in ops]
        for index, earlier in enumerate(self._before):
            for other in earlier:
                after[other].append(index)
        for index, elements in self._elements.items():
            ops[index] = ops[index]._replace(elements=tuple(elements))
        output_sizes = tuple([node.name for node in outputs if node.name in self._sizes])
        ends = {self._owner[node] for node in outputs if node in self._owner}
        for name in output_sizes:
            ends |= self._sizes[name].before
        unused = self._without_readers(after, ends)
        if unused:
            readers = [[reader for reader in read_by if reader not in unused] for read_by in readers]
        returned = set(outputs)
        columns = zip(self._tensors, self._producers, self._tensor_values, readers, strict=True)
        return OpGraph(
            ops=ops,
            before=self._before,
            after=list(map(tuple, after)),
            tensors=[Tensor(n.name, producer, value, tuple(by), n in returned) for n, producer, value, by in columns],
            sizes=self._sizes,
            output_sizes=output_sizes,
        )

    def _without_readers(self, after: Sequence[Sequence[int]], ends: AbstractSet[int]) -> AbstractSet[int]:
        """Mark the ops that nothing reads; return those that are not run, for they have no effect either."""
        unused: set[int] = set()
        for index in range(len(after) - 1, -1, -1):
            if index not in ends and unused.issuperset(after[index]) and self._ops[index].nature is None:
                impure = self._nodes[index].is_impure()
                nature = EFFECT if impure else UNUSED
                self._ops[index] = self._ops[index]._replace(nature=nature, computes=False, runs=impure)
                if not impure:
                    unused.add(index)
        return unused
