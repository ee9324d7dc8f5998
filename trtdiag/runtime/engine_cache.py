"""Engines that are loaded, each once in a process and device."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Lock, RLock
from weakref import finalize, ref

import torch

from trtdiag.engine.backend import Loaded, Runner, get_backend
from trtdiag.engine.engine_bytes import Blob, file_changed, sha256_of
from trtdiag.engine.manifest import Manifest
from trtdiag.errors import ArtifactError, UserError
from trtdiag.files.memory_map import FileChangedError, MappedFile
from trtdiag.runtime.prepared_engines import forget

MOST_ENGINES = 256
"""Own choice, for engines that no compiled program holds; past it the one that was not used longest is dropped."""

Name = tuple[str, str]
"""The backend of an engine and the digest of its bytes."""


@dataclass
class _Slot:
    """The place of one engine; its lock lets one thread load while others wait for just that engine."""

    lock: Lock = field(default_factory=Lock)
    runner: Runner | None = None


class _Holder:
    """What holds engines, and is nothing else."""


class EngineCache:
    """Loaded engines by the digest of their bytes and their device; threads may share it.

    Engines of a ``CompiledProgram`` go with it.  Of those that only graphs call, as a program of ``torch.export.load``,
    some are kept.

    Args:
        most: How many are kept that nothing holds.
    """

    def __init__(self, most: int = MOST_ENGINES) -> None:
        self._most = most
        self._lock = RLock()  # what is collected while it is held may let go of engines
        self._slots: OrderedDict[tuple[str, str, str], _Slot] = OrderedDict()
        self._holders: Counter[Name] = Counter()

    def get(self, manifest: Manifest, engine: torch.Tensor, device: str = "") -> Runner:
        """The engine, loaded when it is first asked for.

        Args:
            manifest: What the engine says of itself.
            engine: Its bytes; read only when it is not loaded yet.
            device: The device that it runs on (``cpu``, ``cuda:1``); where not given, the one of its type on which
                PyTorch makes new tensors.

        Raises:
            ArtifactError: ``engine-digest`` where the bytes are not those that the manifest names.
            PlatformError: Its backend is missing here.
            UserError: ``recorded-before-run`` where it is not loaded yet and a CUDA graph is being recorded.
        """
        device = device or manifest.device
        device = f"cuda:{torch.cuda.current_device()}" if device == "cuda" else device
        key = (manifest.backend, manifest.engine_sha256, device)
        with self._lock:
            known = self._slots.pop(key, None)
            slot = self._slots[key] = known or _Slot()
            if known is None:
                self._drop_unheld()
        if slot.runner is not None and not _is_stale(slot.runner):
            return slot.runner
        with slot.lock:
            if slot.runner is None or _is_stale(slot.runner):
                slot.runner = _loaded(manifest, engine, device)
            return slot.runner

    def loaded(self, manifest: Manifest) -> Runner | None:
        """The engine where it is loaded, on whatever device; ``None`` where it is not."""
        with self._lock:
            slots = [slot for key, slot in self._slots.items() if key[:2] == (manifest.backend, manifest.engine_sha256)]
        return next((slot.runner for slot in slots if slot.runner is not None), None)

    def take(self, manifest: Manifest) -> Loaded | None:
        """An engine that is loaded, for whoever changes it: it is no longer here.

        ``None`` where it is not loaded, or more than one holder or something else may run it.
        """
        name = manifest.backend, manifest.engine_sha256
        with self._lock:
            keys = [key for key in self._slots if key[:2] == name]
            if len(keys) != 1 or self._holders[name] > 1 or not hasattr(self._slots[keys[0]].runner, "release"):
                return None
            slot = self._slots.pop(keys[0])
        left: Callable[[], Loaded | None] = slot.runner.release()  # type: ignore[union-attr]  # it has that
        used = ref(slot.runner)
        dropped = [slot]
        del slot
        _free(dropped)
        loaded, runner = left(), used()
        if loaded is None and runner is not None:
            with self._lock:
                self._slots.setdefault(keys[0], _Slot(runner=runner))
        return loaded

    def put(self, manifest: Manifest, loaded: Loaded) -> object:
        """Keep an engine that is loaded already.

        Returns:
            What holds it until somebody else does.
        """
        holder = _Holder()
        self.hold([manifest], holder)
        key = (manifest.backend, manifest.engine_sha256, str(loaded.device))
        with self._lock:
            self._slots.setdefault(key, _Slot(runner=loaded.runner(manifest)))
        return holder

    def drop(self, runners: Collection[object]) -> None:
        """Let these engines go; the next call loads them again."""
        with self._lock:
            gone = [key for key, slot in self._slots.items() if any(slot.runner is each for each in runners)]
            dropped = [self._slots.pop(key) for key in gone]
        _free(dropped)

    def hold(self, manifests: Iterable[Manifest], holder: object) -> Callable[[], object]:
        """Keep these engines, once they are loaded, for as long as the holder lives, and no longer than all holders.

        Returns:
            Lets go of them before that.
        """
        names = [(manifest.backend, manifest.engine_sha256) for manifest in manifests]
        with self._lock:
            self._holders.update(names)
        end = finalize(holder, self._let_go, names)
        end.atexit = False
        return end

    def _let_go(self, names: Sequence[Name]) -> None:
        with self._lock:
            self._holders.subtract(names)
            gone = {name for name in names if self._holders[name] <= 0}
            for name in gone:
                del self._holders[name]
            dropped = [self._slots.pop(key) for key in list(self._slots) if key[:2] in gone]
        _free(dropped)  # that takes a while: others need not wait

    def _drop_unheld(self) -> None:
        unheld = [key for key in self._slots if key[:2] not in self._holders]
        _free([self._slots.pop(key) for key in unheld[: max(len(unheld) - self._most, 0)]])

    def __len__(self) -> int:
        with self._lock:
            return len(self._slots)


def engine_bytes(engine: torch.Tensor) -> memoryview:
    """The bytes of an engine's buffer, without a copy where it is on the CPU."""
    return engine.detach().cpu().contiguous().numpy().data


