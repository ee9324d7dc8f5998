"""The compiled program: the lowered graph with each segment replaced by the call of its engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Node

from trtdiag.convert.facts import RowWrite
from trtdiag.convert.row_writes import VIEWS
from trtdiag.engine.build import Engine
from trtdiag.errors import InternalError
from trtdiag.frontend.rebuilt_program import rebuilt_program
from trtdiag.frontend.squeezed_sizes import kept_by_squeezes
from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.operators import ATEN, CAST, OpOverload, named_arguments, short_name
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.partition.facts import Partitioned
from trtdiag.runtime.draft import CompiledDraft
from trtdiag.runtime.engine_cache import engine_tensor
from trtdiag.runtime.engine_calls import CalledSegment, EngineCall
from trtdiag.runtime.torch_sizes import Fetch, TorchSizes

ENGINE_BUFFER = "trtdiag_engine_{}"
"""The name of the buffer of each engine's bytes, by the index of its segment."""
PYTORCH_BUFFER = "trtdiag_pytorch_{}"
"""The same of segments that stay with PyTorch and were compiled."""


def assemble(
    lowered: Lowered,
    partitioned: Partitioned,
    converted: Sequence[CalledSegment],
    engines: Sequence[Engine],
    exported: ExportedProgram | None,
    named: str = ENGINE_BUFFER,
) -> ExportedProgram:
    """The program that calls engines for segments and PyTorch for the rest, with the original's calling convention.

    Args:
        lowered: What was partitioned; it stays as it is.
        partitioned: Segments, and the order of execution.
        converted: Each segment's edge, in the order of ``partitioned.segments``.
        engines: Each segment's engine, in the same order.
        exported: What was lowered.
        named: The name of the buffer of each engine's bytes, by its index.

    Raises:
        InternalError: The segments do not fit together.
    """
    if exported is None or not len(converted) == len(engines) == len(partitioned.segments):
        raise InternalError(
            "a program cannot be assembled",
            because=f"there are {len(partitioned.segments)} segments and {len(engines)} engines",
            fix="please report this with the program",
            reference="assembly",
        )
    return _Assembly(lowered, partitioned, converted, engines, named).assembled(exported)


def engine_buffers(lowered: Lowered, count: int, named: str = ENGINE_BUFFER) -> tuple[str, ...]:
    """The names of the engines' buffers, in the order of their segments; what was lowered may have engines already."""
    taken = {spec.target for spec in lowered.signature.input_specs}
    found = []
    for index in range(count):
        name = named.format(index)
        while name in taken:
            name += "_"
        found.append(name)
    return tuple(found)


