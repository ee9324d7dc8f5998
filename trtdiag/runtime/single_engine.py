"""Programs that are one engine and nothing else: called without a graph and torch's dispatcher in between."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from trtdiag.engine.backend import Prepared, Runner
from trtdiag.engine.manifest_text import manifest_from_text
from trtdiag.graph.operators import ATEN, CAST, int32_pairs, pair_views
from trtdiag.graph.tensor_signature import is_plain
from trtdiag.runtime.custom_op import EXECUTE_ENGINE
from trtdiag.runtime.engine_cache import CACHE

Cast = tuple[int, torch.dtype | None]
"""Which tensor, and the dtype that it is cast to; ``None``: it stays as it is."""
Entering = Callable[[Sequence[Any]], Sequence[torch.Tensor]]
"""Makes what an engine takes of a program's inputs."""


@dataclass(frozen=True)
class Entry:
    """What an engine is given.

    Attributes:
        index: Which of the program's inputs.
        dtype: The dtype that it is cast to; ``None``: it stays as it is.
        as_pairs: Whether it enters as ``int32_pairs``, which are where it is itself.
    """

    index: int
    dtype: torch.dtype | None
    as_pairs: bool = False

    def of(self, leaves: Sequence[Any]) -> torch.Tensor:
        """It, of the program's inputs."""
        tensor: torch.Tensor = leaves[self.index]
        if self.as_pairs:
            return int32_pairs(tensor)
        return tensor if self.dtype is None else tensor.to(self.dtype)


