"""Finds the first op whose output differs: each segment runs alone on the right inputs, then its layers one by one.

First as its network says by the reference functions; where they are right, as the engine computes them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from trtdiag.convert.facts import ConvertedSegment, Crossing
from trtdiag.errors import TrtdiagError
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.network import Network, Placed, run
from trtdiag.verification.compare import compare
from trtdiag.verification.engine_search import EngineSearch, Runs, on_cpu
from trtdiag.verification.facts import Culprit, OutputError, Point, Tolerance
from trtdiag.verification.lowered_run import values_of
from trtdiag.verification.ties import Choice, carried, choice_of

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
    values = values_of(lowered, flat_inputs)
    nodes = {node.name: node for node in lowered.graph_module.graph.nodes}
    search = _Search(nodes, values, point, tolerance, build)
    for index, segment in enumerate(converted):
        inputs = [_entering(values[c.node], c) for c in segment.inputs]
        try:
            given = engine(index, inputs)
        except TrtdiagError as error:
            return Culprit(index, None, f"the engine fails: {error.message} ({error.because})", 0.0, point)
        # After the segment's outputs come those that leave for their size alone.
        off = [
            search.compared(c.node, values[c.node], actual.to(c.program_dtype))
            for c, actual in zip(segment.outputs, given, strict=False)
        ]
        search.measured |= {error.output: error.max_abs for error in off}
        if not all(error.passed for error in off):
            found = search.layer(index, on_cpu(segment.network), [tensor.cpu() for tensor in inputs])
            found = found or search.inside(index, segment.network, inputs, off)
            return replace(found, measured=search.measured)
    return None


def _entering(value: Any, crossing: Crossing) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return crossing.entering(value)
    return torch.tensor(value, dtype=crossing.engine_dtype)


@dataclass(frozen=True)
class _Output:
    """What a layer gave, and whether layers of other ops read it, or it leaves the network."""

    placed: Placed
    value: torch.Tensor
    read: bool

    def may_be(self, expected: torch.Tensor) -> bool:
        """Whether it has the shape of an op's output, and is a float where that is."""
        return self.value.shape == expected.shape and (
            self.value.dtype.is_floating_point == expected.dtype.is_floating_point
        )


@dataclass
class _Search:
    """Looks at one point for what differs.

    Attributes:
        nodes: Those of the lowered graph by name.
        values: Theirs.
        point: Named in the answer.
        tolerance: The program's.
        build: Builds engines to look inside one.
        measured: How far off what was compared is, by node: outputs of engines, and ops before one that is off.
    """

    nodes: Mapping[str, Node]
    values: Mapping[str, Any]
    point: Point
    tolerance: Tolerance
    build: Build | None
    measured: dict[str, float] = field(default_factory=dict)

    def of(self, name: str) -> Choice | None:
        """What was chosen where a node holds the places of a choice."""
        node = carried(self.nodes.get(name))
        return None if node is None else choice_of(node, self.values)

    def given(self, name: str) -> list[tuple[str, torch.Tensor]]:
        """The tensors that a node gives and something reads: their name, and their value."""
        value, node = self.values.get(name), self.nodes.get(name)
        if isinstance(value, torch.Tensor):
            return [(name, value)]
        if not isinstance(value, (list, tuple)) or node is None:
            return []
        parts = {user.args[1]: user.name for user in node.users if user.target is operator.getitem}
        return [(parts[i], part) for i, part in enumerate(value) if i in parts and isinstance(part, torch.Tensor)]

    def compared(self, name: str, expected: Any, actual: torch.Tensor) -> OutputError:
        """How a value differs; other places of the same values are no difference."""
        error = compare(name, expected, actual, self.tolerance)
        choice = None if error.passed or error.why else self.of(name)
        tied = choice is not None and choice.alike(actual, self.tolerance)
        return replace(error, passed=True) if tied else error

    def layer(self, index: int, network: Network, inputs: Sequence[torch.Tensor]) -> Culprit | None:
        """The first op one of whose outputs none of its layers gives."""
        made: dict[str, list[_Output]] = {}
        readers: dict[int, set[str]] = {number: {""} for number in (port.tensor for port in network.outputs)}
        for placed in network.layers:
            for number in placed.inputs:
                readers.setdefault(number, set()).add(placed.origin.node)

        def see(placed: Placed, given: tuple[torch.Tensor, ...]) -> None:
            node = placed.origin.node
            for number, output in zip(placed.outputs, given, strict=True):
                made.setdefault(node, []).append(_Output(placed, output, bool(readers.get(number, set()) - {node})))

        run(network, inputs, see)
        within: dict[str, float] = {}  # of the reference functions: says nothing of an engine whose network is right
        for node, outputs in made.items():
            for name, expected in self.given(node):
                # The output is one of the layers' results of that shape, mostly the last, and one that others read
                # where any is; right in any is right.
                same = [each for each in reversed(outputs) if each.may_be(expected)]
                same = [each for each in same if each.read] or same
                errors = [(each.placed, self.compared(name, expected, each.value.to(expected.dtype))) for each in same]
                if not errors:
                    continue
                within[name] = min((error for _, error in errors), key=lambda error: not error.passed).max_abs
                if not any(error.passed for _, error in errors):
                    placed, error = errors[0]
                    self.measured |= within
                    return Culprit(index, outputs[0].placed.origin, placed.layer.kind, error.max_abs, self.point)
        return None

    def inside(
        self, index: int, network: Network, inputs: Sequence[torch.Tensor], off: Sequence[OutputError]
    ) -> Culprit:
        """The layer that an engine computes wrongly whose network is right."""
        worst = max(error.max_abs for error in off)
        if self.build is None:
            return Culprit(index, None, ONLY_THE_ENGINE, worst, self.point)
        found = EngineSearch(network, inputs, off, partial(self.build, index), self.tolerance).run()
        if found.placed is None:
            return Culprit(index, None, ONLY_THE_ENGINE, worst, self.point, note=found.note, ends=found.ends)
        note = f"{ONLY_THE_ENGINE}; {found.note}" if found.note else ONLY_THE_ENGINE
        kind = found.placed.layer.kind
        return Culprit(index, found.placed.origin, kind, found.max_abs, self.point, found.since, note, found.ends)
