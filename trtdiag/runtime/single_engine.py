"""Programs that are one engine and nothing else: called without a graph and torch's dispatcher in between."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from trtdiag.engine.backend import PLAIN, Prepared, Runner
from trtdiag.engine.manifest_text import manifest_from_text
from trtdiag.graph.operators import CAST
from trtdiag.runtime.custom_op import EXECUTE_ENGINE
from trtdiag.runtime.engine_cache import CACHE

Cast = tuple[int, torch.dtype | None]
"""Which tensor, and the dtype that it is cast to; ``None``: it stays as it is."""


class SingleEngine:
    """Calls the one engine of a program for inputs that were accepted before.

    Args:
        module: Has the engine's bytes.
        call: The call of the engine.
        given: Which of the program's inputs the engine takes, in its order.
        returned: Which of the engine's outputs the program returns, in its order.
    """

    def __init__(self, module: GraphModule, call: Node, given: Sequence[Cast], returned: Sequence[Cast]) -> None:
        self._engine: torch.Tensor = operator.attrgetter(str(call.args[1].target))(module)  # type: ignore[union-attr]
        self._manifest = manifest_from_text(str(call.args[2]))
        self._given, self._returned = tuple(given), tuple(returned)
        self._runners: dict[torch.device, Runner] = {}
        self._casts = any(dtype is not None for _, dtype in (*given, *returned))
        # Where each output of the engine is one result, the engine itself can write into the caller's memory.
        order = [index for index, _ in returned]
        self._places = order if sorted(order) == list(range(len(self._manifest.outputs))) else None

    @classmethod
    def of(cls, module: GraphModule, graph: Graph) -> SingleEngine | None:
        """The engine of a graph; ``None`` where there is more to do, as for outputs whose size the data decides.

        Casts at its edge may stand between: TensorRT 8.6 has no int64.
        """
        calls = graph.find_nodes(op="call_function", target=EXECUTE_ENGINE)
        (result,) = graph.output_node().args
        if len(calls) != 1 or not isinstance(result, (list, tuple)):
            return None
        (call,) = calls
        inputs: Any = call.args[0]
        entering = {node: index for index, node in enumerate(graph.find_nodes(op="placeholder"))}
        parts = {node: int(node.args[1]) for node in call.users if node.target is operator.getitem}
        casts = {node for node in (*inputs, *result) if isinstance(node, Node) and _is_cast(node)}
        known = {*entering, *parts, *casts, call, call.args[1], graph.output_node()}
        given = [_cast_of(node, entering) for node in inputs]
        returned = [_cast_of(node, parts) for node in result]
        if None in given or None in returned or not given or any(node not in known for node in graph.nodes):
            return None
        if manifest_from_text(str(call.args[2])).counts:  # they are checked when they are there
            return None
        return cls(module, call, [one for one in given if one], [one for one in returned if one])

    def __call__(self, leaves: Sequence[Any]) -> list[torch.Tensor] | None:
        """What the program returns; ``None`` where torch must have its say: its tracers have tensors of their own."""
        given = [leaves[index] for index, _ in self._given]
        for tensor in given:
            if type(tensor) not in PLAIN:
                return None
        device = given[0].device
        runner = self._runners.get(device)
        if runner is None:
            runner = self._runners[device] = CACHE.get(self._manifest, self._engine, str(device))
        return self._results(runner(self._entered(leaves)))

    def prepared(self, leaves: Sequence[Any]) -> Prepared | None:
        """What runs the engine again for inputs like these, which it has just run; ``None`` where there is no such way.

        Args:
            leaves: The program's inputs.
        """
        first = leaves[self._given[0][0]]
        prepare = getattr(self._runners.get(first.device), "prepared", None)
        return None if prepare is None else prepare(self._entered(leaves))

    def again(self, run: Prepared, leaves: Sequence[Any], outputs: Sequence[torch.Tensor] | None = None) -> Any:
        """What the program returns, as a list, by a prepared run; ``None`` where it must be called the usual way.

        Args:
            run: Of ``prepared`` for inputs like these.
            leaves: The program's inputs.
            outputs: Where to write, in the order of the results; new memory where not given.
        """
        if outputs is not None:
            if self._places is None or self._casts:
                return None
            written = [outputs[self._places.index(index)] for index in range(len(outputs))]
            return outputs if run.takes(written) and run(self._entered(leaves), written) else None
        made = run(self._entered(leaves))
        return None if made is None else self._results(made)

    def _entered(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        if not self._casts:
            return [leaves[index] for index, _ in self._given]
        return [leaves[index] if dtype is None else leaves[index].to(dtype) for index, dtype in self._given]

    def _results(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if not self._casts:
            return [outputs[index] for index, _ in self._returned]
        return [outputs[index] if dtype is None else outputs[index].to(dtype) for index, dtype in self._returned]


def _is_cast(node: Node) -> bool:
    return node.target is CAST and len(node.args) == 1 and set(node.kwargs) == {"dtype"}


def _cast_of(node: Any, known: Mapping[Node, int]) -> Cast | None:
    """Which of the known a node is, or a cast of it; ``None`` where it is neither."""
    if not isinstance(node, Node):
        return None
    if not _is_cast(node):
        return (known[node], None) if node in known else None
    source: Any = node.args[0]
    dtype: Any = node.kwargs["dtype"]
    return (known[source], dtype) if source in known else None
