"""The facts of the convert stage: what it reads, one typed network for each segment, and what crosses its edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node

from trtdiag.frontend.program import OpOrigin
from trtdiag.graph.limit import Limit
from trtdiag.graph.operators import int32_pairs
from trtdiag.graph.segment import Segment
from trtdiag.graph.values import NodeReader
from trtdiag.network.network import Network
from trtdiag.symbolic import Condition, Range
from trtdiag.targets.target import Target


@dataclass(frozen=True)
class Crossing:
    """A value that enters or leaves an engine.

    Attributes:
        node: The node of the lowered graph that yields it: a tensor, or for ``is_size`` a number.
        program_dtype: Its dtype outside; for a size ``torch.int64``.
        engine_dtype: Its dtype inside.  Where they differ, PyTorch casts at the edge, but for ``as_pairs``.
        is_size: Whether a number enters as a tensor without dims.
        as_pairs: Whether int64 enters as it lies in memory, as pairs of int32 in one more dim of size 2, of which the
            engine reads the first: that is what a cast to int32 gives, without a kernel of its own.
    """

    node: str
    program_dtype: torch.dtype
    engine_dtype: torch.dtype
    is_size: bool = False
    as_pairs: bool = False

    def entering(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of the program as it enters the engine."""
        return int32_pairs(tensor) if self.as_pairs else tensor.to(self.engine_dtype)


@dataclass(frozen=True)
class CountCrossing:
    """A tensor that leaves an engine for one of its sizes: the data decide it, and no other output has it.

    Attributes:
        node: The node of the lowered graph whose output of index ``output`` has the size in dim ``dim``.
        output: See there.
        dim: See there.
        columns: The tensor that leaves has this many columns; the size is that of its first dim.
        engine_dtype: Its dtype.
    """

    node: str
    output: int
    dim: int
    columns: int
    engine_dtype: torch.dtype


@dataclass(frozen=True)
class CacheWrite:
    """One op that writes over elements of a cache.

    Attributes:
        op: Its node.
        views: The nodes of the views that it writes through, each of the one before, the first of the cache.
    """

    op: str
    views: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowWrite:
    """A cache that PyTorch writes the new elements of behind an engine, which computes them.

    Attributes:
        cache: The input or buffer, by node.
        result: What the program leaves it with, by node; it does not leave the engine.
        writes: The ops that write, in order; each is done on the memory of the cache.
        leaving: What of their operands the engine gives, by node.
    """

    cache: str
    result: str
    writes: tuple[CacheWrite, ...]
    leaving: tuple[str, ...]


@dataclass(frozen=True)
class ConvertedSegment:
    """One segment as a network.

    Attributes:
        segment: What was converted.
        network: Its inputs and outputs are those below, in order.
        inputs: The segment's tensors, then its entering sizes.
        outputs: The segment's outputs, without the caches of ``rows``, and with what is written to these.
        counts: Further outputs of the network, after those.
        notes: How caches of the program are written, where that is not in place, in words.
        rows: The caches that are written behind the engine.
    """

    segment: Segment
    network: Network
    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    counts: tuple[CountCrossing, ...] = ()
    notes: tuple[str, ...] = ()
    rows: tuple[RowWrite, ...] = ()

    @property
    def born(self) -> AbstractSet[str]:
        """The symbols of the sizes that the data decides in it."""
        return self.network.counts.keys()


@dataclass(frozen=True)
class Support:
    """Which ops have a converter that takes them as they are.

    Attributes:
        limits: Why a node cannot be in an engine, by node name; what is not here can.
    """

    limits: Mapping[str, Limit]


@dataclass(frozen=True)
class ConversionContext:
    """A lowered graph to convert parts of.

    Attributes:
        graph_module: The graph; never changed.
        planned: The engine dtype of each output of each node, by name.
        target: What for.
        ranges: Of each symbol of the graph.
        given: Conditions over them that hold for every input.
        origins: Of ops, by node name.
        held: The tensors that the program brings and does not change, by node.
        reader: Reads metadata, that of each node once.
        left: The input or buffer that a call leaves with the value of a node, by that node.
        half_asked: Whether half precision was asked for, so that speed counts for more than its rounding.
    """

    graph_module: GraphModule
    planned: Mapping[str, Sequence[torch.dtype]]
    target: Target
    ranges: Mapping[str, Range]
    given: tuple[Condition, ...]
    origins: Mapping[str, OpOrigin]
    held: Mapping[Node, torch.Tensor]
    reader: NodeReader = field(default_factory=NodeReader)
    left: Mapping[Node, Node] = field(default_factory=dict)
    half_asked: bool = False
