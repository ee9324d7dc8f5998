"""Engines that are loaded, each once in a process and device."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Lock

import torch

from trtdiag.engine.backend import Runner, get_backend
from trtdiag.engine.manifest import Manifest
from trtdiag.errors import ArtifactError

MOST_ENGINES = 256
"""Own choice: above the engines of any program in sight; past it the one that was not used longest is dropped."""


@dataclass
class _Slot:
    """The place of one engine; its lock lets one thread load while others wait for just that engine."""

    lock: Lock = field(default_factory=Lock)
    runner: Runner | None = None


class EngineCache:
    """Loaded engines by the digest of their bytes and their device; threads may share it.

    Args:
        most: How many are kept.
    """

    def __init__(self, most: int = MOST_ENGINES) -> None:
        self._most = most
        self._lock = Lock()
        self._slots: OrderedDict[tuple[str, str, str], _Slot] = OrderedDict()

    def get(self, manifest: Manifest, engine: torch.Tensor, device: str) -> Runner:
        """The engine, loaded when it is first asked for.

        Args:
            manifest: What the engine says of itself.
            engine: Its bytes; read only when it is not loaded yet.
            device: The device that it runs on (``cpu``, ``cuda:1``).

        Raises:
            ArtifactError: ``engine-digest`` where the bytes are not those that the manifest names.
            PlatformError: Its backend is missing here.
        """
        key = (manifest.backend, manifest.engine_sha256, device)
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > self._most:
                self._slots.popitem(last=False)
        with slot.lock:
            if slot.runner is None:
                slot.runner = _loaded(manifest, engine, device)
            return slot.runner

    def loaded(self, manifest: Manifest) -> Runner | None:
        """The engine where it is loaded, on whatever device; ``None`` where it is not."""
        with self._lock:
            slots = [slot for key, slot in self._slots.items() if key[:2] == (manifest.backend, manifest.engine_sha256)]
        return next((slot.runner for slot in slots if slot.runner is not None), None)

    def __len__(self) -> int:
        with self._lock:
            return len(self._slots)


def engine_bytes(engine: torch.Tensor) -> memoryview:
    """The bytes of an engine's buffer, without a copy where it is on the CPU."""
    return engine.detach().cpu().contiguous().numpy().data


def engine_tensor(blob: bytes | bytearray) -> torch.Tensor:
    """The buffer of an engine; it is these bytes themselves where they are a ``bytearray``, which must not change."""
    owned = blob if isinstance(blob, bytearray) else bytearray(blob)
    return torch.frombuffer(owned, dtype=torch.uint8) if owned else torch.empty(0, dtype=torch.uint8)


def _loaded(manifest: Manifest, engine: torch.Tensor, device: str) -> Runner:
    content = engine_bytes(engine)
    digest = hashlib.sha256(content).hexdigest()
    if digest != manifest.engine_sha256:
        raise ArtifactError(
            "an engine's bytes were changed after it was built",
            because=f"their sha256 is {digest}, and the manifest says {manifest.engine_sha256}",
            fix="load the program again from its file, or compile it again",
            reference="engine-digest",
        )
    backend = get_backend(manifest.backend)
    with torch.cuda.device(device) if device.startswith("cuda") else nullcontext():
        return backend.load(content, manifest)


CACHE = EngineCache()
"""The engines of this process."""
