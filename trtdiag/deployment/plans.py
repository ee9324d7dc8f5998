"""The plans of TensorRT in a compiled program, and what of it they are."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from torch.fx import Node

from trtdiag.engine.manifest import Manifest
from trtdiag.engine.tensorrt.engine_bindings import input_name, output_name
from trtdiag.engine.tensorrt.engine_per_gpu import unpacked
from trtdiag.graph.operators import pair_views
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import engine_bytes
from trtdiag.runtime.engine_nodes import EngineNode, engine_nodes
from trtdiag.shapes.profile import DimProfile
from trtdiag.wording import amount, listed

BACKENDS = ("tensorrt", "tensorrt-rtx")
"""Whose engines are plans; those of the reference backend are networks."""


@dataclass(frozen=True)
class Plan:
    """The bytes of one plan, and the GPU generation that they are for, where there are several (``sm89``)."""

    content: bytes | memoryview
    gpu: str | None


def plans_of(call: EngineNode) -> tuple[Plan, ...]:
    """The plans of an engine: one, or one for each GPU generation.

    Raises:
        ArtifactError: ``engine-damaged``.
    """
    content = engine_bytes(call.engine)
    several = unpacked(content)
    if several is None:
        return (Plan(content, None),)
    return tuple(Plan(each, gpu) for gpu, each in several.items())


def profiles_of(manifest: Manifest) -> tuple[tuple[tuple[DimProfile, ...], ...], ...]:
    """The optimization profiles of an engine, each with the sizes of all inputs in their order."""
    if manifest.profiles:
        return tuple(own.sizes for own in manifest.profiles)
    return (tuple(port.profile for port in manifest.inputs),)


def bindings(manifest: Manifest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What TensorRT calls the inputs and outputs of an engine, in their order."""
    inputs = tuple(input_name(index, port.name) for index, port in enumerate(manifest.inputs))
    return inputs, tuple(output_name(index, port.name) for index, port in enumerate(manifest.outputs))


def in_profile(manifest: Manifest, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether some profile has inputs of these sizes, which are in the order of the manifest."""
    return any(
        all(
            dim.min <= size and (dim.max is None or size <= dim.max)
            for own, shape in zip(profile, shapes, strict=True)
            for dim, size in zip(own, shape, strict=True)
        )
        for profile in profiles_of(manifest)
    )


@dataclass(frozen=True)
class WholeProgram:
    """A program that is one engine and nothing else.

    Attributes:
        call: The call of the engine.
        inputs: Of each input of the engine the program's node that it is.
        outputs: Of each node that the program returns which output of the engine it is.
    """

    call: EngineNode
    inputs: tuple[str, ...]
    outputs: Mapping[str, int]


def whole_program(compiled: CompiledProgram) -> WholeProgram | str:
    """The one engine that a program is; else what there is beside it, in words."""
    exported = compiled.exported_program
    calls = engine_nodes(exported)
    if len(calls) != 1:
        return f"it has {amount(len(calls), 'engine')}"
    (call,) = calls
    given: Sequence[object] = call.node.args[0]  # type: ignore[assignment]
    parts = {node: int(node.args[1]) for node in call.node.users if node.target is operator.getitem}  # type: ignore[arg-type]
    pairs = {views: views[1].args[0] for node in given if (views := pair_views(node)) is not None}
    known = {
        *parts,
        *chain(*pairs),
        call.node,
        *exported.graph.find_nodes(op="placeholder"),
        exported.graph.output_node(),
    }
    for node in exported.graph.nodes:
        if node not in known:
            return f"{getattr(node.target, '__name__', node.target)} ({node.name}) runs beside its engine"
    if pairs:
        names = listed(sorted({str(tensor) for tensor in pairs.values()}))
        return f"int64 enters its engine as pairs of int32 ({names}): the same memory, with one more dim, of size 2"
    users = set(exported.graph_signature.user_inputs)
    inputs = tuple(node.name for node in given if isinstance(node, Node) and node.name in users)
    if len(inputs) != len(given) or len(set(inputs)) != len(inputs):
        return "its engine reads something else than the inputs of a call"
    if len(users) != len(inputs):
        return "its engine does not read all inputs of a call"
    signature = exported.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate or call.manifest.written:
        return "a call changes what it is given or keeps"
    if call.manifest.counts:
        return "the data decide sizes of its results"
    edge = [port.dims for port in call.manifest.inputs] + [port.dims for port in call.manifest.outputs]
    if not all(edge):
        return "a tensor of its engine has no dims"
    returned = [name for name in signature.user_outputs if isinstance(name, str)]
    outputs = {node.name: index for node, index in parts.items()}
    if not all(name in outputs for name in returned) or len(returned) != len(signature.user_outputs):
        return "it returns something else than results of its engine"
    return WholeProgram(call, inputs, {name: outputs[name] for name in returned})
