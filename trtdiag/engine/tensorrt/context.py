"""One execution context, which remembers what it was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import torch

from trtdiag.engine.tensorrt.context_memory import ContextMemory
from trtdiag.engine.tensorrt.engine_bindings import ALIGNMENT, Key, Ports
from trtdiag.engine.tensorrt.output_allocator import CountedOutputs
from trtdiag.errors import InternalError, PlatformError


@dataclass
class Latest:
    """Of contexts that several threads use, one after the other: who runs has the lock.

    Attributes:
        lock: Is held from telling a context what to do until it is on its stream.
        stream: Where one ran last; ``None`` before.
        memory: The scratch memory of all of them.
    """

    lock: Lock = field(default_factory=Lock)
    stream: int | None = None
    memory: torch.Tensor | None = None


@dataclass
class Turn:
    """Of one context that several threads use.

    Attributes:
        latest: Which the contexts of an engine's profiles share.
        in_a_row: How often it ran with the sizes that it has.
    """

    latest: Latest = field(default_factory=Latest)
    in_a_row: int = 0


class EngineContext:
    """An execution context of an engine; one thread uses it, on one stream at a time.

    Args:
        ports: The engine's inputs and outputs.
        scratch: Makes TensorRT's context, and has memory for it.
        stream: Where it will run first.
        profile: Which of the engine's profiles it has.

    Attributes:
        key: What decided the sizes that it was told last; ``None`` before, and after a refusal.
        addresses: What it was told of where inputs and outputs are.
        given_away: Whether a graph that another records has it: nothing else may run in it then.

    Raises:
        PlatformError: ``context-memory``, ``context-profile``.
    """

    def __init__(self, ports: Ports, scratch: ContextMemory, stream: int, profile: int = 0) -> None:
        context = scratch.make()
        if context is None:
            raise PlatformError(
                "TensorRT cannot prepare an engine for running",
                because="it gave no execution context; most often the GPU has too little memory left",
                fix="free GPU memory, or compile for smaller sizes",
                reference="context-memory",
            )
        _choose_profile(context, stream, profile)
        self.context: Any = context
        self.key: Key | None = None
        self.given_away = False
        self._ports, self._scratch = ports, scratch
        self._memory: torch.Tensor | None = None
        self._counted = CountedOutputs(ports.trt, context, ports.counted, ports.device) if ports.counted else None
        self._known = [index for index, name in enumerate(ports.outputs) if name not in ports.counted]
        self._written = ports.manifest.written
        self._shapes: tuple[tuple[int, ...], ...] = ()
        self.addresses: dict[str, int] = {}
        self._nothing = torch.empty(ALIGNMENT, dtype=torch.uint8, device=ports.device)

    def take(self, memory: torch.Tensor) -> None:
        """Use this scratch memory from now on; what it had before must no longer be needed."""
        if memory is not self._memory:
            self._scratch.give(self.context, memory)
            self._memory = memory

    def run(
        self, given: Sequence[torch.Tensor], memory: torch.Tensor, key: Key, stream: int
    ) -> tuple[torch.Tensor, ...]:
        """The outputs, which are new memory, but for those in the place of inputs: they are these inputs.

        Args:
            given: The inputs where the engine reads them, in any form.
            memory: Scratch memory; what the context had before must no longer be needed.
            key: What decides their sizes.
            stream: Where to run.

        Raises:
            InternalError: ``tensorrt-run`` where TensorRT refuses to run.
        """
        self.take(memory)
        ready = self._ports.readable(given)  # a copy lives until the run is on the stream
        self.tell(ready, key)
        outputs = self.outputs(ready)
        if self._counted is None:
            self.enqueue(outputs, stream)
            return self._written_back(outputs, given)
        with self._counted.asked():
            self.enqueue(outputs, stream)
        names = [self._ports.outputs[index] for index in self._known]
        every = {**dict(zip(names, outputs, strict=True)), **self._counted.tensors()}
        return self._written_back([every[name] for name in self._ports.outputs], given)

    def _written_back(self, outputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The outputs; what TensorRT wrote into the copy of an input that it cannot read goes into the input itself."""
        made = list(outputs)
        for index, source in self._written.items():
            if made[index] is not given[source]:
                given[source].copy_(made[index])
            made[index] = given[source]
        return tuple(made)

    def tell(self, given: Sequence[torch.Tensor], key: Key) -> None:
        """Say where the inputs are and, where it does not know it yet, of what sizes."""
        # Addresses first: what is on the host is read when shapes are inferred.
        for name, tensor, read in zip(self._ports.inputs, given, self._ports.read, strict=True):
            if read:
                self._put(name, tensor)
        if self.key != key:
            self._tell_shapes(key)

    def outputs(self, given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Memory for the outputs, but for those whose size the data decides.

        Args:
            given: The inputs as the engine reads them; some have an output in their place.
        """
        ports = self._ports.manifest.outputs
        return tuple(
            given[self._written[index]]
            if index in self._written
            else torch.empty(self._shapes[index], dtype=ports[index].dtype, device=self._ports.device)
            for index in self._known
        )

    def run_on(self, given: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], key: Key, stream: int) -> None:
        """Run on memory that the engine reads and writes as it is; what is recorded of it is this memory's.

        Raises:
            InternalError: ``tensorrt-run``.
        """
        self.tell(given, key)
        self.enqueue(outputs, stream)

    def enqueue(self, outputs: Sequence[torch.Tensor], stream: int) -> None:
        """Put the run onto a stream.

        Raises:
            InternalError: ``tensorrt-run``.
        """
        for index, tensor in zip(self._known, outputs, strict=True):
            self._put(self._ports.outputs[index], tensor)
        if not self.context.execute_async_v3(stream):
            raise run_refused()

    def _put(self, name: str, tensor: torch.Tensor) -> None:
        address = tensor.data_ptr() or self._nothing.data_ptr()
        if self.addresses.get(name) != address:
            self.context.set_tensor_address(name, address)
            self.addresses[name] = address

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the outputs for the sizes that it was told last."""
        return self._shapes

    def _tell_shapes(self, key: Key) -> None:
        self.key = None
        ports = self._ports
        for name, shape, host, read in zip(ports.inputs, key[0], ports.on_host, ports.read, strict=True):
            if read and not host and not self.context.set_input_shape(name, tuple(shape)):
                raise _failed(f"TensorRT does not take the shape {tuple(shape)} of {name!r}")
        missing = self.context.infer_shapes()
        if missing:
            raise _failed(f"TensorRT cannot tell the sizes of its outputs without {', '.join(missing)}")
        self._shapes = tuple(tuple(self.context.get_tensor_shape(name)) for name in ports.outputs)
        if any(size < 0 for index in self._known for size in self._shapes[index]):
            raise _failed(f"TensorRT does not know the sizes of its outputs: {self._shapes}")
        self.key = key


def _choose_profile(context: Any, stream: int, profile: int) -> None:
    """Take a profile of the engine: TensorRT 8.6 gives the first one to the first context only.

    Source: nvinfer1::ICudaEngine::createExecutionContext, 8.6.
    """
    if context.active_optimization_profile == profile:
        return
    try:
        taken = context.set_optimization_profile_async(profile, stream)
    except RuntimeError:
        taken = False
    if not taken:  # asking it for shapes would end the process: the binding raises without holding Python's lock
        raise PlatformError(
            "TensorRT cannot run an engine in a second context",
            because="the engine was built so that one context at a time can use its sizes",
            fix="compile the program again",
            reference="context-profile",
        )


def run_refused() -> InternalError:
    """TensorRT did not put a run onto its stream."""
    return _failed("TensorRT does not run the engine")


def _failed(message: str) -> InternalError:
    return InternalError(
        message,
        because="the sizes were checked against those that it was built for; TensorRT's log says more",
        fix="compile the program again; report this with the model if it comes back",
        reference="tensorrt-run",
    )
