"""The reference functions on a GPU: a backend for measuring, where the sizes of the zoo take a CPU hours.

Importing it adds the backend ``reference-cuda`` to the registry of this process.  Its engines are the networks, as
those of the reference backend; PyTorch runs them where their inputs are.  A program that it compiled is for the process
that compiled it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from trtdiag.engine import backend as registry, reference
from trtdiag.engine.manifest import Manifest
from trtdiag.network import Network, from_bytes
from trtdiag.network.run import PreparedRun

NAME = "reference-cuda"


class Run:
    """Runs one network on one device."""

    def __init__(self, network: Network, device: torch.device) -> None:
        self._device = device
        self._run = PreparedRun(replace(network, weights={k: v.to(device) for k, v in network.weights.items()}))

    def __call__(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        # Layers that make tensors of sizes and numbers make them where the others are.
        with self._device:
            outputs = self._run([tensor.to(self._device) for tensor in inputs])
        return tuple(output.clone(memory_format=torch.contiguous_format) for output in outputs)


class Reference(type(reference.backend())):  # type: ignore[misc]  # the reference backend's own class
    """The reference backend on another device."""

    name = NAME

    def __init__(self, device: str) -> None:
        self.device = device

    def load(self, blob: bytes | memoryview, manifest: Manifest) -> Run:
        """The network of these bytes, its weights on the device."""
        del manifest
        return Run(from_bytes(blob), torch.device(self.device))


def backend() -> Reference:
    """The backend, for the registry."""
    return Reference("cuda")


registry._HOMES[NAME] = "benchmarks.reference_elsewhere"
