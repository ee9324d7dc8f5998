"""A part of a program as an exported program of its own, with the inputs and outputs that its engine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.export import Dim, ExportedProgram
from torch.fx import Graph, GraphModule, Node

from trtdiag.convert.facts import ConvertedSegment, Crossing
from trtdiag.engine.manifest import EngineInput
from trtdiag.engine.profiles import network_profile, size_value
from trtdiag.engine.size_inputs import carrier_rank, carrier_shape, read_size
from trtdiag.errors import EngineBuildError, TrtdiagError
from trtdiag.frontend.move_to_device import on_device
from trtdiag.frontend.torch_private import plain_ranges
from trtdiag.graph.operators import CAST, operator_of, short_name
from trtdiag.graph.values import NodeReader, TensorValue
from trtdiag.runtime.draft import CompiledDraft
from trtdiag.runtime.engine_calls import CutSegment
from trtdiag.runtime.torch_sizes import TorchSizes
from trtdiag.symbolic import Range, bounds, free_symbols, to_text
from trtdiag.wording import first_line

_SELECT = torch.ops.aten.select.int
_HALVES = frozenset({torch.float16, torch.bfloat16})
_LEAST_DYNAMIC = 2
"""torch.export takes a dim whose example is 0 or 1 for a constant."""


class Source(Protocol):
    """A graph that parts are taken of."""

    @property
    def graph_module(self) -> GraphModule:
        """The graph; never changed."""
        ...

    @property
    def held(self) -> Mapping[Node, torch.Tensor]:
        """The tensors that the program brings and does not change, by node."""
        ...


def segment_program(
    source: Source, converted: ConvertedSegment, opt: Mapping[str, int], device: str
) -> ExportedProgram:
    """The segment of an engine, exported anew: its dims are symbols of its own, whatever they were in the program.

    Args:
        source: The lowered graph.
        converted: The segment, and what crosses its edge in which dtype.
        opt: The usual size of each symbol of the program.
        device: The type of device that it is for.

    Raises:
        EngineBuildError: ``segment-export``: it cannot be exported by itself; says why.
    """
    network = converted.network
    if network.counts or converted.counts:
        raise refused_part("the data decide sizes in it")
    try:
        ports = ports_for(converted, dynamic_sizes(opt, network.ranges))
    except TrtdiagError:
        raise
    except Exception as error:
        raise refused_part(f"{type(error).__name__}: {first_line(error)}") from error
    return on_device(exported_part(source, converted, ports, device), device)


def part_module(source: Source, part: CutSegment, ports: Sequence[EngineInput]) -> GraphModule:
    """A part of a graph as a module that takes its inputs in order, sizes as carriers, and gives its outputs.

    Args:
        source: The graph.
        part: What is taken of it.
        ports: Its inputs as an engine has them; sizes may be other than those that it is called with.
    """
    return _Writing(source, part, ports).module()


def exported_part(source: Source, part: CutSegment, ports: Sequence[EngineInput], device: str) -> ExportedProgram:
    """A part of a graph, exported anew: its dims are symbols of its own, whatever they were in the program.

    Args:
        source: The graph.
        part: What is taken of it.
        ports: Its inputs as an engine has them.
        device: The type of device that it is compiled for; the program stays where it is.

    Raises:
        EngineBuildError: ``segment-export``: it cannot be exported by itself; says why.
    """
    try:
        writing = _Writing(source, part, ports, channels_last=device != "cpu")
        pairs = zip(ports, usual_shapes(ports), strict=True)
        given = tuple(
            torch.zeros(shape, dtype=torch.uint8 if port.is_size else port.dtype, device=writing.device)
            for port, shape in pairs
        )
        dims = tuple(_dims(port) for port in ports)
        with torch.no_grad():
            exported = torch.export.export(writing.module(), given, dynamic_shapes=dims, strict=False)
    except TrtdiagError:
        raise
    except Exception as error:  # torch.export may fail in any way
        raise refused_part(f"{type(error).__name__}: {first_line(error)}") from error
    _check_ranges(exported, ports)
    return exported


def refused_part(why: str) -> EngineBuildError:
    """The error of a part that cannot be exported by itself."""
    return EngineBuildError(
        "a segment cannot be exported for AOTInductor",
        because=why,
        fix="compile without --optimize latency",
        reference="segment-export",
    )


def dynamic_sizes(sizes: Mapping[str, int], ranges: Mapping[str, Range]) -> dict[str, int]:
    """Sizes to export a part with: those given, but 2 or more where they may be."""
    ends = {name: ranges[name].max if name in ranges else None for name in sizes}
    return {
        name: max(size, _LEAST_DYNAMIC if (most := ends[name]) is None else min(_LEAST_DYNAMIC, most))
        for name, size in sizes.items()
    }


def ports_for(converted: ConvertedSegment, opt: Mapping[str, int]) -> list[EngineInput]:
    """The inputs of a segment as its engine has them, tuned for these sizes of the program's symbols."""
    network = converted.network
    profile = network_profile(network, opt)
    return [
        EngineInput(port.name, tensor.dtype.torch, tensor.shape, profile[port.name], size_value(tensor))
        for port, tensor in zip(network.inputs, network.input_types, strict=True)
    ]


