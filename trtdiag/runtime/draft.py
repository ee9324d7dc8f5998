"""The graph of a compiled program while it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Graph, Node
from torch.fx.node import map_arg

from trtdiag.graph.fake_values import FakeValues
from trtdiag.lower.draft import OF_THE_VALUE

# What describes a node's own value rather than where it comes from.


class CompiledDraft:
    """Writes nodes; each gets a value, a name that no node of the source has, and an origin where one is given.

    Args:
        source: The lowered graph; it stays as it is.
    """

    def __init__(self, source: Graph) -> None:
        self.source = source
        self.graph = Graph()
        self.values = FakeValues(source)
        self._taken = {node.name for node in source.nodes}
        self._made: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Whether the value of a source node is at hand."""
        return name in self._made

    def get(self, name: str) -> Any:
        """What stands for a source node: a node, or a plain number."""
        return self._made[name]

    def set(self, name: str, value: Any) -> None:
        """Let ``value`` stand for a source node; a node takes its name where no other has it."""
        self._made[name] = value

    def copy(self, node: Node, fetch: Callable[[str], Any]) -> Node:
        """A source node as it is, reading what ``fetch`` gives for its operands."""
        args, kwargs = map_arg((node.args, node.kwargs), lambda argument: fetch(argument.name))
        made = self.graph.create_node(node.op, node.target, args, kwargs)
        made.name = node.name
        made.meta = dict(node.meta)
        self._made[node.name] = made
        return made

    def call(
        self,
        target: Any,
        args: tuple[Any, ...],
        value: Any,
        *,
        like: Node,
        name: str,
        stands: bool = False,
        **kwargs: Any,
    ) -> Node:
        """A new call.

        Args:
            target: What it calls.
            args: Its arguments.
            value: Its ``meta["val"]``.
            like: The source node whose source line and module path it has.
            name: How to name it, with a number where the name is taken.
            stands: Whether it stands for the source node of that name, and takes it.
            **kwargs: Its keyword arguments.
        """
        made = self.graph.create_node("call_function", target, args, kwargs)
        made.name = name if stands else self.free_name(name)
        made.meta = {key: kept for key, kept in like.meta.items() if key not in OF_THE_VALUE}
        made.meta["val"] = value
        if stands:
            self._made[name] = made
        return made

    def calls(self, like: Node) -> Callable[..., Any]:
        """What makes the call of a function: a node with the origin of ``like``, or a number of numbers alone."""

        def call(function: Callable[..., Any], *operands: Any) -> Any:
            if not any(isinstance(operand, Node) for operand in operands):
                return function(*operands)
            value = function(*(o.meta["val"] if isinstance(o, Node) else o for o in operands))
            return self.call(function, operands, value, like=like, name=function.__name__)

        return call

    def free_name(self, hint: str) -> str:
        """A name that no node has, of the source or here."""
        name, number = hint, 0
        while name in self._taken:
            number += 1
            name = f"{hint}_{number}"
        self._taken.add(name)
        return name
