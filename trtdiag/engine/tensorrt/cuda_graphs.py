"""Runs of an engine that were recorded as CUDA graphs, one for each of the sizes that come most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import torch
from cachetools import LRUCache

from trtdiag.engine.cuda_graph_cache import MOST_CREDIT, CudaGraphCache, Kept
from trtdiag.engine.tensorrt.context import EngineContext
from trtdiag.engine.tensorrt.engine_bindings import ALIGNMENT, Key, Ports, readable
from trtdiag.engine.tensorrt.gpu import Gpu, Replay
from trtdiag.errors import InternalError

_Recorded = tuple[Key, tuple[int, ...]]
"""What a graph was recorded for: sizes, and the addresses of what it writes to."""
MOST_DIRECT = 4
"""Own choice: graphs of one set of sizes that read and write the caller's memory."""

Addresses = tuple[int, ...]
"""Where the inputs and outputs of a run are."""
Casts = Sequence["torch.dtype | None"]
"""Of each input the dtype that the engine reads it in; ``None`` where it has that."""


@dataclass
class EngineGraph:
    """The recorded runs of one set of sizes.

    One reads and writes memory of its own, so that what it is given may be anywhere: it costs copies.  Where PyTorch
    gives memory of the same addresses again and again, as in a loop, runs are recorded on that memory as well, and
    nothing is copied: such a graph runs only when tensors are at its addresses, which are the caller's then.

    Attributes:
        context: What it was recorded from; it must stay as it was, and so must its scratch memory.
        inputs: Where it reads; ``None`` for what a run need not be given: it is part of the recording, or not read.
        outputs: Where it writes.
        written: The inputs that it writes to, where outputs are in their place, by the index of the output.
        replay: Runs it.
        held: What was read while it was recorded.
        direct: Runs on memory of the caller's, by its addresses.
        seen: Addresses that came once and may come again.
        misses: Runs with copies since memory was last where a direct run has it.
    """

    context: EngineContext
    inputs: tuple[torch.Tensor | None, ...]
    outputs: tuple[torch.Tensor, ...]
    written: Mapping[int, int]
    replay: Replay
    held: Sequence[torch.Tensor]
    direct: dict[Addresses, Replay] = field(default_factory=dict)
    seen: LRUCache[Addresses, None] = field(default_factory=lambda: LRUCache(4 * MOST_DIRECT))
    misses: int = 0

    def new_outputs(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Memory for the outputs of a run; those in the place of inputs are these."""
        return [
            given[self.written[index]] if index in self.written else torch.empty_like(own)
            for index, own in enumerate(self.outputs)
        ]

    def addresses(self, given: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Addresses | None:
        """Where a run would read and write; ``None`` where an input is not row-major."""
        found = []
        for own, tensor in zip(self.inputs, given, strict=True):
            if own is not None:
                if not tensor.is_contiguous():
                    return None
                found.append(tensor.data_ptr())
        return (*found, *[output.data_ptr() for output in outputs])

    def run_with_copies(self, given: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Fill the outputs; the next run writes over the graph's own memory.

        Inputs that it writes to were given when it was recorded.
        """
        for own, tensor in zip(self.inputs, given, strict=True):
            if own is not None:
                own.copy_(tensor)
        self.replay()
        for index, (own, output) in enumerate(zip(self.outputs, outputs, strict=True)):
            if index not in self.written:
                output.copy_(own)


class EngineGraphs:
    """The recorded runs of one engine for one program, on one stream of one thread.

    Sizes that come for the second time are recorded; ``CudaGraphCache`` says which are kept.

    Args:
        ports: The engine's inputs and outputs.
        make: Makes an execution context that has scratch memory, for runs on a stream.
        gpu: What records.
        most: For how many sets of sizes runs are kept.

    Attributes:
        refused: Why the engine cannot be recorded; empty where nothing failed.
    """

    def __init__(self, ports: Ports, make: Callable[[int], EngineContext], gpu: Gpu, most: int) -> None:
        self._ports, self._make, self._gpu = ports, make, gpu
        self._kept: CudaGraphCache[_Recorded, EngineGraph] = CudaGraphCache(most)
        self._empty: set[Key] = set()
        self._written = ports.manifest.written
        self._dropped = False
        self.refused = ""

    def __len__(self) -> int:
        return len(self._kept)

    def shapes(self, key: Key) -> tuple[tuple[int, ...], ...] | None:
        """The shapes of the outputs of recorded sizes that are in no input's place; ``None`` where they are not."""
        found = self._kept.peek((key, ()))
        return None if found is None else tuple(tuple(output.shape) for output in found.outputs)

    def never(self, key: Key) -> bool:
        """Whether runs with these sizes are not recorded, however often they come."""
        return bool(self.refused) or key in self._empty

    def kept(self, key: Key) -> Kept[EngineGraph] | None:
        """The recorded runs of sizes; see ``CudaGraphCache.kept``."""
        return self._kept.kept((key, ()))

    def drop(self) -> None:
        """Run nothing of what was recorded any more."""
        self._kept, self._dropped = CudaGraphCache(1), True

    def run(
        self,
        given: Sequence[torch.Tensor],
        key: Key,
        stream: int,
        outputs: Sequence[torch.Tensor] | None = None,
        casts: Casts = (),
    ) -> Sequence[torch.Tensor] | None:
        """The outputs; ``None`` where these sizes are to run as always.

        Args:
            given: The inputs where the engine looks for them.
            key: What decides their sizes.
            stream: Where to run.
            outputs: Where to write, row-major, of the engine's shapes and dtypes, for sizes that are recorded; new
                memory where not given.
            casts: Where inputs have other dtypes than the engine's, for sizes that are recorded; else empty.

        Raises:
            InternalError: ``tensorrt-run`` where TensorRT refuses to run.
            PlatformError: ``context-memory``.
        """
        if self._dropped:
            return None
        which: _Recorded = key, ()
        if self._written:
            written = self._ports.in_place(given)
            if any(tensor is not ready for tensor, ready in zip(written, map(readable, written), strict=True)):
                return None  # a graph would write to a copy
            which = key, tuple(tensor.data_ptr() for tensor in written)
        found = self._kept.get(which)
        if found is None:
            if outputs is not None or self.never(key) or not self._kept.wants(which):
                return None
            return self._recorded(given, which, stream)
        outputs = found.new_outputs(given) if outputs is None else outputs
        replay = self._direct(found, given, outputs, key, casts)
        if replay is None:
            found.run_with_copies(given, outputs)
        else:
            replay()
        return outputs

    def _direct(
        self,
        found: EngineGraph,
        given: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        key: Key,
        casts: Casts,
    ) -> Replay | None:
        """A recorded run on this very memory; ``None`` where there is none, and none is worth recording now."""
        where = found.addresses(given, outputs)
        if where is None:
            return None
        replay = found.direct.get(where)
        if replay is not None:
            found.misses = 0
            return replay
        found.misses += 1
        if any(address % ALIGNMENT or not address for address in where):
            return None  # TensorRT cannot read or write there
        if where not in found.seen:
            found.seen[where] = None
            return None
        if len(found.direct) >= MOST_DIRECT:
            if found.misses <= MOST_CREDIT * MOST_DIRECT:
                return None
            found.direct.clear()  # memory is elsewhere now
        del found.seen[where]
        found.misses = 0
        ports = zip(given, found.held, self._ports.on_host, strict=True)
        ready = [own if host else tensor for tensor, own, host in ports]
        run = found.context.run_on

        def work(side: int) -> None:  # casts are part of the recording
            inputs = [tensor if to is None else tensor.to(to) for tensor, to in zip_longest(ready, casts)]
            run(inputs, outputs, key, side)

        try:
            replay = self._gpu.record(self._ports.device, work)
        except (RuntimeError, InternalError):  # the run with copies was recorded, and does the same
            return None
        found.direct[where] = replay
        return replay

    def _recorded(self, given: Sequence[torch.Tensor], which: _Recorded, stream: int) -> tuple[torch.Tensor, ...]:
        """Run once on memory that stays, and record the same run.

        What is written to is the caller's own, which the graph keeps alive: no other tensor can be at its address.
        """
        key, own = which[0], {*self._written.values()}
        # In inference mode these would be tensors that nobody may write to outside of it.
        with torch.inference_mode(False), torch.no_grad():
            rows = enumerate(zip(given, self._ports.on_host, strict=True))
            ready = [row[0] if index in own else _own(*row) for index, row in rows]
            context = self._make(stream)
            context.tell(ready, key)
            outputs = context.outputs(ready)
        # TensorRT finishes what follows from new sizes in the first run; only the second can be recorded.
        # Source: TensorRT's developer guide, "CUDA Graphs".
        context.enqueue(outputs, stream)
        results = _results(outputs, self._written, given)
        if not any(output.numel() for output in outputs):  # nothing runs that could be recorded
            self._empty.add(key)
            return results
        try:
            replay = self._gpu.record(self._ports.device, lambda side: context.run_on(ready, outputs, key, side))
        except (RuntimeError, InternalError) as error:
            self.refused = f"they cannot be recorded ({error})"
            return results
        fills = enumerate(zip(ready, self._ports.on_host, self._ports.read, strict=True))
        inputs = tuple(None if host or not read or index in own else tensor for index, (tensor, host, read) in fills)
        self._kept.keep(which, EngineGraph(context, inputs, outputs, self._written, replay, ready))
        return results


def _results(
    outputs: Sequence[torch.Tensor], written: Mapping[int, int], given: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """The outputs of a graph as the caller's: copies, and of those in the place of inputs these."""
    return tuple(given[written[index]] if index in written else output.clone() for index, output in enumerate(outputs))


def _own(given: torch.Tensor, host: bool) -> torch.Tensor:
    """A row-major copy that nobody else writes to; PyTorch aligns what it allocates."""
    return given.clone() if host else torch.empty(given.shape, dtype=given.dtype, device=given.device).copy_(given)
