"""The facts of the convert stage: one typed network for each segment, and what crosses its edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from trtdiag.graph.limit import Limit
from trtdiag.graph.segment import Segment
from trtdiag.network.network import Network


@dataclass(frozen=True)
class Crossing:
    """A value that enters or leaves an engine.

    Attributes:
        node: The node of the lowered graph that yields it: a tensor, or for ``is_size`` a number.
        program_dtype: Its dtype outside; for a size ``torch.int64``.
        engine_dtype: Its dtype inside.  Where they differ, PyTorch casts at the edge.
        is_size: Whether a number enters as a tensor without dims.
    """

    node: str
    program_dtype: torch.dtype
    engine_dtype: torch.dtype
    is_size: bool = False


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
class ConvertedSegment:
    """One segment as a network.

    Attributes:
        segment: What was converted.
        network: Its inputs and outputs are those below, in order.
        inputs: The segment's tensors, then its entering sizes.
        outputs: The segment's outputs.
        counts: Further outputs of the network, after those.
    """

    segment: Segment
    network: Network
    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    counts: tuple[CountCrossing, ...] = ()


@dataclass(frozen=True)
class Support:
    """Which ops have a converter that takes them as they are.

    Attributes:
        limits: Why a node cannot be in an engine, by node name; what is not here can.
    """

    limits: Mapping[str, Limit]