def usual_shapes(ports: Sequence[EngineInput]) -> tuple[tuple[int, ...], ...]:
    """What inputs have for the sizes that they are tuned for; sizes are the shapes of their carriers."""
    return tuple(
        carrier_shape(port, port.profile[0].opt) if port.is_size else tuple(dim.opt for dim in port.profile)
        for port in ports
    )


def _dims(port: EngineInput) -> dict[int, Any]:
    if port.is_size:
        (number,) = port.profile
        if carrier_rank(port) > 2:
            return {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
        ends = [None if end is None else carrier_shape(port, end)[0] for end in (number.min, number.max)]
        return {0: Dim.DYNAMIC(min=ends[0], max=ends[1])} if number.max != number.min else {}
    return {
        place: Dim.DYNAMIC(min=dim.min, max=dim.max)
        for place, dim in enumerate(port.profile)
        if dim.max is None or dim.max > dim.min
    }


def _check_ranges(exported: ExportedProgram, ports: Sequence[EngineInput]) -> None:
    """Refuse a segment that the export narrowed: AOTInductor's code checks no size."""
    ranges, reader = plain_ranges(exported.range_constraints), NodeReader()
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"][-len(ports) :]
    for port, node in zip(ports, placeholders, strict=True):
        (value,) = reader.read(node)
        if port.is_size or not isinstance(value, TensorValue):
            continue
        for place, (dim, size) in enumerate(zip(port.profile, value.dims, strict=True)):
            if dim.max == dim.min:
                continue
            if not free_symbols(size):
                raise refused_part(f"dim {place} of {port.name} would be {to_text(size)} alone")
            allowed = bounds(size, ranges).range
            low, high = max(dim.min, _LEAST_DYNAMIC), dim.max
            if (allowed.min or 0) > low or (allowed.max is not None and (high is None or allowed.max < high)):
                most = "any size" if allowed.max is None else allowed.max
                raise refused_part(f"dim {place} of {port.name} would be {allowed.min} to {most} alone")


def _convolves(node: Node) -> bool:
    op = operator_of(node)
    return op is not None and short_name(op) in ("conv2d", "convolution")


class _Writing:
    """Writes the graph of a segment.

    Args:
        source: Of which graph.
        converted: The segment.
        ports: Its inputs.
        channels_last: Whether weights of convolutions in half precision lie in memory as Tensor Cores read them.  What
            a convolution gives lies as its weight does; PyTorch's compiler itself leaves channels first wherever a size
            is dynamic (``GraphLowering.decide_layout_opt``, torch 2.11 to 2.13).
    """

    def __init__(
        self, source: Source, converted: CutSegment, ports: Sequence[EngineInput], *, channels_last: bool = False
    ) -> None:
        self._source, self._converted, self._ports = source, converted, ports
        self._channels_last = channels_last
        graph: Graph = source.graph_module.graph
        self._nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
        self._draft = CompiledDraft(graph)
        self._root = torch.nn.Module()
        self._sizes = TorchSizes(self._draft, converted.segment.sizes)
        tensors = [self._nodes[crossing.node].meta["val"] for crossing in converted.inputs if not crossing.is_size]
        held = [source.held[self._nodes[name]] for name in converted.segment.constants]
        # Where the program is, which may be elsewhere than where it is going to run.
        self.device: torch.device = next((each.device for each in (*tensors, *held)), torch.device("cpu"))

    def module(self) -> GraphModule:
        segment, draft = self._converted.segment, self._draft
        pairs = list(zip(self._converted.inputs, self._ports, strict=True))
        entered = [self._placeholder(crossing, port) for crossing, port in pairs]
        for (crossing, port), node in zip(pairs, entered, strict=True):
            self._enter(crossing, port, node)
        for number, name in enumerate(segment.constants):
            self._weight(name, f"weight_{number}")  # code without weights knows them by these names
        inside = {*segment.ops, *segment.elements}
        for node in self._source.graph_module.graph.nodes:
            if node.name in inside:
                draft.copy(node, self._sizes.fetch)
        draft.graph.output(tuple(self._leaving(crossing) for crossing in self._converted.outputs))
        for submodule in draft.graph.find_nodes(op="get_attr"):
            if not hasattr(self._root, str(submodule.target)):
                setattr(self._root, str(submodule.target), getattr(self._source.graph_module, str(submodule.target)))
        return GraphModule(self._root, draft.graph)

    def _placeholder(self, crossing: Crossing, port: EngineInput) -> Node:
        node = self._draft.graph.create_node("placeholder", self._draft.free_name(f"given_{crossing.node}"))
        value = self._nodes[crossing.node].meta["val"]
        if port.is_size:
            shape = carrier_shape(port, value)
            node.meta["val"] = self._draft.values.tensor(shape, torch.uint8, self.device)
        else:
            shape = (*value.shape, 2) if crossing.as_pairs else value.shape
            node.meta["val"] = self._draft.values.tensor(shape, crossing.engine_dtype, value.device)
        return node

    def _enter(self, crossing: Crossing, port: EngineInput, given: Node) -> None:
        like = self._nodes[crossing.node]
        if crossing.is_size:
            call = self._draft.calls(like)
            sizes = tuple(call(torch.ops.aten.sym_size.int, given, place) for place in range(carrier_rank(port) - 1))
            self._draft.set(crossing.node, read_size(port, sizes, call))
        elif crossing.as_pairs:
            value = self._draft.values.tensor(like.meta["val"].shape, crossing.engine_dtype, like.meta["val"].device)
            low = self._draft.call(_SELECT, (given, -1, 0), value, like=like, name=f"{like.name}_low")
            self._draft.set(crossing.node, self._cast(low, crossing.program_dtype, like))
        elif crossing.engine_dtype is crossing.program_dtype:
            self._draft.set(crossing.node, given)
        else:
            self._draft.set(crossing.node, self._cast(given, crossing.program_dtype, like))

    def _weight(self, name: str, target: str) -> None:
        node = self._nodes[name]
        value = self._source.held[node].detach()
        if self._channels_last and value.dim() == 4 and value.dtype in _HALVES and any(map(_convolves, node.users)):
            value = value.contiguous(memory_format=torch.channels_last)
        self._root.register_buffer(target, value)
        made = self._draft.graph.create_node("get_attr", target)
        made.meta = dict(node.meta)
        self._draft.set(name, made)

    def _leaving(self, crossing: Crossing) -> Any:
        node = self._draft.get(crossing.node)
        if crossing.engine_dtype is crossing.program_dtype:
            return node
        return self._cast(node, crossing.engine_dtype, self._nodes[crossing.node])

    def _cast(self, node: Node, dtype: torch.dtype, like: Node) -> Node:
        value = self._draft.values.tensor(node.meta["val"].shape, dtype, node.meta["val"].device)
        return self._draft.call(CAST, (node,), value, like=like, name=f"{like.name}_cast", dtype=dtype)
