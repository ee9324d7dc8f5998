"""Makes in-place ops functional; changed buffers and inputs become outputs, as in torch's own functional programs."""

from __future__ import annotations

from dataclasses import replace

from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from trtdiag.graph.operators import operator_of, schema_name, writes
from trtdiag.lower.draft import Draft
from trtdiag.lower.functionalise import functionalised_graph
from trtdiag.lower.running_statistics import write_running_statistics

_MUTATION = {InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION}


def in_place(draft: Draft) -> int:
    """Replace in-place ops; what cannot be replaced stays, with a limit."""
    write_running_statistics(draft)
    before = sum(bool(writes(node)) for node in draft.graph.nodes)
    changed, stay = functionalised_graph(draft.graph, random=draft.random_outside)
    for node, why in stay.items():
        draft.limit(node, why)
    kinds = dict(zip(draft.placeholders, draft.input_specs, strict=True))
    outputs = {(spec.kind, spec.target) for spec in draft.output_specs}
    specs: list[OutputSpec] = []
    values: list[Node] = []
    for placeholder, value in changed.items():
        spec = kinds[placeholder]
        if spec.kind is InputKind.CONSTANT_TENSOR:
            # A tensor that is no buffer but changes from call to call, such as a cache, is one in all but name.
            spec = replace(spec, kind=InputKind.BUFFER, persistent=False)
            draft.input_specs[draft.placeholders.index(placeholder)] = spec
        kind = _MUTATION.get(spec.kind)
        if kind is None:
            draft.limit(value, f"it changes {placeholder.name}, and a changed {spec.kind.name.lower()} is no output")
            continue
        target = placeholder.name if spec.kind is InputKind.USER_INPUT else spec.target
        if (kind, target) in outputs:  # what is returned for it is read behind the op in place: a compiled program
            continue
        specs.append(OutputSpec(kind, TensorArgument(value.name), target))
        values.append(value)
    if specs:
        output = draft.output
        output.args = ((*values, *output.args[0]),)  # type: ignore[misc]  # an output's argument is a tuple
        draft.output_specs[:0] = specs
    _note_silent_mutation(draft)
    return before - len(stay)


def _note_silent_mutation(draft: Draft) -> None:
    """An instance norm that tracks statistics changes them although its schema does not say so."""
    for node in draft.graph.nodes:
        op = operator_of(node)
        if op is None or schema_name(op) != "aten::instance_norm":
            continue
        training = node.args[5] if len(node.args) > 5 else node.kwargs.get("training")
        if training and node.args[3] is not None:
            draft.limit(node, "it updates its running statistics in place, which this graph does not show")
