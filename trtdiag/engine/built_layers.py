"""The layers of a built engine: what a backend made of the layers of its network, by fusing, splitting and adding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from trtdiag.network import Network, Origin


@dataclass(frozen=True)
class LayerTensor:
    """What a layer of an engine reads or writes.

    Attributes:
        name: As the engine names it.
        dtype: ``float16``, ``int32``; empty where it is not told.
        format: How its elements lie in memory, in the backend's words.
        shape: Its sizes; -1 where one is not known before the run.
    """

    name: str
    dtype: str
    format: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class LayerInfo:
    """One layer of an engine.

    Attributes:
        name: As the engine names it.
        kind: What it is, in the backend's words (``CaskConvolution``).
        ops: The ops of the network that it computes, in the network's order; empty where it only moves data that the
            backend wants in another form.
        named: Whether the backend names all of them; else they follow from the tensors that the layer reads and writes.
        inputs: What it reads.
        outputs: What it writes.
        tactic: The kernel that was chosen, where that is told.
        time_ms: The median time of a run at the usual sizes; ``None`` where it was not timed.
        metadata: What the layers that it was made of were told to hand on.
    """

    name: str
    kind: str
    ops: tuple[Origin, ...] = ()
    named: bool = True
    inputs: tuple[LayerTensor, ...] = ()
    outputs: tuple[LayerTensor, ...] = ()
    tactic: str = ""
    time_ms: float | None = None
    metadata: str = ""

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of its floats, else of all that it reads and writes; each once, those of outputs first."""
        told = dict.fromkeys(tensor.dtype for tensor in (*self.outputs, *self.inputs) if tensor.dtype)
        return tuple(dtype for dtype in told if "float" in dtype) or tuple(told)


@runtime_checkable
class Layered(Protocol):
    """A loaded engine that tells its layers."""

    def layers(self, network: Network, runs: int) -> tuple[LayerInfo, ...]:
        """The layers in the order of execution.

        Args:
            network: What the engine was built from.
            runs: How often to run the engine at its usual sizes to time them; 0: they are not timed.
        """
        ...
