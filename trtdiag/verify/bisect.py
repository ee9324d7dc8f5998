"""Finds the first op whose output differs: each segment runs alone on the right inputs, then its layers one by one.

First as its network says by the reference functions; where they are right, as the engine computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import Interpreter, Node

from trtdiag.convert.facts import ConvertedSegment
from trtdiag.errors import TrtdiagError
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.network import Network, Origin, Placed, run
from trtdiag.verify.compare import compare
from trtdiag.verify.engine_search import Runs, on_cpu, search_engine
from trtdiag.verify.facts import Culprit, OutputError, Point, Tolerance

ONLY_THE_ENGINE = "every layer of its network is right: the engine is not"

Engine = Callable[[int, Sequence[torch.Tensor]], Sequence[torch.Tensor]]
"""Runs the engine of a segment."""
Build = Callable[[int, Network], Runs]
"""Builds another network in the place of a segment's, as its engine was built, and gives what runs it."""


def first_difference(
    lowered: Lowered,
    converted: Sequence[ConvertedSegment],
    engine: Engine,
    point: Point,
    flat_inputs: Sequence[Any],
    tolerance: Tolerance,
    *,
    build: Build | None = None,
) -> Culprit | None:
    """The first op in order of execution whose engine gives something else than PyTorch; ``None`` where none does.

    Args:
        lowered: The program in the form that was converted; run by PyTorch, op by op.
        converted: Its segments in order.
        engine: Runs the engine of a segment.
        point: Named in the answer.
        flat_inputs: The user's inputs.
        tolerance: The program's.
        build: Builds engines to look inside one that differs from its own network; without it only that is told.
    """
    values = _Values(lowered).of(flat_inputs)
    for index, segment in enumerate(converted):
        inputs = [_entering(values[c.node], c.engine_dtype) for c in segment.inputs]
        wanted = [values[c.node] for c in segment.outputs]
        try:
            given = engine(index, inputs)
        except TrtdiagError as error:
            return Culprit(index, None, f"the engine fails: {error.message} ({error.because})", 0.0, point)
        # After the segment's outputs come those that leave for their size alone.
        off = [
            compare(c.node, expected, actual.to(c.program_dtype), tolerance)
            for c, expected, actual in zip(segment.outputs, wanted, given, strict=False)
        ]
        if all(error.passed for error in off):
            continue
        network = on_cpu(segment.network)
        there = [tensor.cpu() for tensor in inputs]
        found = _layer(index, network, there, values, point, tolerance)
        return found or _inside(index, segment.network, inputs, off, point, tolerance, build)
    return None


def _inside(
    index: int,
    network: Network,
    inputs: Sequence[torch.Tensor],
    off: Sequence[OutputError],
    point: Point,
    tolerance: Tolerance,
    build: Build | None,
) -> Culprit:
    """The layer that an engine computes wrongly whose network is right."""
    worst = max(error.max_abs for error in off)
    if build is None:
        return Culprit(index, None, ONLY_THE_ENGINE, worst, point)
    found = search_engine(network, inputs, off, partial(build, index), tolerance)
    if found.placed is None:
        return Culprit(index, None, ONLY_THE_ENGINE, worst, point, note=found.note, ends=found.ends)
    note = f"{ONLY_THE_ENGINE}; {found.note}" if found.note else ONLY_THE_ENGINE
    kind = found.placed.layer.kind
    return Culprit(index, found.placed.origin, kind, found.max_abs, point, found.since, note, found.ends)


class _Values(Interpreter):
    """The value of every node."""

    def __init__(self, lowered: Lowered) -> None:
        super().__init__(lowered.graph_module, garbage_collect_values=False)
        self._lowered = lowered
        self._found: dict[str, Any] = {}

    def of(self, flat_inputs: Sequence[Any]) -> Mapping[str, Any]:
        with torch.no_grad():
            self.run(*self._lowered.arguments(list(flat_inputs)))
        return self._found

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        self._found[n.name] = value
        return value


def _entering(value: Any, dtype: torch.dtype) -> torch.Tensor:
    return value.to(dtype) if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype)


def _layer(
    index: int,
    network: Network,
    inputs: Sequence[torch.Tensor],
    values: Mapping[str, Any],
    point: Point,
    tolerance: Tolerance,
) -> Culprit | None:
    """The first op whose last layer with the shape of its output gives something else."""
    made: dict[str, list[tuple[Placed, torch.Tensor]]] = {}
    order: dict[str, Origin] = {}

    def see(placed: Placed, outputs: tuple[torch.Tensor, ...]) -> None:
        node = placed.origin.node
        order.setdefault(node, placed.origin)
        made.setdefault(node, []).extend((placed, output) for output in outputs)

    run(network, inputs, see)
    for node, origin in order.items():
        expected = values.get(node)
        if isinstance(expected, (list, tuple)):
            expected = next((item for item in expected if isinstance(item, torch.Tensor)), None)
        if not isinstance(expected, torch.Tensor):
            continue
        same = [(placed, got) for placed, got in made[node] if got.shape == expected.shape]
        if not same:
            continue
        # The output is one of the layers' results of that shape, mostly the last; right in any is right.
        errors = [
            (placed, compare(node, expected, got.to(expected.dtype), tolerance)) for placed, got in reversed(same)
        ]
        if not any(error.passed for _, error in errors):
            placed, error = errors[0]
            return Culprit(index, origin, placed.layer.kind, error.max_abs, point)
    return None
