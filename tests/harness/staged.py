"""Real modules taken through the stages, and run at real sizes to see what the stages should have said."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Interpreter, Node

from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.graph.inputs import placeholders
from trtdiag.lower.facts import Checked
from trtdiag.shapes.facts import ShapeFacts
from trtdiag.shapes.ranges import shape_facts


@dataclass(frozen=True)
class Staged:
    """A captured program with its sizes; its metadata is torch's own."""

    program: Program
    checked: Checked
    shapes: ShapeFacts

    def size(self, node: str, output: int = 0) -> list[str]:
        """The dims of a node's tensor as text: ``["1..10", "4"]``."""
        return [str(dim.range) for dim in self.shapes.tensors[node][output].dims]


def staged(
    module: torch.nn.Module,
    args: Sequence[object],
    dynamic_shapes: object = None,
    kwargs: Mapping[str, object] | None = None,
) -> Staged:
    program = capture((module.eval(), tuple(args), dict(kwargs or {}), dynamic_shapes))
    assert program.exported is not None, program.failure
    assert program.failure is None, program.failure.message
    checked = Checked(program.exported.graph_module, (), 0, 0, {})
    return Staged(program, checked, shape_facts(program, checked, program.ranges))


def node_named(program: Staged, op: str) -> Node:
    """The only node of the top graph that calls ``op`` (``aten.nonzero``)."""
    found = [n for n in program.checked.graph_module.graph.nodes if n.op == "call_function" and op in str(n.target)]
    assert len(found) == 1, [n.name for n in found]
    return found[0]


class Recorder(Interpreter):
    """Runs a graph and keeps every value."""

    def __init__(self, staged_program: Staged) -> None:
        super().__init__(staged_program.checked.graph_module)
        self.values: dict[str, Any] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        self.values[n.name] = value.clone() if isinstance(value, torch.Tensor) else value
        return value


def values_at(program: Staged, inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Every node's value for these user inputs; weights come from the program."""
    assert program.program.exported is not None
    given = iter(inputs)
    held = placeholders(program.program.exported)
    arguments = [held[n.name].tensor if held[n.name].held else next(given) for n in _placeholders(program)]
    recorder = Recorder(program)
    recorder.run(*arguments)
    return recorder.values


def _placeholders(program: Staged) -> list[Node]:
    return [n for n in program.checked.graph_module.graph.nodes if n.op == "placeholder"]


def corners(*ranges: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """Every combination of sizes."""
    return itertools.product(*ranges)
