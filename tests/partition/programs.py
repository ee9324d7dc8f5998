"""Exported modules, partitioned with limits on ops by name, and run at sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from tests.partition.checks import assert_acyclic, assert_complete, assert_maximal, is_op
from tests.partition.running import plain_run, run
from trtdiag.graph.inputs import placeholders
from trtdiag.graph.limit import Limit
from trtdiag.graph.operators import target_name
from trtdiag.graph.segment import Segment
from trtdiag.graph.values import NodeReader
from trtdiag.options import PartitionOptions
from trtdiag.partition.facts import Partitioned
from trtdiag.partition.partition import partition
from trtdiag.shapes.profile import DimProfile

EVERY_SEGMENT = PartitionOptions(min_segment_ops=0)


def limits_on(module: GraphModule, ops: Collection[str]) -> dict[str, Limit]:
    """A limit for every node that calls one of ``ops`` (``aten.topk``: all overloads)."""
    found = {}
    for node in module.graph.nodes:
        name = target_name(node.target)
        if is_op(node) and any(name == op or name.startswith(op + ".") for op in ops):
            found[node.name] = Limit("no-converter", f"no converter for {name}", f"write it without {name}")
    return found


@dataclass(frozen=True)
class Split:
    """A partition of an exported program."""

    exported: ExportedProgram
    partitioned: Partitioned

    @property
    def module(self) -> GraphModule:
        return self.exported.graph_module

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.partitioned.segments

    def ops(self) -> list[list[str]]:
        """The short names of each segment's ops: ``[["relu", "add"], ["mul"]]``."""
        nodes = {node.name: node for node in self.module.graph.nodes}
        return [[target_name(nodes[name].target).split(".")[1] for name in s.ops] for s in self.segments]

    def reasons(self) -> dict[str, str]:
        return {entry.node: entry.limit.code for entry in self.partitioned.fallback}

    def arguments(self, inputs: Sequence[object]) -> list[Any]:
        """Weights and user inputs in the order of the placeholders; weights are copied, for a program may write."""
        given = iter(inputs)
        held = placeholders(self.exported).values()
        return [next(given) if one.tensor is None else one.tensor.detach().clone() for one in held]

    def assert_runs(self, *inputs: object) -> None:
        """Run step by step, and in the graph's own order: the same ops on the same numbers give the same bits."""
        copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
        got = run(self.partitioned, self.module, self.arguments(inputs))
        wanted = plain_run(self.module, self.arguments(copies))
        for mine, theirs in zip(got, wanted, strict=True):
            assert type(mine) is type(theirs)
            if isinstance(mine, torch.Tensor):
                torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
            else:
                assert mine == theirs


def split(
    module: torch.nn.Module | ExportedProgram,
    inputs: Sequence[object] = (),
    dims: object = None,
    *,
    without: Collection[str] = (),
    options: PartitionOptions = EVERY_SEGMENT,
    symbols: Mapping[str, DimProfile] | None = None,
) -> Split:
    """Export, partition with ``without`` unsupported, and check what holds for every partition."""
    exported = module
    if not isinstance(exported, ExportedProgram):
        exported = export(exported, inputs, dims)
    held = {name for name, one in placeholders(exported).items() if one.held and not one.changed}
    limits = limits_on(exported.graph_module, without)
    found = partition(exported.graph_module, limits, options, symbols=symbols, held=held)
    reader = NodeReader()
    for _ in range(2):  # one that knows nothing yet, and one that knows all
        again = partition(exported.graph_module, limits, options, symbols=symbols, held=held, reader=reader)
        assert (again, again.plan) == (found, found.plan)
    assert_complete(found, exported.graph_module)
    assert_acyclic(found, exported.graph_module)
    assert_maximal(found, exported.graph_module)
    return Split(exported, found)


def export(module: torch.nn.Module, inputs: Sequence[object], dims: object = None) -> ExportedProgram:
    """Export; ``dims`` of a ``Forward`` has an entry for each argument of its function."""
    dims = (dims,) if dims is not None and isinstance(module, Forward) else dims
    return torch.export.export(module.eval(), tuple(inputs), dynamic_shapes=dims)


class Forward(torch.nn.Module):
    """A module that is one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)
