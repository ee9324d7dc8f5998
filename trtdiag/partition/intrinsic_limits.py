"""What keeps an op out of engines whatever converters there are: the op's own kind, and memory that is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from torch.fx import Graph, Node

from trtdiag.graph.aliases import alias_roots
from trtdiag.graph.limit import Limit
from trtdiag.graph.node_kinds import NodeKind, kind_of_target
from trtdiag.graph.operators import (
    OpOverload,
    shared_argument,
    target_name,
    writes,
    written_arguments,
)
from trtdiag.graph.values import NodeReader

NESTED = Limit("nested-graph", "it runs a nested graph, which an engine cannot hold", "")
ASSERTION = Limit("assertion", "it checks a condition and yields nothing", "")
MODE = Limit("mode-switch", "it switches a mode of PyTorch", "")
NO_OPERATOR = Limit("no-operator", "it calls a module or a method, not an operator", "export the program again")
ENGINE_OP = "trtdiag.execute_engine.default"
COMPILED = Limit("compiled-already", "it is an engine of an earlier compilation, and stays one", "")
UNUSED = Limit("result-unused", "nothing reads its result", "")
WHOLE_LIST = Limit(
    "whole-list", "a list of tensors crosses here as a whole, and only single tensors enter or leave an engine", ""
)
EFFECT = Limit("effect-only", "nothing reads its result: it is there for its effect", "")
OPAQUE = Limit("neither-tensor-nor-number", "it takes a value that is neither a tensor nor a number", "")
WRITES = Limit(
    "mutation", "it writes into its argument, and an engine only returns new tensors", "use the functional op"
)
VIEW_OF_WRITTEN = Limit(
    "view-of-written-memory",
    "it is a view of memory that another op writes, and an engine would return a copy",
    "use the functional op where it is written",
)


@dataclass(frozen=True, slots=True)
class Called:
    """What all calls of one target have in common.

    Attributes:
        target: The target as one writes it.
        kind: What its calls are to the program, ``None`` where each node decides.
        nature: Why no engine can ever hold one of them, as far as the target alone says.
        writes: Whether it writes into an argument.
        shares: Whether its output may be in an argument's memory.
    """

    target: str
    kind: NodeKind | None
    nature: Limit | None
    writes: bool
    shares: bool


@lru_cache(maxsize=4096)
def called(target: Callable[..., object]) -> Called:
    """Return what every call of a target says; read once, for graphs call few targets often."""
    kind = kind_of_target(target)
    op = target if isinstance(target, OpOverload) else None
    writes = op is not None and bool(written_arguments(op))
    shares = op is not None and shared_argument(op) is not None
    nature = WRITES if writes else None
    if kind is NodeKind.ELEMENT:
        nature = OPAQUE  # of something that no op of this graph made
    elif kind is NodeKind.HIGHER_ORDER:
        nature = NESTED
    elif kind is NodeKind.ASSERT:
        nature = ASSERTION
    elif kind is NodeKind.NO_OP and op is None:
        nature = MODE
    elif target_name(target) == ENGINE_OP:
        nature = COMPILED
    return Called(target_name(target), kind, nature, writes, shares)


NO_CALL = Called("", None, NO_OPERATOR, writes=False, shares=False)
"""Of a node that calls no function: a module, a method."""
CALLED_BY_OP = {
    "placeholder": replace(NO_CALL, kind=NodeKind.PLACEHOLDER),
    "output": replace(NO_CALL, kind=NodeKind.OUTPUT),
}
"""Of nodes that are what they are by themselves, by ``node.op``."""


class Memory:
    """Which memory of a graph is written, and the order that this forces on ops.

    Args:
        graph: The graph.
        writers: Its nodes that call what writes.
        reader: Reads their metadata.
    """

    def __init__(self, graph: Graph, writers: Iterable[Node], reader: NodeReader) -> None:
        memories = [(node, tuple(writes(node))) for node in writers]
        self._writes: dict[Node, tuple[Node, ...]] = {node: memory for node, memory in memories if memory}
        self._roots: Mapping[Node, Node] = alias_roots(graph, reader, perhaps=True) if self._writes else {}
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
        roots, written_roots = self._roots, self.written_roots
        touched = {root: None for argument in arguments if (root := roots.get(argument)) in written_roots}
        if not touched:
            return []
        changed = {self._roots[memory] for memory in self._writes.get(node, ())}
        earlier = [self._last_writer[root] for root in touched if root in self._last_writer]
        for root in touched:
            if root in changed:
                earlier += self._readers.pop(root, ())
                self._last_writer[root] = index
            else:
                self._readers.setdefault(root, []).append(index)
        return earlier
