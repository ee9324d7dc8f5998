"""Where each drawn node runs: in which engine, in PyTorch and why, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.lower.lowered_facts import whole_of
from trtdiag.report.drawing.nodes import DrawnNode, Role
from trtdiag.wording import one_line

_LONGEST_WHY_CHARS = 240


class Side(Enum):
    """Who runs a node."""

    NONE = ""  # what is no op, and every op of a program that was not partitioned
    ENGINE = "engine"
    TORCH = "torch"
    GONE = "gone"  # lowering folded it into a constant, merged it with an equal one, or found nobody to read it


@dataclass(frozen=True)
class Sides:
    """Where nodes run, by position; steps are those of the execution.

    Attributes:
        labels: What each step is called: ``engine 0``, ``PyTorch``.
        in_engine: Whether each step is an engine.
        step: The step that each node is drawn in; ``None`` for inputs, outputs, and what no step reads.
        side: Who runs it.
        words: The same in words, with the reason where it is left to PyTorch.
    """

    labels: tuple[str, ...]
    in_engine: tuple[bool, ...]
    step: tuple[int | None, ...]
    side: tuple[Side, ...]
    words: tuple[str, ...]


def sides(facts: PartitionFacts, nodes: Sequence[DrawnNode]) -> Sides:
    """Where the nodes of a program run.

    A node that lowering split runs where its parts do: it is drawn with PyTorch where PyTorch runs any of them.

    Cost: linear in nodes and edges.
    """
    parts = facts.partitioned
    number = positions(nodes)
    steps: dict[int, dict[int, None]] = {}
    for at, step in enumerate(parts.steps):
        segment = None if step.segment is None else parts.segments[step.segment]
        names = step.torch_nodes if segment is None else (*segment.ops, *segment.elements)
        for name in names:
            position = position_of(name, number)
            if position is not None and nodes[position].role is Role.OP:
                steps.setdefault(position, {})[at] = None
    why = {position_of(f.node, number): f.limit.why for f in reversed(parts.fallback)}
    in_engine = tuple(step.segment is not None for step in parts.steps)
    labels = tuple("PyTorch" if step.segment is None else f"engine {step.segment}" for step in parts.steps)
    drawn_in: list[int | None] = [None] * len(nodes)
    side = [Side.NONE] * len(nodes)
    words = [""] * len(nodes)
    for position, found in steps.items():
        torch_steps = [at for at in found if not in_engine[at]]
        drawn_in[position] = (torch_steps or list(found))[0]
        side[position] = Side.TORCH if torch_steps else Side.ENGINE
        told = ", ".join(dict.fromkeys(labels[at] for at in found))
        reason = why.get(position) if torch_steps else None
        words[position] = f"{told}: {one_line(reason, _LONGEST_WHY_CHARS)}" if reason else told
    _place_by_readers(nodes, drawn_in, steps.keys())
    _place_by_neighbours(nodes, drawn_in)
    for position, node in enumerate(nodes):
        if node.role is Role.OP and position not in steps:
            side[position] = Side.GONE
            words[position] = "nowhere: lowering folded, merged or removed it"
    return Sides(labels, in_engine, tuple(drawn_in), tuple(side), tuple(words))


def _place_by_readers(nodes: Sequence[DrawnNode], drawn_in: list[int | None], run: AbstractSet[int]) -> None:
    """What no step runs stands with the first that reads it; what enters and leaves stands outside of all."""
    for position in range(len(nodes) - 1, -1, -1):  # readers come after what they read
        here = drawn_in[position]
        if here is None:
            continue
        for source in nodes[position].reads:
            free = nodes[source].role in (Role.OP, Role.SHAPE, Role.CHECK)
            known = drawn_in[source]
            if free and source not in run and (known is None or known > here):
                drawn_in[source] = here


def _place_by_neighbours(nodes: Sequence[DrawnNode], drawn_in: list[int | None]) -> None:
    """Ops that nothing reads which runs stand with the op after them, the last ones with the op before.

    Beside the engines they would look like a part of the program that runs nowhere.
    """
    ops = [position for position, node in enumerate(nodes) if node.role is Role.OP]
    for order in (reversed(ops), ops):
        here: int | None = None
        for position in order:
            if drawn_in[position] is None:
                drawn_in[position] = here
            here = drawn_in[position]


def positions(nodes: Sequence[DrawnNode]) -> Mapping[str, int]:
    """The nodes by name."""
    return {node.name: at for at, node in enumerate(nodes)}


def position_of(name: str, number: Mapping[str, int]) -> int | None:
    """The node of the program that a node of the lowered graph comes from."""
    whole = whole_of(name, number)
    return None if whole is None else number[whole]
