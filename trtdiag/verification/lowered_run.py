"""A lowered program run by PyTorch, op by op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Interpreter, Node

from trtdiag.frontend.bounds_checked_run import trusted_calls_checked
from trtdiag.frontend.node_origins import stack_of
from trtdiag.graph.operators import target_name
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.network.network import Origin


class LoweredRun(Interpreter):
    """Runs a lowered program; ``keep`` every value until it ends, or none longer than it is read."""

    def __init__(self, lowered: Lowered, *, keep: bool = False) -> None:
        super().__init__(lowered.graph_module, garbage_collect_values=not keep)
        self.lowered = lowered

    def of(self, flat_inputs: Sequence[Any]) -> None:
        """Run it with the user's inputs."""
        with torch.no_grad(), trusted_calls_checked(self.lowered.graph_module):
            self.run(*self.lowered.arguments(list(flat_inputs)))


class AllValues(LoweredRun):
    """Keeps the value of every node, by name."""

    def __init__(self, lowered: Lowered) -> None:
        super().__init__(lowered, keep=True)
        self.values: dict[str, Any] = {}

    def run_node(self, n: Node) -> Any:
        """Run one node, and keep its value."""
        value = self.values[n.name] = super().run_node(n)
        return value


def values_of(lowered: Lowered, flat_inputs: Sequence[Any]) -> dict[str, Any]:
    """The value of every node for the user's inputs, by name."""
    run = AllValues(lowered)
    run.of(flat_inputs)
    return run.values


def origin_of(lowered: Lowered, node: Node) -> Origin:
    """The op of a node, with its source line."""
    return Origin(target_name(node.target), node.name, stack_of(lowered.origins, node.name).best)


def user_outputs(lowered: Lowered) -> list[Any]:
    """What the program returns to the user: nodes, and values that are none."""
    own = len(lowered.signature.user_outputs)
    every = list(lowered.graph_module.graph.output_node().args[0])  # type: ignore[arg-type]  # torch makes it a tuple
    return every[len(every) - own :]
