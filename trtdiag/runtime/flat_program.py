"""A program from flat inputs to its result, without the checks of its calling convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from trtdiag.graph.trees import rebuilt
from trtdiag.runtime.single_engine import SingleEngine


class FlatProgram:
    """Runs a program's graph for inputs that were accepted before.

    A module of torch.export flattens its arguments three times and asks every guard at each call.

    Args:
        module: The program's module; its tensors are shared, and what a call changes is changed in both.
        exported: The program.
    """

    def __init__(self, module: GraphModule, exported: ExportedProgram) -> None:
        graph = Graph()  # a new one takes and gives flat lists
        copies: dict[Node, Node] = {}
        graph.output(graph.graph_copy(module.graph, copies))
        for node in reversed(list(graph.nodes)):
            if node.op == "call_module" and not node.users:  # asks the guards; it computes nothing
                graph.erase_node(node)
        self._run = GraphModule(module, graph).forward
        self._single = SingleEngine.of(module, graph)
        self._spec = exported.call_spec.out_spec
        self._is_leaf = self._spec is not None and self._spec.is_leaf()

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """The result, nested as the program's."""
        outputs = None if self._single is None else self._single(leaves)
        if outputs is None:
            outputs = self._run(*leaves)
        if self._is_leaf:
            return outputs[0]
        return outputs if self._spec is None else rebuilt(list(outputs), self._spec)