def engine_digest(engine: torch.Tensor) -> str:
    """The digest of an engine's bytes.

    Raises:
        ArtifactError: ``file-changed`` where they are in a file that is shorter now.
    """
    content = engine_bytes(engine)
    if not engine.is_inference() and engine._version:  # noqa: SLF001 - somebody wrote to the memory: it counts
        return hashlib.sha256(content).hexdigest()
    try:
        return sha256_of(content)
    except FileChangedError as error:
        raise file_changed(error.file) from error


def engine_tensor(blob: Blob) -> torch.Tensor:
    """The buffer of an engine; it is these bytes themselves where they could be changed, which must not happen."""
    owned = blob if isinstance(blob, (bytearray, MappedFile)) else bytearray(blob)
    return torch.frombuffer(owned, dtype=torch.uint8) if len(owned) else torch.empty(0, dtype=torch.uint8)


def _is_stale(runner: Runner) -> bool:
    """Whether an engine reads its weights from a file that has changed; another program may have the same whole."""
    file = getattr(runner, "file", None)
    return isinstance(file, MappedFile) and bool(file.changed)


def _free(slots: list[_Slot]) -> None:
    """Let engines go; whoever's GPU is current, it still is after engines of another one are freed."""
    in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # as torch is
    with torch.cuda.device(torch.cuda.current_device()) if in_use else nullcontext():
        while slots:
            forget(slots.pop().runner)


def _loaded(manifest: Manifest, engine: torch.Tensor, device: str) -> Runner:
    on_gpu = device.startswith("cuda")
    # Whoever records has a GPU; where PyTorch has none it cannot even be asked.
    if on_gpu and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        # Its weights are copied to the GPU, which CUDA refuses now; TensorRT 8.6 takes the process with it.
        raise UserError(
            "a CUDA graph is being recorded, and an engine is not loaded yet",
            because="an engine is loaded when it first runs, and cannot be while a graph is recorded",
            fix="call the program once with the same sizes before each recording, in the same thread",
            reference="recorded-before-run",
        )
    digest = engine_digest(engine)
    if digest != manifest.engine_sha256:
        raise ArtifactError(
            "an engine's bytes were changed after it was built",
            because=f"their sha256 is {digest}, and the manifest says {manifest.engine_sha256}",
            fix="load the program again from its file, or compile it again",
            reference="engine-digest",
        )
    backend = get_backend(manifest.backend)
    with torch.cuda.device(device) if on_gpu else nullcontext():
        return backend.load(engine_bytes(engine), manifest)


CACHE = EngineCache()
"""The engines of this process."""