@dataclass
class _Assembly:
    lowered: Lowered
    partitioned: Partitioned
    converted: Sequence[CalledSegment]
    engines: Sequence[Engine]
    named: str

    def __post_init__(self) -> None:
        self._source = self.lowered.graph_module.graph
        self._draft = CompiledDraft(self._source)
        self._sizes = TorchSizes(self._draft, self.partitioned.torch_sizes)
        self._buffers = engine_buffers(self.lowered, len(self.engines), self.named)
        self._specs: dict[str, InputSpec] = {}
        self._blobs: dict[str, torch.Tensor] = {}

    def assembled(self, exported: ExportedProgram) -> ExportedProgram:
        engines = self._placeholders()
        nodes = {node.name: node for node in self._source.nodes}
        for step in self.partitioned.steps:
            if step.segment is None:
                for name in step.torch_nodes:
                    self._draft.copy(nodes[name], self._sizes.fetch)
            else:
                converted, manifest = self.converted[step.segment], self.engines[step.segment].manifest
                EngineCall(self._draft, converted, manifest, engines[step.segment], self._sizes.fetch).write()
        rows = [row for converted in self.converted for row in converted.rows]
        for row in rows:
            RowWriting(self._draft, self._sizes.fetch).write(row)
        outputs = self._outputs()
        inputs = self._drop_unused(outputs)
        state, constants = self._held(inputs, outputs)
        signature = ExportGraphSignature(inputs, outputs)
        root, graph = self.lowered.graph_module, self._draft.graph
        guards = (str(guard.condition) for guard in kept_by_squeezes(exported))
        return rebuilt_program(exported, root, graph, signature, state, constants, in_place=bool(rows), guards=guards)

    def _placeholders(self) -> list[Node]:
        """Copy every placeholder; engines follow the last parameter or buffer, where torch expects buffers."""
        sources = [node for node in self._source.nodes if node.op == "placeholder"]
        specs = self.lowered.signature.input_specs
        weights = [i for i, spec in enumerate(specs) if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER)]
        tokens = [i for i, spec in enumerate(specs) if spec.kind is InputKind.TOKEN]
        place = max([*weights, *tokens], default=-1) + 1
        engines: list[Node] = []
        for index, (node, spec) in enumerate(zip(sources, specs, strict=True)):
            if index == place:
                engines = [self._engine(number) for number in range(len(self.engines))]
            self._draft.copy(node, self._draft.get)
            self._specs[node.name] = spec
        return engines or [self._engine(number) for number in range(len(self.engines))]

    def _engine(self, index: int) -> Node:
        target = self._buffers[index]
        blob = engine_tensor(self.engines[index].blob)
        name = self._draft.free_name(f"b_{target}")
        node = self._draft.graph.create_node("placeholder", name)
        node.name = name
        node.meta["val"] = self._draft.values.like(blob)
        self._blobs[target] = blob
        self._specs[name] = InputSpec(InputKind.BUFFER, TensorArgument(name), target, persistent=True)
        return node

    def _outputs(self) -> list[OutputSpec]:
        end = next(iter(reversed(self._source.nodes)))
        returned: Any = end.args[0]
        values = tuple(self._sizes.fetch(value.name) if isinstance(value, Node) else value for value in returned)
        node = self._draft.graph.output(values)
        node.meta = {key: kept for key, kept in end.meta.items() if key != "val"}
        node.meta["val"] = tuple(value.meta["val"] if isinstance(value, Node) else value for value in values)
        return [_named(spec, value) for spec, value in zip(self.lowered.signature.output_specs, values, strict=True)]

    def _drop_unused(self, outputs: Sequence[OutputSpec]) -> list[InputSpec]:
        """Erase weights that only engines hold now; the user's inputs and what is written stay."""
        written = {spec.target for spec in outputs if spec.kind is not OutputKind.USER_OUTPUT}
        kept: list[InputSpec] = []
        for node in list(self._draft.graph.find_nodes(op="placeholder")):
            spec = self._specs[node.name]
            held = spec.kind not in (InputKind.USER_INPUT, InputKind.TOKEN)
            if held and not node.users and spec.target not in written:
                self._draft.graph.erase_node(node)
            else:
                kept.append(spec)
        return kept

    def _held(
        self, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tensors that the program brings: those of its state, and constants."""
        written = {spec.target for spec in outputs if spec.kind is OutputKind.BUFFER_MUTATION}
        in_place = {node.name for node in written_nodes(self._draft.graph)}
        state: dict[str, Any] = {}
        constants: dict[str, Any] = {}
        for spec in inputs:
            if spec.target is None or spec.kind in (InputKind.USER_INPUT, InputKind.TOKEN):
                continue
            value = self._blobs.get(spec.target)
            if value is None:
                value = self.lowered.tensors[spec.arg.name]
                # Its calls must not change the program that it was made from.
                if spec.target in written or spec.arg.name in in_place:
                    value = value.detach().clone()
            lasting = spec.kind is InputKind.PARAMETER or (spec.kind is InputKind.BUFFER and spec.persistent)
            (state if lasting else constants)[spec.target] = value
        return state, constants


def _named(spec: OutputSpec, value: Any) -> OutputSpec:
    """The role of an output with the name that its node has now."""
    if isinstance(spec.arg, ConstantArgument):
        return spec
    if not isinstance(value, Node):
        return replace(spec, arg=ConstantArgument(name=spec.arg.name, value=value))
    return replace(spec, arg=replace(spec.arg, name=value.name))


# Writes the new elements of caches into them, behind the engine that computes them, as ops of PyTorch in place.


_IN_PLACE = {
    "index_copy": ATEN.index_copy_.default,
    "index_put": ATEN.index_put_.default,
    "_unsafe_index_put": ATEN.index_put_.default,
}


class RowWriting:
    """Writes nodes behind all others of a program, where everything has read what was in the caches before.

    Args:
        draft: What is written to; a cache stands for what the program leaves it with afterwards.
        fetch: Gives what stands for a source node.
    """

    def __init__(self, draft: CompiledDraft, fetch: Fetch) -> None:
        self._draft, self._fetch = draft, fetch
        self._nodes: dict[str, Node] = {node.name: node for node in draft.source.nodes}

    def write(self, row: RowWrite) -> None:
        """Write one cache."""
        cache = self._draft.get(row.cache)
        for write in row.writes:
            part = cache
            for view in write.views:
                part = self._view(self._nodes[view], part)
            self._write(self._nodes[write.op], part)
        self._draft.set(row.result, cache)

    def _view(self, node: Node, part: Node) -> Node:
        assert isinstance(node.target, OpOverload)
        given = self._given(node)
        value = self._draft.values.tensor(node.meta["val"].shape, part.meta["val"].dtype, part.meta["val"].device)
        return self._draft.call(node.target, (part, *given.values()), value, like=node, name=f"{node.name}_part")

    def _write(self, node: Node, part: Node) -> None:
        given, own = self._given(node), part.meta["val"]
        assert isinstance(node.target, OpOverload)
        named, view = f"{node.name}_in_place", VIEWS.get(short_name(node.target))
        if view is None:
            what = "source" if "source" in given else "values"
            given[what] = self._cast(given[what], own.dtype, node)
            target = _IN_PLACE[short_name(node.target)]
            self._draft.call(target, (part, *given.values()), own, like=node, name=named)
            return
        source = self._cast(given.pop("src"), own.dtype, node)
        value = self._draft.values.tensor(source.meta["val"].shape, own.dtype, own.device)
        over = self._draft.call(view, (part, *given.values()), value, like=node, name=f"{node.name}_part")
        self._draft.call(ATEN.copy_.default, (over, source), value, like=node, name=named)

    def _given(self, node: Node) -> dict[str, Any]:
        """What an op is given beside the tensor that it is of."""
        assert isinstance(node.target, OpOverload)
        named = named_arguments(node, node.target)
        return {name: _mapped(value, self._operand) for name, value in named.items() if name != "self"}

    def _operand(self, node: Node) -> Any:
        """What stands for an operand; a size is computed anew where nothing else needed it."""
        if isinstance(node.meta.get("val"), torch.Tensor) or self._draft.has(node.name):
            return self._fetch(node.name)
        return self._draft.copy(node, lambda name: self._operand(self._nodes[name]))

    def _cast(self, node: Node, dtype: torch.dtype, like: Node) -> Node:
        value = node.meta["val"]
        if value.dtype == dtype:
            return node
        made = self._draft.values.tensor(value.shape, dtype, value.device)
        return self._draft.call(CAST, (node,), made, like=like, name=f"{like.name}_cast", dtype=dtype)


def _mapped(value: Any, operand: Callable[[Node], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_mapped(item, operand) for item in value]
    return operand(value) if isinstance(value, Node) else value
