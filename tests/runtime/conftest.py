"""What tests of calls share."""

from __future__ import annotations

import pytest
from torch import Tensor

from tests.runtime.preparing import Preparing, Runners
from trtdiag.engine.manifest import Manifest
from trtdiag.runtime import engine_cache


@pytest.fixture
def preparing(monkeypatch: pytest.MonkeyPatch) -> Runners:
    """All engines prepare their calls."""
    runners = Runners()
    get = engine_cache.CACHE.get

    def wrapped(manifest: Manifest, engine: Tensor, device: str = "") -> Preparing:
        runner = get(manifest, engine, device)
        return runners.made.setdefault(id(runner), Preparing(runner))

    monkeypatch.setattr(engine_cache.CACHE, "get", wrapped)
    return runners
