"""Runs an engine on the GPU that its inputs are on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from threading import local
from typing import Any
from weakref import ref

import torch

from trtdiag.engine.built_layers import LayerInfo
from trtdiag.engine.cuda_graph_choice import chosen_graphs
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.profile_choice import ProfileChoice
from trtdiag.engine.profiles import usual_inputs
from trtdiag.engine.tensorrt.context import EngineContext
from trtdiag.engine.tensorrt.context_memory import ContextMemory, scratch_bytes
from trtdiag.engine.tensorrt.contexts import Contexts, Place
from trtdiag.engine.tensorrt.cuda_graphs import EngineGraphs
from trtdiag.engine.tensorrt.engine_bindings import Key, Ports
from trtdiag.engine.tensorrt.gpu import Gpu
from trtdiag.engine.tensorrt.inspection import engine_layers
from trtdiag.engine.tensorrt.prepared_run import PreparedRun, can_prepare, casts_of, is_plain, pairs_of
from trtdiag.engine.tensorrt.single_context import has_one_context, one_for_each_profile
from trtdiag.errors import UserError
from trtdiag.graph.tensor_signature import Signature, signature_of
from trtdiag.network import Network

_ONE_CONTEXT = "this release of TensorRT gives an engine of varying sizes one context, and the graph would keep it"


MOST_PREPARED = 64
"""Own choice: sets of sizes that one thread remembers of an engine; then it begins anew."""

_Which = tuple[Hashable, Signature]
"""How a context was made, and what the inputs are like."""


class _Known(local):
    """The prepared runs of one thread."""

    def __init__(self) -> None:
        self.runs: dict[_Which, PreparedRun] = {}


class EngineRunner:
    """A loaded engine.

    Each thread has its own execution contexts, one for each stream.  Work goes to PyTorch's current stream, nothing is
    synchronised, and outputs are PyTorch's own memory.

    Args:
        trt: The module ``tensorrt``.
        engine: The deserialised engine.
        manifest: What it takes and gives.
        device: The GPU that it was loaded on.
        alive: What must live as long as the engine.
        gpu: Gives the stream to run on, and records runs.
        scratch: Makes its contexts.
    """

    def __init__(
        self,
        trt: Any,
        engine: Any,
        manifest: Manifest,
        device: torch.device,
        alive: object = None,
        gpu: Gpu | None = None,
        scratch: type[ContextMemory] = ContextMemory,
    ) -> None:
        self._trt, self._engine, self._device, self._alive = trt, engine, device, alive
        self._gpu = gpu or Gpu()
        self._ports = Ports.of(trt, engine, manifest, device)
        self._scratch = scratch(trt, engine, device)
        self._choice = ProfileChoice.of(manifest)
        self._contexts = Contexts(max(1, len(manifest.profiles)))
        one = has_one_context(trt, manifest)
        self._only = one_for_each_profile(self._ports, self._scratch, self._gpu) if one else None
        self._preparable = can_prepare(self._ports)
        self._known = _Known()
        self._warned = False
        self._several = device.type == "cuda" and torch.cuda.device_count() > 1

    def release(self) -> Callable[[], LoadedEngine | None]:
        """What gives the engine once this was let go; ``None`` where something else can still run it."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)  # its contexts go with it
        loaded = LoadedEngine(self._trt, self._engine, self._device, self._alive, type(self._scratch))
        running = ref(self._scratch)  # all that runs it, prepared and recorded runs too, has this
        return lambda: loaded if running() is None else None

    @property
    def scratch_bytes(self) -> int:
        """What a run takes beside weights, inputs and outputs; engines on one stream of one thread share it."""
        return scratch_bytes(self._engine)

    @property
    def unrecordable(self) -> str:
        """Why its runs cannot be recorded as CUDA graphs; empty where nothing is known against it."""
        return "the data decides a size in it, and a graph has fixed sizes" if self._ports.manifest.waits else ""

    def prepared(
        self, inputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor] | None = None
    ) -> PreparedRun | None:
        """What runs it again for inputs like those of the run before; ``None`` where that must be looked at anew.

        Args:
            inputs: Those of the last run of this thread.
            given: What they were before casts: where what is found has ``casts``, it takes inputs like these.
        """
        plain = self._preparable and all(is_plain(tensor, self._device) for tensor in inputs)
        if not plain or self._gpu.recording():
            return None
        key, stream, choice = self._ports.key(inputs), self._gpu.stream(self._device), chosen_graphs()
        if choice is None and (known := self._known.runs.get((self._scratch.variant(), signature_of(inputs) or ()))):
            return known
        profile = 0 if self._choice is None else self._choice(inputs)
        before = None if choice is None else given
        casts = () if before is None else casts_of(before, inputs, self._device)
        pairs = () if before is None else pairs_of(before, inputs)
        if self._only is not None:
            return self._only[profile].prepared(key, stream, choice, casts, pairs)
        place = self._contexts.place(stream, self._scratch.variant(), profile)
        graphs = None if choice is None else place.graphs.get(choice)
        if graphs is not None and not graphs.never(key):
            shapes = graphs.shapes(key)
            if shapes is None:
                return None
            own = self._ports, key, shapes, self._gpu, stream, None, self._scratch, graphs
            return PreparedRun(*own, casts=casts, pairs=pairs)
        context = place.context
        if context is None or context.key != key:
            return None
        return PreparedRun(self._ports, key, context.shapes, self._gpu, stream, context, self._scratch)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The outputs.

        Raises:
            UserError: ``tensorrt-device``; ``recorded-before-run`` while a CUDA graph is recorded around it,
                ``recorded-counts`` where the data decides a size in it, ``recorded-one-context``.
            ShapeOutOfRangeError: ``outside-profiles`` where it has several profiles, and none has the sizes.
            InternalError: ``tensorrt-run`` where TensorRT refuses to run.
            PlatformError: ``context-memory``.
        """
        # A program that records runs prepares them itself, and its recordings go with it.
        signature = signature_of(inputs) if self._preparable and chosen_graphs() is None else None
        if signature is not None:
            known, which = self._known.runs, (self._scratch.variant(), signature)
            run = known.get(which)
            made = None if run is None else run(inputs)
            if made is not None:
                return tuple(made)
            known.pop(which, None)  # another stream, other memory: what is known is prepared anew
        with torch.cuda.device(self._device) if self._several else nullcontext():
            outputs = tuple(self._run(inputs))
            if signature is not None:
                self._learn(known, which, self.prepared(inputs))
            return outputs

    @staticmethod
    def _learn(known: dict[_Which, PreparedRun], which: _Which, run: PreparedRun | None) -> None:
        """Remember how to run again."""
        if run is None:
            known.pop(which, None)
            return
        if len(known) >= MOST_PREPARED:
            known.clear()
        known[which] = run

    def layers(self, network: Network, runs: int) -> tuple[LayerInfo, ...]:
        """The layers of the engine, joined to the ops of the network that it was built from.

        Args:
            network: That network.
            runs: How often to run the engine at its usual sizes to time them; 0: they are not timed.

        Raises:
            PlatformError: ``context-memory``.
        """
        manifest = self._ports.manifest
        with torch.cuda.device(self._device) if self._several else nullcontext():
            inputs = usual_inputs(manifest, self._device)

            def runner(engine: Any) -> EngineRunner:
                scratch = type(self._scratch)
                return EngineRunner(self._trt, engine, manifest, self._device, gpu=self._gpu, scratch=scratch)

            return engine_layers(self._trt, self._engine, network, inputs, runs, runner)

    def _run(self, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        # Copies made here may go at the end: PyTorch reuses their memory on this stream only, after the engine's run.
        profile = 0 if self._choice is None else self._choice(inputs)
        given = self._ports.placed(inputs)
        key = self._ports.key(given)
        stream = self._gpu.stream(self._device)
        if self._gpu.recording():
            if self._ports.manifest.waits or self._only is not None:
                raise _never_recorded(self._ports)
            # Memory that is taken while PyTorch records belongs to the graph.
            return self._contexts.for_recording(key).run(given, self._scratch.own(), key, stream)
        if self._only is not None:
            only = self._only[profile]
            made = only.run(given, key, stream, chosen_graphs())
            if only.refused:
                self._warn(only.refused)
            return made
        place = self._contexts.place(stream, self._scratch.variant(), profile)
        outputs = self._recorded(place, given, key, stream, profile)
        if outputs is not None:
            return outputs
        if place.context is None:
            place.context = EngineContext(self._ports, self._scratch, stream, profile)
        return place.context.run(given, self._scratch.shared(stream), key, stream)

    def _recorded(
        self, place: Place, given: Sequence[torch.Tensor], key: Key, stream: int, profile: int
    ) -> Sequence[torch.Tensor] | None:
        """The outputs by a CUDA graph, where the program asks for them and these sizes have one."""
        choice = chosen_graphs()
        if choice is None or self._ports.manifest.waits:
            return None
        graphs = place.graphs.get(choice)
        if graphs is None:
            make = partial(_context, self._ports, self._scratch, profile=profile)
            graphs = place.graphs[choice] = EngineGraphs(self._ports, make, self._gpu, choice.most)
        outputs = graphs.run(given, key, stream)
        if graphs.refused:
            self._warn(graphs.refused)
        return outputs

    def _warn(self, why: str) -> None:
        """Tell, once for an engine, that what was asked for cannot be had."""
        if not self._warned:
            self._warned = True
            warnings.warn(f"an engine runs without CUDA graphs: {why}", RuntimeWarning, stacklevel=4)


@dataclass(frozen=True)
class LoadedEngine:
    """An engine on a GPU that nothing runs.

    Attributes:
        trt: The module ``tensorrt``.
        engine: The deserialised engine.
        device: The GPU.
        alive: What must live as long as the engine.
        scratch: Makes its contexts.
    """

    trt: Any
    engine: Any
    device: torch.device
    alive: object
    scratch: type[ContextMemory] = ContextMemory

    def runner(self, manifest: Manifest) -> EngineRunner:
        """What runs it."""
        return EngineRunner(self.trt, self.engine, manifest, self.device, alive=self.alive, scratch=self.scratch)


def _context(ports: Ports, scratch: ContextMemory, stream: int, profile: int) -> EngineContext:
    """A new context that has scratch memory; recorded runs make some, and must not keep the runner alive."""
    made = EngineContext(ports, scratch, stream, profile)
    made.take(scratch.shared(stream))
    return made


def _never_recorded(ports: Ports) -> UserError:
    because = _ONE_CONTEXT
    fix = "compile for fixed sizes, or with a release that has contexts share a profile: TensorRT 8.6.1, or 10"
    if ports.manifest.waits:
        names = [port.name for port in ports.manifest.outputs if ports.manifest.is_counted(port)]
        what = f"how large {', '.join(names)} is" if names else "a size inside of it"
        because = f"the values of its inputs decide {what}, and a graph has fixed sizes"
        fix = (
            "record only the part of the program before it; keep_in_torch with the op that chooses by values makes"
            " an engine that ends there"
        )
    return UserError(
        "a CUDA graph is being recorded around an engine that cannot be recorded",
        because=because,
        fix=fix,
        reference="recorded-counts" if ports.manifest.waits else "recorded-one-context",
    )
