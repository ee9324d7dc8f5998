"""What an engine says of itself: what it takes and gives, for which sizes, and where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch

from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Condition, Expr, Range, free_symbols


@dataclass(frozen=True)
class EngineInput:
    """One input of an engine.

    Attributes:
        name: How errors name it: the node of the program that yields it.
        dtype: The dtype that the engine takes.
        dims: The size of each dim, over symbols that mean something in this manifest only.
        profile: The sizes of each dim that the engine was built for; of a size, of its one value.
        value: Of a size: the number as an expression, which gives symbols their values as dims do.
    """

    name: str
    dtype: torch.dtype
    dims: tuple[Expr, ...]
    profile: tuple[DimProfile, ...]
    value: Expr | None = None

    @property
    def is_size(self) -> bool:
        """Whether a number enters, not a tensor."""
        return self.value is not None


@dataclass(frozen=True)
class EngineProfile:
    """One of several profiles of an engine.

    Attributes:
        name: What the user calls it.
        sizes: Of each input what ``EngineInput.profile`` is of all profiles together.
    """

    name: str
    sizes: tuple[tuple[DimProfile, ...], ...]


@dataclass(frozen=True)
class EngineOutput:
    """One output of an engine.

    Attributes:
        name: How it is called: the node of the program that it stands for.
        dtype: Its dtype.
        dims: The size of each dim, over the symbols of the inputs and ``Manifest.counts``.
        memory_of: The index of the input whose memory it is: a run writes into that input; ``None`` where the output
            has memory of its own.
    """

    name: str
    dtype: torch.dtype
    dims: tuple[Expr, ...]
    memory_of: int | None = None


@dataclass(frozen=True)
class AssumedSize:
    """What the user said of a size that the data decides.

    Attributes:
        name: The user's name for it.
        least: The least that it was assumed to be, if any.
        most: The greatest that it was assumed to be, if any.
        place: What makes it: the op with its source line.
    """

    name: str
    least: int | None
    most: int | None
    place: str


@dataclass(frozen=True)
class Compatibility:
    """On what else than where it was built an engine of TensorRT may run.

    Attributes:
        hardware: ``none`` (the same GPU), ``ampere+`` or ``same-compute-capability``.
        versions: Whether later versions of TensorRT's same major number take it.
        compute_capability: That of the GPU that it was built on (``9.0``), where it is known.
        gpus: The GPU generations that it was built for (``sm89``), where it was built for some by name.
    """

    hardware: str = "none"
    versions: bool = False
    compute_capability: str | None = None
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """What an engine says of itself.

    Attributes:
        trtdiag: The version of trtdiag that built it.
        backend: Which backend built it and runs it.
        target: The TensorRT version that its network was written for.
        device: The type of device it runs on (``cpu``, ``cuda``).
        network_hash: The canonical hash of its network.
        engine_sha256: The digest of its bytes.
        inputs: In the order of its network.
        outputs: In the order of its network.
        ranges: Of each symbol.
        conditions: What else the network rests on; of those that name one of ``counts`` a run makes sure afterwards.
        counts: The sizes that the data decides, each at least one dim of an output by itself, with the most that it
            can be over the symbols of the inputs; ``None`` where that is not known.
        assumed: Of symbols what the user said of them, which ``ranges`` has: it is no property of the program.
        waits: Whether the data decides any size in it: TensorRT then waits for the device in the middle of a run.
        tensorrt: The version of the TensorRT that built it, where one did.
        gpu: The GPU that it was built on, where it was.
        compatibility: Where else it may run.
        profiles: Those of an engine that has several, in TensorRT's order; the first that takes the sizes of a run is
            used.  ``EngineInput.profile`` then spans all of them, tuned for what the first is.
    """

    trtdiag: str
    backend: str
    target: str
    device: str
    network_hash: str
    engine_sha256: str
    inputs: tuple[EngineInput, ...]
    outputs: tuple[EngineOutput, ...]
    ranges: Mapping[str, Range]
    conditions: tuple[Condition, ...] = ()
    counts: Mapping[str, Expr | None] = field(default_factory=dict)
    waits: bool = False
    tensorrt: str | None = None
    gpu: str | None = None
    compatibility: Compatibility = Compatibility()
    profiles: tuple[EngineProfile, ...] = ()
    assumed: Mapping[str, AssumedSize] = field(default_factory=dict)

    @cached_property
    def written(self) -> Mapping[int, int]:
        """The input whose memory an output is, by the index of the output, for those that are in place."""
        found = ((index, port.memory_of) for index, port in enumerate(self.outputs))
        return {index: memory for index, memory in found if memory is not None}

    def is_counted(self, output: EngineOutput) -> bool:
        """Whether the data decides a size of an output."""
        return any(free_symbols(dim) & self.counts.keys() for dim in output.dims)
