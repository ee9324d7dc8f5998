"""The metadata check: after it, every node that can have a value has one, and every doubt is on record."""

from __future__ import annotations

from collections.abc import Mapping

from torch.fx import GraphModule

from trtdiag.frontend.node_origins import origin_of
from trtdiag.frontend.program import OpOrigin, Program
from trtdiag.frontend.read_guards import another_point
from trtdiag.lower.concrete_values import spell
from trtdiag.lower.facts import Checked, MetadataDefect
from trtdiag.lower.graph_copy import graph_of
from trtdiag.lower.lstm_steps import torch_fault
from trtdiag.lower.metadata_recheck import Recheck, Suspect, recheck
from trtdiag.lower.metadata_repair import repaired_copy
from trtdiag.lower.nested_calls import Modes, nested_graphs
from trtdiag.lower.specialization_check import frozen_sizes


def check_metadata(program: Program) -> Checked:
    """Check the recorded value of every node; repair in a copy what is missing or stale.

    The program itself is never changed.  Nodes of nested subgraphs are checked as well; they are reported under
    ``<attribute>.<node>``, and one that needs repair is repaired in the copy of its subgraph.

    Raises:
        InternalError: There is no graph to check.
    """
    exported = graph_of(program, "the metadata check", "check-without-graph")
    numbers = _point(program)
    graph_module = exported.graph_module
    outer = recheck(graph_module, numbers)
    other = another_point(program)
    if other is not None:
        known = {suspect.node for suspect in outer.suspects}
        position = {node: index for index, node in enumerate(graph_module.graph.nodes)}
        outer.suspects.extend(frozen_sizes(graph_module, other, known))
        outer.suspects.sort(key=lambda suspect: position[suspect.node])
    checked, recomputed, unchecked = outer.checked, outer.recomputed, dict(outer.unchecked)
    fresh, defects = _repair(program, graph_module, outer, "")
    for name, child, modes in nested_graphs(graph_module):
        inner = recheck(child, numbers, modes)
        fixed, more = _repair(program, child, inner, f"{name}.", modes)
        checked, recomputed = checked + inner.checked, recomputed + inner.recomputed
        unchecked.update({f"{name}.{node}": why for node, why in inner.unchecked.items()})
        if fixed is not child:
            if fresh is graph_module:
                fresh, _, _ = repaired_copy(graph_module, (), exported)
            fresh.set_submodule(name, fixed)
        defects.extend(more)
    return Checked(fresh, tuple(defects), checked, recomputed, unchecked)


def _point(program: Program) -> Mapping[str, int]:
    """A size for every symbol: the example's; for symbols born from data one inside their range."""
    numbers = dict(program.hints)
    for symbol, allowed in program.ranges.items():
        if symbol not in numbers:
            low = 2 if allowed.min is None or allowed.min < 2 else allowed.min
            numbers[symbol] = low if allowed.max is None else min(low, allowed.max)
    return numbers


def _repair(
    program: Program, graph_module: GraphModule, result: Recheck, prefix: str, modes: Modes | None = None
) -> tuple[GraphModule, list[MetadataDefect]]:
    if not result.suspects or program.exported is None:
        return graph_module, []
    fresh, done, failed = repaired_copy(graph_module, result.suspects, program.exported, modes)
    return fresh, [_defect(suspect, prefix, done, failed) for suspect in result.suspects]


def _defect(suspect: Suspect, prefix: str, done: Mapping[str, str], failed: Mapping[str, str]) -> MetadataDefect:
    node = suspect.node
    origin = origin_of(node) if node.op == "call_function" else OpOrigin("", "")
    value = node.meta.get("val")
    fault = torch_fault(node)
    return MetadataDefect(
        node=prefix + node.name,
        target=str(node.target),
        defect=suspect.defect,
        recorded="" if value is None else spell(value),
        recomputed=done.get(node.name, ""),
        repaired=node.name in done,
        cause=failed.get(node.name) or fault or suspect.reason,
        root=suspect.root,
        origin=origin,
        torch_fault=fault,
    )
