"""Programs that are one engine and nothing else: called without a graph and torch's dispatcher in between."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from trtdiag.engine.backend import Runner
from trtdiag.engine.manifest_text import manifest_from_text
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.op import EXECUTE_ENGINE

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors that are what they seem; those of tracers are others."""


class SingleEngine:
    """Calls the one engine of a program for inputs that were accepted before.

    Args:
        module: Has the engine's bytes.
        call: The call of the engine.
        given: Which of the program's inputs the engine takes, in its order.
        returned: Which of the engine's outputs the program returns, in its order.
    """

    def __init__(self, module: GraphModule, call: Node, given: Sequence[int], returned: Sequence[int]) -> None:
        self._engine: torch.Tensor = operator.attrgetter(str(call.args[1].target))(module)  # type: ignore[union-attr]
        self._manifest = manifest_from_text(str(call.args[2]))
        self._given, self._returned = tuple(given), tuple(returned)
        self._in_order = self._returned == tuple(range(len(self._manifest.outputs)))
        self._runners: dict[torch.device, Runner] = {}

    @classmethod
    def of(cls, module: GraphModule, graph: Graph) -> SingleEngine | None:
        """The engine of a graph; ``None`` where there is more to do, as for outputs whose size the data decides."""
        calls = graph.find_nodes(op="call_function", target=EXECUTE_ENGINE)
        placeholders = list(graph.find_nodes(op="placeholder"))
        (result,) = graph.output_node().args
        if len(calls) != 1 or not isinstance(result, (list, tuple)):
            return None
        inputs: Any = calls[0].args[0]
        parts = {node: node.args[1] for node in calls[0].users if node.target is operator.getitem}
        known = {*placeholders, *calls, *parts, graph.output_node(), calls[0].args[1]}
        if any(node not in known for node in graph.nodes) or not inputs:
            return None
        if any(node not in placeholders for node in inputs) or any(value not in parts for value in result):
            return None
        if manifest_from_text(str(calls[0].args[2])).counts:  # they are checked when they are there
            return None
        given = [placeholders.index(node) for node in inputs]
        return cls(module, calls[0], given, [int(parts[value]) for value in result])

    def __call__(self, leaves: Sequence[Any]) -> list[torch.Tensor] | None:
        """What the program returns; ``None`` where torch must have its say: its tracers have tensors of their own."""
        given = [leaves[index] for index in self._given]
        for tensor in given:
            if type(tensor) not in PLAIN:
                return None
        device = given[0].device
        runner = self._runners.get(device)
        if runner is None:
            runner = self._runners[device] = CACHE.get(self._manifest, self._engine, str(device))
        outputs = runner(given)
        return list(outputs) if self._in_order else [outputs[index] for index in self._returned]
