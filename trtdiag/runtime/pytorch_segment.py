"""A segment of ops that stay with PyTorch: what crosses its edge, and what its compiled code says of itself.

There is no network: what it takes and gives is read off the exported program that its code was compiled of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from trtdiag import __version__
from trtdiag.convert.facts import CountCrossing, Crossing, RowWrite
from trtdiag.engine.data_dependent_dims import counted
from trtdiag.engine.engine_bytes import Blob, sha256_of
from trtdiag.engine.manifest import EngineInput, EngineOutput, Manifest
from trtdiag.engine.profiles import size_profile
from trtdiag.engine.size_inputs import carrier_rank, read_size
from trtdiag.frontend.torch_private import plain_ranges
from trtdiag.graph.segment import Segment
from trtdiag.graph.values import NodeReader, TensorValue
from trtdiag.network.symbol_values import solvable
from trtdiag.runtime.segment_program import refused_part
from trtdiag.shapes.profile import input_profile
from trtdiag.shapes.symbols import is_backed
from trtdiag.symbolic import Expr, Num, Range, Sym, add, free_symbols


@dataclass(frozen=True)
class PyTorchSegment:
    """Ops that stay with PyTorch, to be called as an engine is.

    Attributes:
        segment: The ops.
        inputs: The tensors and sizes that enter; nothing is cast.
        outputs: The tensors that leave.
        born: The symbols of the sizes that the data decides in it.
        counts: None: what does not leave as a dim is not needed.
        rows: None.
    """

    segment: Segment
    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    born: frozenset[str]
    counts: tuple[CountCrossing, ...] = ()
    rows: tuple[RowWrite, ...] = ()


def pytorch_segment(segment: Segment, nodes: Mapping[str, Node], reader: NodeReader) -> PyTorchSegment:
    """A segment with what crosses its edge.

    Args:
        segment: The ops.
        nodes: Those of its graph, by name.
        reader: Reads their metadata.
    """
    entering = frozenset().union(*(reader.node(nodes[name]).symbols for name in segment.inputs))
    made = frozenset().union(*(reader.node(nodes[name]).symbols for name in (*segment.ops, *segment.elements)))
    sizes = [Crossing(size.node, torch.int64, torch.int64, is_size=True) for size in segment.entering_sizes]
    inputs = (*(_crossing(nodes[name]) for name in segment.inputs), *sizes)
    outputs = tuple(_crossing(nodes[name]) for name in segment.outputs)
    born = frozenset(name for name in made - entering if not is_backed(name))
    return PyTorchSegment(segment, inputs, outputs, born)


def _crossing(node: Node) -> Crossing:
    dtype = node.meta["val"].dtype
    return Crossing(node.name, dtype, dtype)


def ports_of(
    part: PyTorchSegment,
    nodes: Mapping[str, Node],
    reader: NodeReader,
    ranges: Mapping[str, Range],
    usual: Mapping[str, int],
) -> list[EngineInput]:
    """The inputs of a segment over the symbols of the program.

    Args:
        part: The segment.
        nodes: Those of its graph, by name.
        reader: Reads their metadata.
        ranges: Of each symbol of the program.
        usual: Their usual sizes.
    """
    ports = []
    exprs = {size.node: size.expr for size in part.segment.entering_sizes}
    for index, crossing in enumerate(part.inputs):
        if crossing.is_size:
            found = exprs[crossing.node]
            value = found if isinstance(found, Expr.__args__) else Sym(f"n{index}")  # type: ignore[attr-defined]
            number = size_profile(value, ranges, usual)
            ports.append(EngineInput(f"size_{crossing.node}", torch.int64, (), (number,), value))
            continue
        (tensor,) = reader.read(nodes[crossing.node])
        assert isinstance(tensor, TensorValue)
        profile = input_profile(tensor.dims, ranges, usual)
        ports.append(EngineInput(crossing.node, crossing.engine_dtype, tensor.dims, profile))
    return ports


def manifest_of(
    exported: ExportedProgram,
    part: PyTorchSegment,
    ports: Sequence[EngineInput],
    blob: Blob,
    device: str,
    target: str,
) -> Manifest:
    """What the code of a segment says of itself, over the symbols of its own export.

    Args:
        exported: The segment, exported by itself.
        part: The segment.
        ports: Its inputs with the sizes that it takes.
        blob: Its bytes.
        device: The type of device that it runs on.
        target: The TensorRT version that the program is compiled for.

    Raises:
        EngineBuildError: ``segment-export``: sizes of its outputs cannot be told from its inputs.
    """
    reader, known = NodeReader(), plain_ranges(exported.range_constraints)
    given = [node for node in exported.graph.nodes if node.op == "placeholder"][-len(ports) :] if ports else []
    inputs = tuple(_input(port, node, reader) for port, node in zip(ports, given, strict=True))
    numbers = [size for port in inputs for size in (port.dims if port.value is None else (port.value,))]
    readable = {solution[0] for size in numbers if (solution := solvable(size)) is not None}
    hidden = frozenset().union(*map(free_symbols, numbers)) - readable
    if hidden:
        raise refused_part(f"its inputs do not say {', '.join(sorted(hidden))}")
    outputs = _outputs(exported, part, reader)
    most = {name: None if own.max is None else Num(own.max) for name, own in known.items() if not is_backed(name)}
    most |= {name: None for port in outputs for dim in port.dims for name in free_symbols(dim) if not is_backed(name)}
    strange = frozenset().union(*(free_symbols(dim) for port in outputs for dim in port.dims)) - readable - most.keys()
    if strange:
        raise refused_part(f"its inputs do not say {', '.join(sorted(strange))}, of which its outputs are made")
    named, counts, ranges = counted(outputs, most, known, frozenset(readable))
    own = {dim.name: Range(size.min, size.max) for port in inputs for dim, size in _plain(port)}
    return Manifest(
        trtdiag=__version__,
        backend="inductor",
        target=target,
        device=device,
        network_hash=hashlib.sha256(str(exported.graph).encode()).hexdigest(),
        engine_sha256=sha256_of(blob),
        inputs=inputs,
        outputs=named,
        ranges={**own, **ranges},
        counts=counts,
        waits=bool(counts),
    )


def _plain(port: EngineInput) -> list[tuple[Sym, Range]]:
    """The symbols that are dims by themselves, or are all that varies of a number, with their ranges."""
    if port.value is None:
        pairs = zip(port.dims, port.profile, strict=True)
        return [(dim, Range(own.min, own.max)) for dim, own in pairs if isinstance(dim, Sym)]
    return [(port.value, Range(port.profile[0].min, port.profile[0].max))] if isinstance(port.value, Sym) else []


def _input(port: EngineInput, node: Node, reader: NodeReader) -> EngineInput:
    (tensor,) = reader.read(node)
    assert isinstance(tensor, TensorValue)
    if not port.is_size:
        return EngineInput(port.name, tensor.dtype, tensor.dims, port.profile)
    if carrier_rank(port) == 2:
        value = add(tensor.dims[0], Num(read_size(port, (0, 0))))  # the dim, less what carriers add to the number
        return EngineInput(port.name, port.dtype, (), port.profile, value)
    return EngineInput(port.name, port.dtype, (), port.profile, Sym(f"n_{port.name}"))


def _outputs(exported: ExportedProgram, part: PyTorchSegment, reader: NodeReader) -> list[EngineOutput]:
    returned = exported.graph.output_node().args[0]
    found = []
    for crossing, node in zip(part.outputs, returned, strict=True):
        if not isinstance(node, Node):
            raise refused_part(f"{crossing.node} is a constant")
        (tensor,) = reader.read(node)
        assert isinstance(tensor, TensorValue)
        found.append(EngineOutput(crossing.node, tensor.dtype, tensor.dims))
    return found
