"""A program from flat inputs to its result, without the checks of its calling convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from trtdiag.graph.pytree import rebuilt
from trtdiag.graph.tensor_signature import is_plain
from trtdiag.runtime import execution
from trtdiag.runtime.custom_op import EXECUTE_ENGINE, Outputs, run_again
from trtdiag.runtime.in_place_execution import write_in_place
from trtdiag.runtime.single_engine import SingleEngine


class FlatProgram:
    """Runs a program's graph for inputs that were accepted before.

    A module of torch.export flattens its arguments three times and asks every guard at each call.

    Args:
        module: The program's module; its tensors are shared, and what a call changes is changed in both.
        exported: The program.

    Attributes:
        in_place: How many inputs and buffers its engines write to, in the place of copies into them.
        single: The engine of a program that is nothing else.
        run: From flat inputs to flat results.
        is_leaf: Whether it returns one value that is in nothing.
    """

    def __init__(self, module: GraphModule, exported: ExportedProgram) -> None:
        graph = Graph()  # a new one takes and gives flat lists
        copies: dict[Node, Node] = {}
        graph.output(graph.graph_copy(module.graph, copies))
        places = {node: index for index, node in enumerate(graph.find_nodes(op="placeholder"))}
        self._guards: list[tuple[Any, list[Any]]] = []
        for node in reversed(list(graph.nodes)):
            if node.op == "call_module" and not node.users:  # asks the guards; it computes nothing
                self._guards.insert(0, (module.get_submodule(str(node.target)), [places.get(arg) for arg in node.args]))
                graph.erase_node(node)
        asks = all(place is not None for _, given in self._guards for place in given)
        self.in_place = write_in_place(graph) if asks else 0
        self.single = SingleEngine.of(module, graph)
        for node in graph.find_nodes(op="call_function", target=EXECUTE_ENGINE):
            node.target = execute_here
        self.run = GraphModule(module, graph).forward
        self._spec = exported.call_spec.out_spec
        self.is_leaf = self._spec is not None and self._spec.is_leaf()

    def ask(self, leaves: Sequence[Any]) -> None:
        """Ask the guards.

        Raises:
            AssertionError: One does not hold.
        """
        for guard, places in self._guards:
            guard(*(leaves[place] for place in places))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """The result, nested as the program's."""
        outputs = None if self.single is None else self.single(leaves)
        return self.nested(self.run(*leaves) if outputs is None else outputs)

    def nested(self, outputs: Sequence[Any]) -> Any:
        """Flat results, nested as the program's."""
        if self.is_leaf:
            return outputs[0]
        return outputs if self._spec is None else rebuilt(list(outputs), self._spec)


def execute_here(inputs: Sequence[torch.Tensor], engine: torch.Tensor, text: str) -> Outputs:
    """What the op gives, without torch's dispatcher, which takes longer than all else that a call costs the CPU."""
    outputs = run_again(inputs, engine, text)
    if outputs is None:
        plain = all(map(is_plain, inputs))
        outputs = (execution.execute if plain else EXECUTE_ENGINE)(inputs, engine, text)
    return outputs
