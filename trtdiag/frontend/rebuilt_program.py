"""An ExportedProgram with another graph, such as a copy; everything else is that of the program it was made from."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from torch._export.verifier import TrainingIRVerifier
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import Graph, GraphModule, Node


def rebuilt_program(
    exported: ExportedProgram,
    root: GraphModule,
    graph: Graph,
    signature: ExportGraphSignature | None = None,
    state: Mapping[str, Any] | None = None,
    constants: Mapping[str, Any] | None = None,
    *,
    example_inputs: Any = None,
    ranges: Mapping[Any, Any] | None = None,
    same_modules: bool = False,
    in_place: bool = False,
    guards: Iterable[str] = (),
) -> ExportedProgram:
    """A program that is called like ``exported`` and accepts what it accepts; ``exported`` stays as it is.

    Args:
        exported: Gives calling convention, ranges, guards, example inputs and verifiers.
        root: Holds the nested graphs that ``graph`` names.
        graph: The graph; it becomes the program's.
        signature: The role of each placeholder and output of ``graph``; this and what follows as in ``exported`` where
            it is not given.
        state: Parameters and persistent buffers by name.
        constants: Other tensors and objects by name.
        example_inputs: Those of the program.
        ranges: Its ``range_constraints``.
        same_modules: Whether the graph has the nodes of ``exported`` under their names.
        in_place: Whether ops of the graph change tensors, which programs that were taken apart into core ops do not.
        guards: Conditions beside those of ``exported``, in torch's words.
    """
    # Modules below the root are no places of another graph; the root's entry holds the calling convention.
    entries = [copy.copy(entry) for entry in exported.module_call_graph if same_modules or entry.fqn == ""]
    made = ExportedProgram(
        root=root,
        graph=graph,
        graph_signature=exported.graph_signature if signature is None else signature,
        state_dict=dict(exported.state_dict if state is None else state),
        range_constraints=dict(exported.range_constraints if ranges is None else ranges),
        module_call_graph=entries,
        example_inputs=exported.example_inputs if example_inputs is None else example_inputs,
        constants=dict(exported.constants if constants is None else constants),
        verifiers=[TrainingIRVerifier] if in_place else exported.verifiers,
    )
    made._guards_code = list(dict.fromkeys([*exported._guards_code, *guards]))
    return made


def copied_graph(source: Graph) -> tuple[Graph, dict[Node, Node]]:
    """A graph with nodes and metadata of its own, and the copy of each node; values are shared."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    returned = graph.graph_copy(source, copies)
    for old, new in copies.items():
        new.name = old.name  # a new graph would rename ``input``, which the signature names
    end: Node = next(iter(reversed(source.nodes)))
    graph.output(returned).meta.update(end.meta)
    return graph, copies