class SingleEngine:
    """Calls the one engine of a program for inputs that were accepted before.

    Args:
        module: Has the engine's bytes.
        call: The call of the engine.
        given: Which of the program's inputs the engine takes, in its order.
        returned: Which of the engine's outputs the program returns, in its order.
    """

    def __init__(self, module: GraphModule, call: Node, given: Sequence[Entry], returned: Sequence[Cast]) -> None:
        self._engine: torch.Tensor = operator.attrgetter(str(call.args[1].target))(module)  # type: ignore[union-attr]
        self._manifest = manifest_from_text(str(call.args[2]))
        self._given, self._returned = tuple(given), tuple(returned)
        self._runners: dict[torch.device, Runner] = {}
        self._casts_results = any(dtype is not None for _, dtype in returned)
        self._casts = self._casts_results or any(entry.dtype is not None for entry in given)
        self._pairs = [entry.index for entry in given if entry.as_pairs]
        # Of each output of the engine the result that it is; only where each is one can the engine write there itself.
        order, every = [index for index, _ in returned], range(len(self._manifest.outputs))
        whole = sorted(order) == list(every) and not any(dtype is not None for _, dtype in returned)
        self._written = [order.index(index) for index in every] if whole else None

    @property
    def records_itself(self) -> bool:
        """Whether the engine keeps CUDA graphs of its own runs; code of AOTInductor is recorded with the program."""
        return self._manifest.backend != "inductor"

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
        casts = {node for node in (*inputs, *result) if isinstance(node, Node) and _cast(node)}
        views = {part for node in inputs if (found := pair_views(node)) for part in found}
        known = {*entering, *parts, *casts, *views, call, call.args[1], graph.output_node()}
        given = [_entry_of(node, entering) for node in inputs]
        returned = [_cast_of(node, parts) for node in result]
        if None in given or None in returned or not given or any(node not in known for node in graph.nodes):
            return None
        if manifest_from_text(str(call.args[2])).counts:  # they are checked when they are there
            return None
        return cls(module, call, [one for one in given if one], [one for one in returned if one])

    def __call__(self, leaves: Sequence[Any]) -> list[torch.Tensor] | None:
        """What the program returns; ``None`` where torch must have its say: its tracers have tensors of their own."""
        given = [leaves[entry.index] for entry in self._given]
        for tensor in given:
            if not is_plain(tensor):
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
        first = leaves[self._given[0].index]
        prepare = getattr(self._runners.get(first.device), "prepared", None)
        if prepare is None:
            return None
        inputs, given = self._entered(leaves), self._as_given(leaves)
        changed = self._casts or self._pairs
        return prepare(inputs, given) if changed else prepare(inputs)  # type: ignore[no-any-return]

    def call_of(
        self, run: Prepared, entering: Entering, leaf: bool, nested: Callable[[Sequence[Any]], Any]
    ) -> Callable[..., Any]:
        """One function from a program's inputs, all by place, to its result, which is ``None`` where ``run``'s is.

        Args:
            run: Of ``prepared`` for inputs like these.
            entering: Of ``entering`` for it.
            leaf: Whether the program returns one tensor that is in nothing.
            nested: Nests flat results as the program does.
        """
        results = self._results
        run = getattr(run, "call", run)  # the same without a method around it
        if entering != self._as_given or self._casts_results or not leaf:

            def call(args: Sequence[Any]) -> Any:
                made = run(entering(args))
                return None if made is None else nested(results(made))

            return call
        places, (place, _) = [entry.index for entry in self._given], self._returned[0]

        def short(args: Sequence[Any]) -> Any:
            made = run(args if all_given and len(args) == len(places) else [args[index] for index in places])
            return None if made is None else made[place]

        all_given = places == list(range(len(places)))
        return short

    def can_write(self, run: Prepared, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether the engine itself can write into memory that is given for the results.

        Args:
            run: Is to write.
            outputs: In the order of the results.
        """
        if self._written is None:
            return False
        return run.takes([outputs[index] for index in self._written])

    def run_into(self, run: Prepared, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> bool:
        """Run into memory that it can write to; whether it has run."""
        places = self._written or ()
        return run(inputs, [outputs[index] for index in places]) is not None

    def entering(self, run: Prepared, leaves: Sequence[Any]) -> Entering:
        """What makes of a program's inputs, which are like these, those that a prepared run takes."""
        cast = [entry for entry in self._given if entry.dtype is not None]
        # Row-major, the pairs are where the tensor is.
        plain = getattr(run, "by_address", False) and all(leaves[index].is_contiguous() for index in self._pairs)
        if not (cast or self._pairs) or (plain and (not cast or getattr(run, "casts", ()))):
            return self._as_given
        if not plain:
            return self._paired if getattr(run, "casts", ()) else self._entered
        return lambda leaves: [leaves[entry.index] if entry.as_pairs else entry.of(leaves) for entry in self._given]

    def _as_given(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        return [leaves[entry.index] for entry in self._given]

    def _paired(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        """Before casts."""
        return [entry.of(leaves) if entry.as_pairs else leaves[entry.index] for entry in self._given]

    def _entered(self, leaves: Sequence[Any]) -> list[torch.Tensor]:
        return [entry.of(leaves) for entry in self._given]

    def _results(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if not self._casts_results:
            return [outputs[index] for index, _ in self._returned]
        return [outputs[index] if dtype is None else outputs[index].to(dtype) for index, dtype in self._returned]


def _cast(node: Node) -> tuple[Any, Any] | None:
    """What a node casts, and to which dtype; ``None`` where it is no cast alone."""
    if node.target is CAST and len(node.args) == 1 and set(node.kwargs) == {"dtype"}:
        return node.args[0], node.kwargs["dtype"]
    if node.target is ATEN.to.dtype and len(node.args) == 2 and not node.kwargs:
        return node.args[0], node.args[1]
    return None


def _entry_of(node: Any, known: Mapping[Node, int]) -> Entry | None:
    """What enters: one of the known, as it is, as a cast or as pairs; ``None`` where it is something else."""
    pairs = pair_views(node)
    if pairs is not None:
        found = known.get(pairs[1].args[0])  # type: ignore[arg-type]  # any argument may be asked
        return None if found is None else Entry(found, None, as_pairs=True)
    cast = _cast_of(node, known)
    return None if cast is None else Entry(*cast)


def _cast_of(node: Any, known: Mapping[Node, int]) -> Cast | None:
    """Which of the known a node is, or a cast of it; ``None`` where it is neither."""
    if not isinstance(node, Node):
        return None
    if node in known:
        return known[node], None
    cast = _cast(node)
    return None if cast is None or cast[0] not in known else (known[cast[0]], cast[1])
