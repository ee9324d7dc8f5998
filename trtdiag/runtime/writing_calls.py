"""Calls of engines in files: where an engine writes caches, its call is an op that says so.

A compiled program in memory calls the op that changes nothing, and says in its signature what it leaves caches with:
its own calls write in place (``in_place_execution``).  ``torch.export.load`` runs the ops of a file as they stand, and
with that one it would copy each cache twice.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind
from torch.fx import Graph, Node

from trtdiag.engine.manifest import Manifest
from trtdiag.engine.manifest_text import manifest_from_text
from trtdiag.frontend.rebuilt_program import copied_graph, rebuilt_program
from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.operators import reads_sizes
from trtdiag.runtime.custom_op import EXECUTE_ENGINE, WRITE_CACHES

_MUTATIONS = frozenset({OutputKind.USER_INPUT_MUTATION, OutputKind.BUFFER_MUTATION})


def with_written_caches(exported: ExportedProgram) -> ExportedProgram:
    """The program with calls that write into caches where nobody can tell that from a copy; itself without such."""
    calls = [call for call in _calls(exported.graph, EXECUTE_ENGINE) if _may_write(exported, call)]
    if not calls:
        return exported
    graph, copies = copied_graph(exported.graph)
    for call in calls:
        _write(graph, copies[call])
    return _rebuilt(exported, graph, in_place=True)


def with_given_caches(exported: ExportedProgram) -> ExportedProgram:
    """The opposite: calls that change nothing, and give what caches are left with."""
    calls = _calls(exported.graph, WRITE_CACHES)
    if not calls:
        return exported
    graph, copies = copied_graph(exported.graph)
    for call in calls:
        _give(graph, copies[call])
    return _rebuilt(exported, graph, in_place=bool(written_nodes(graph)))


def _calls(graph: Graph, op: Any) -> list[Node]:
    return list(graph.find_nodes(op="call_function", target=op))


def _may_write(exported: ExportedProgram, call: Node) -> bool:
    """Whether caches may have their new elements as soon as the engine has run.

    All that is read behind the call is what it gives: an input that shares memory with a cache would have changed.
    """
    manifest = manifest_from_text(str(call.args[2]))
    inputs: Any = call.args[0]
    if not manifest.written:
        return False
    kinds = {spec.arg.name: spec.kind for spec in exported.graph_signature.output_specs if hasattr(spec.arg, "name")}
    parts = {node.args[1]: node for node in call.users if node.target is operator.getitem}
    end = exported.graph.output_node()
    results: Any = end.args[0]
    for output, place in manifest.written.items():
        own, part = inputs[place], parts.get(output)
        if part is None or kinds.get(part.name) not in _MUTATIONS or results.count(part) != 1:
            return False
        if any(user is not end and not reads_sizes(user) for user in part.users) or inputs.count(own) != 1:
            return False
        if own.op != "placeholder" or any(user is not call and not reads_sizes(user) for user in own.users):
            return False
    return not _may_share(exported, call, {inputs[place].name for place in manifest.written.values()})


def _may_share(exported: ExportedProgram, call: Node, caches: set[str]) -> bool:
    """Whether an op behind the call reads what a caller may give in the memory of a cache."""
    kinds = {spec.arg.name: spec.kind for spec in exported.graph_signature.input_specs if hasattr(spec.arg, "name")}
    bytes_of = {each.args[1] for each in _calls(exported.graph, EXECUTE_ENGINE)}
    given = any(kinds[name] is InputKind.USER_INPUT for name in caches)
    shared = {InputKind.USER_INPUT, InputKind.BUFFER} if given else {InputKind.USER_INPUT}
    behind = False
    for node in exported.graph.nodes:
        if behind and node.op == "call_function" and not reads_sizes(node):
            for source in node.all_input_nodes:
                if source.op == "placeholder" and source not in bytes_of and kinds[source.name] in shared:
                    return True
        behind |= node is call
    return False


def _write(graph: Graph, call: Node) -> None:
    given, engine, text = call.args
    manifest = manifest_from_text(str(text))
    inputs: Any = given
    places = sorted(manifest.written.values())
    left = _left(manifest)
    with graph.inserting_before(call):
        made = graph.call_function(
            WRITE_CACHES,
            (
                [node for place, node in enumerate(inputs) if place not in places],
                [inputs[at] for at in places],
                engine,
                text,
            ),
        )
    made.meta = dict(call.meta)
    made.meta["val"] = [call.meta["val"][output] for output in left]
    for part in [node for node in call.users if node.target is operator.getitem]:
        output = int(part.args[1])  # type: ignore[arg-type]  # of a getitem
        if output in manifest.written:
            part.replace_all_uses_with(inputs[manifest.written[output]])
            graph.erase_node(part)
        else:
            part.args = (made, left.index(output))
    _takes_its_place(graph, call, made)


def _give(graph: Graph, call: Node) -> None:
    given, caches, engine, text = call.args
    manifest = manifest_from_text(str(text))
    places = sorted(manifest.written.values())
    inputs: Any = list(given)  # type: ignore[arg-type]  # of the op
    for place, cache in zip(places, caches, strict=True):  # type: ignore[arg-type]  # of the op
        inputs.insert(place, cache)
    left = _left(manifest)
    with graph.inserting_before(call):
        made = graph.call_function(EXECUTE_ENGINE, (inputs, engine, text))
        made.meta = dict(call.meta)
        values = dict(zip(left, call.meta["val"], strict=True))
        values |= {output: inputs[place].meta["val"] for output, place in manifest.written.items()}
        made.meta["val"] = [values[output] for output in range(len(manifest.outputs))]
        for output, place in manifest.written.items():
            part = graph.call_function(operator.getitem, (made, output))
            part.meta = {**call.meta, "val": values[output]}
            _returned_instead(graph, inputs[place], part)
    for part in [node for node in call.users if node.target is operator.getitem]:
        part.args = (made, left[int(part.args[1])])  # type: ignore[arg-type]  # of a getitem
    _takes_its_place(graph, call, made)


def _left(manifest: Manifest) -> list[int]:
    """The outputs that no cache is left with."""
    return [output for output in range(len(manifest.outputs)) if output not in manifest.written]


def _returned_instead(graph: Graph, cache: Node, part: Node) -> None:
    """The first of the results that is a cache, which are those that it is left with, is what the engine gives."""
    end = graph.output_node()
    results: Any = list(end.args[0])  # type: ignore[arg-type]  # of a program
    results[results.index(cache)] = part
    end.args = (tuple(results),)


def _takes_its_place(graph: Graph, call: Node, made: Node) -> None:
    name = call.name
    graph.erase_node(call)
    made.name = name


def _rebuilt(exported: ExportedProgram, graph: Graph, *, in_place: bool) -> ExportedProgram:
    results: Any = graph.output_node().args[0]
    signature = exported.graph_signature
    outputs = [
        replace(spec, arg=replace(spec.arg, name=node.name)) if isinstance(node, Node) else spec
        for spec, node in zip(signature.output_specs, results, strict=True)
    ]
    signature = ExportGraphSignature(list(signature.input_specs), outputs)
    return rebuilt_program(exported, exported.graph_module, graph, signature, same_modules=True, in_place=in_place)
