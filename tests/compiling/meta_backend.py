"""A backend whose engines run on another device than programs are exported on, on any machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

from trtdiag.engine import backend as registry
from trtdiag.engine.backend import get_backend
from trtdiag.engine.manifest import Manifest


class OnMeta:
    """The reference backend on the device ``meta``, whose tensors have no elements: only sizes are computed."""

    name, device = "on-meta", "meta"

    def __getattr__(self, name: str) -> Any:
        return getattr(get_backend("reference"), name)

    def load(self, blob: bytes | memoryview, manifest: Manifest) -> Any:
        """The network, run with zeros in the place of what has no elements."""
        runner = get_backend("reference").load(blob, manifest)

        def run(inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
            assert all(
                given.device.type == ("cpu" if port.is_size else "meta")
                for port, given in zip(manifest.inputs, inputs, strict=True)
            )
            here = [torch.zeros_like(t, device="cpu") if t.is_meta else t for t in inputs]
            return tuple(output.to("meta") for output in runner(here))

        return run


def backend() -> OnMeta:
    """The backend, for the registry."""
    return OnMeta()


def register(patch: pytest.MonkeyPatch) -> None:
    """Make it the backend ``on-meta`` for one test."""
    homes: Mapping[str, str] = {**registry._HOMES, "on-meta": "tests.compiling.meta_backend"}
    patch.setattr(registry, "_HOMES", homes)
