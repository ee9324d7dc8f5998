"""A backend that tells layers, in the place of TensorRT: the reference with one layer for each op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from trtdiag.engine import backend as registry
from trtdiag.engine.backend import Backend, get_backend
from trtdiag.engine.built_layers import LayerInfo
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.profiles import usual_inputs
from trtdiag.errors import PlatformError
from trtdiag.network import Network

HOME = "tests.compiling.layered_backend"


class LayeredRun:
    def __init__(self, inner: Any, owner: LayeredBackend, manifest: Manifest) -> None:
        self._inner, self._owner, self._manifest = inner, owner, manifest

    def __call__(self, inputs: Any) -> Any:
        return self._inner(inputs)

    def layers(self, network: Network, runs: int) -> tuple[LayerInfo, ...]:
        self._owner.asked.append(runs)
        if runs and self._owner.full:
            raise PlatformError("there is no memory", because="a test", fix="none", reference="context-memory")
        for _ in range(runs):
            self._inner(usual_inputs(self._manifest, "cpu"))
        origins = {placed.origin.node: placed.origin for placed in network.layers}
        time_ms = 0.25 if runs else None
        return tuple(LayerInfo(node, "kind", (o,), True, time_ms=time_ms) for node, o in origins.items())


class LayeredBackend:
    """``asked`` has the number of runs of each question; ``loads`` counts engines; ``full``: there is no memory."""

    name, device = "layered", "cpu"

    def __init__(self, inner: Backend, full: bool) -> None:
        self._inner, self.full = inner, full
        self.asked: list[int] = []
        self.loads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load(self, blob: Any, manifest: Manifest) -> LayeredRun:
        self.loads += 1
        return LayeredRun(self._inner.load(blob, manifest), self, manifest)


CURRENT: list[LayeredBackend] = []


def backend() -> LayeredBackend:
    return CURRENT[-1]


def register_layered(patch: pytest.MonkeyPatch, *, full: bool = False) -> LayeredBackend:
    """Make it the backend ``layered`` for one test."""
    homes: Mapping[str, str] = {**registry._HOMES, "layered": HOME}
    patch.setattr(registry, "_HOMES", homes)
    made = LayeredBackend(get_backend("reference"), full)
    patch.setattr(f"{HOME}.CURRENT", [made])
    return made
