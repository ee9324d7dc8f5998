"""What keeps an op out of engines whatever converters there are: the op's own kind, and memory that is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch.fx import Graph, Node
from torch.fx.node import map_arg

from trtdiag.graph.aliases import alias_roots
from trtdiag.graph.limit import Limit
from trtdiag.graph.operators import operator_of, target_name, written_arguments
from trtdiag.graph.walk import NodeKind

NESTED = Limit("nested-graph", "it runs a nested graph, which an engine cannot hold", "")
ASSERTION = Limit("assertion", "it checks a condition and yields nothing", "")
MODE = Limit("mode-switch", "it switches a mode of PyTorch", "")
NO_OPERATOR = Limit("no-operator", "it calls a module or a method, not an operator", "export the program again")
UNUSED = Limit("result-unused", "nothing reads its result", "")
WHOLE_LIST = Limit(
    "whole-list", "a list of tensors crosses here as a whole, and only single tensors enter or leave an engine", ""
)
EFFECT = Limit("effect-only", "nothing reads its result: it is there for its effect", "")
OPAQUE = Limit("neither-tensor-nor-number", "it takes a value that is neither a tensor nor a number", "")
FROM_DATA = Limit(
    "data-dependent",
    "its result has a size, or is a number, that only the data decides",
    "compute it on inputs before the model, or bound the result by padding to a fixed size",
)
WRITES = Limit(
    "mutation", "it writes into its argument, and an engine only returns new tensors", "use the functional op"
)
VIEW_OF_WRITTEN = Limit(
    "view-of-written-memory",
    "it is a view of memory that another op writes, and an engine would return a copy",
    "use the functional op where it is written",
)


def of_kind(node: Node, kind: NodeKind) -> Limit | None:
    """Return why an op of this kind is in no engine, ``None`` where its kind does not decide."""
    if node.op != "call_function":
        return NO_OPERATOR
    if kind is NodeKind.ELEMENT:
        return OPAQUE  # of something that no op of this graph made
    if kind is NodeKind.HIGHER_ORDER:
        return NESTED
    if kind is NodeKind.ASSERT:
        return ASSERTION
    op = operator_of(node)
    if op is None:
        return MODE if kind is NodeKind.NO_OP else None
    return WRITES if written_arguments(op) else None


def written(node: Node) -> Iterator[Node]:
    """Yield the nodes whose memory an op writes."""
    op = operator_of(node)
    if op is None:
        return
    for argument in written_arguments(op):
        value = node.args[argument.position] if argument.position < len(node.args) else node.kwargs.get(argument.name)
        found: list[Node] = []
        map_arg(value, found.append)
        yield from found


class Memory:
    """Which memory of a graph is written, and the order that this forces on ops."""

    def __init__(self, graph: Graph) -> None:
        writers = [(node, tuple(written(node))) for node in graph.nodes if node.op == "call_function"]
        self._writes: dict[Node, tuple[Node, ...]] = {node: memory for node, memory in writers if memory}
        self._roots: Mapping[Node, Node] = alias_roots(graph) if self._writes else {}
        self.written_roots = {self._roots[node] for memory in self._writes.values() for node in memory}
        self._last_writer: dict[Node, int] = {}
        self._readers: dict[Node, list[int]] = {}

    def is_view_of_written(self, node: Node) -> bool:
        """Whether a node's output is in the memory of another node, and something writes there."""
        root = self._roots.get(node)
        return root is not None and root is not node and root in self.written_roots

    def before(self, index: int, node: Node, arguments: Sequence[Node]) -> list[int]:
        """Return the ops that must run before op ``index`` because of writes; call it in graph order.

        A write comes after every earlier read of its memory, and a read after the last write.
        """
        touched = dict.fromkeys(self._roots[a] for a in arguments if self._roots.get(a) in self.written_roots)
        changed = {self._roots[memory] for memory in self._writes.get(node, ())}
        earlier = [self._last_writer[root] for root in touched if root in self._last_writer]
        for root in touched:
            if root in changed:
                earlier += self._readers.pop(root, ())
                self._last_writer[root] = index
            else:
                self._readers.setdefault(root, []).append(index)
        return earlier


def described(node: Node) -> str:
    """Return what a node calls, as one writes it."""
    return target_name(node.target)
