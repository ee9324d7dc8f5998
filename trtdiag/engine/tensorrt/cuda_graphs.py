"""Runs of an engine that were recorded as CUDA graphs, one for each of the sizes that come most."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from cachetools import LRUCache

from trtdiag.engine.tensorrt.context import EngineContext
from trtdiag.engine.tensorrt.engine_bindings import Key, Ports, readable
from trtdiag.engine.tensorrt.gpu import Gpu, Replay
from trtdiag.engine.tensorrt.scratch import Scratch
from trtdiag.errors import InternalError

_Recorded = tuple[Key, tuple[int, ...]]
"""What a graph was recorded for: sizes, and the addresses of what it writes to."""
_MOST_CREDIT = 8
"""Own choice: how often others must ask for the place of a graph that was used much before it gives way."""


@dataclass
class EngineGraph:
    """One recorded run: it reads and writes memory of its own, so that what it is given may be anywhere.

    Attributes:
        context: What it was recorded from; it must stay as it was, and so must its scratch memory.
        inputs: Where it reads; ``None`` for what a run need not be given: it is part of the recording, or not read.
        outputs: Where it writes.
        written: The inputs that it writes to, where outputs are in their place, by the index of the output.
        replay: Runs it.
        held: What was read while it was recorded.
        credit: How much it was used since others asked for its place.
    """

    context: EngineContext
    inputs: tuple[torch.Tensor | None, ...]
    outputs: tuple[torch.Tensor, ...]
    written: Mapping[int, int]
    replay: Replay
    held: object = None
    credit: int = 1

    def run(self, given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The outputs, in new memory: the next run writes over the graph's own.

        Inputs that it writes to were given when it was recorded.
        """
        for own, tensor in zip(self.inputs, given, strict=True):
            if own is not None:
                own.copy_(tensor)
        self.replay()
        return _results(self.outputs, self.written, given)


class EngineGraphs:
    """The recorded runs of one engine for one program, on one stream of one thread.

    Sizes that come for the first time run as always: recording costs more than a run.  The second time they are
    recorded.  Where there are as many graphs as may be, the one not used for longest gives way, but only once it was
    asked to as often as it was used of late: sizes that come in turn, one more than there is room for, would otherwise
    be recorded at every call.

    Args:
        ports: The engine's inputs and outputs.
        scratch: Makes execution contexts, and has memory for them.
        gpu: What records.
        most: How many graphs are kept.

    Attributes:
        refused: Why the engine cannot be recorded; empty where nothing failed.
    """

    def __init__(self, ports: Ports, scratch: Scratch, gpu: Gpu, most: int) -> None:
        self._ports, self._scratch, self._gpu, self._most = ports, scratch, gpu, most
        self._kept: OrderedDict[_Recorded, EngineGraph] = OrderedDict()
        self._seen: LRUCache[_Recorded, None] = LRUCache(4 * most)  # sizes that came once and may come again
        self._empty: set[Key] = set()
        self._written = ports.manifest.written
        self.refused = ""

    def __len__(self) -> int:
        return len(self._kept)

    def run(self, given: Sequence[torch.Tensor], key: Key, stream: int) -> tuple[torch.Tensor, ...] | None:
        """The outputs; ``None`` where these sizes are to run as always.

        Raises:
            InternalError: ``tensorrt-run`` where TensorRT refuses to run.
            PlatformError: ``context-memory``.
        """
        written = self._ports.in_place(given)
        if any(tensor is not ready for tensor, ready in zip(written, map(readable, written), strict=True)):
            return None  # a graph would write to a copy
        which = key, tuple(tensor.data_ptr() for tensor in written)
        found = self._kept.get(which)
        if found is not None:
            self._kept.move_to_end(which)
            found.credit = min(found.credit + 1, _MOST_CREDIT)
            return found.run(given)
        if self.refused or key in self._empty or not self._has_place(which):
            return None
        return self._recorded(given, which, stream)

    def _has_place(self, key: _Recorded) -> bool:
        """Whether a graph for these sizes is worth recording now."""
        if key not in self._seen:
            self._seen[key] = None
            return False
        self._seen[key] = None  # now the one that came last
        if len(self._kept) < self._most:
            return True
        oldest = next(iter(self._kept.values()))
        if oldest.credit > 0:
            oldest.credit -= 1
            return False
        self._kept.popitem(last=False)
        return True

    def _recorded(self, given: Sequence[torch.Tensor], which: _Recorded, stream: int) -> tuple[torch.Tensor, ...]:
        """Run once on memory that stays, and record the same run.

        What is written to is the caller's own, which the graph keeps alive: no other tensor can be at its address.
        """
        key, own = which[0], {*self._written.values()}
        # In inference mode these would be tensors that nobody may write to outside of it.
        with torch.inference_mode(False), torch.no_grad():
            rows = enumerate(zip(given, self._ports.on_host, strict=True))
            ready = [row[0] if index in own else _own(*row) for index, row in rows]
            context = EngineContext(self._ports, self._scratch, stream)
            context.take(self._scratch.shared(stream))
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
            replay = self._gpu.record(self._ports.device, lambda side: context.enqueue(outputs, side))
        except (RuntimeError, InternalError) as error:
            self.refused = f"they cannot be recorded ({error})"
            return results
        fills = enumerate(zip(ready, self._ports.on_host, self._ports.read, strict=True))
        inputs = tuple(None if host or not read or index in own else tensor for index, (tensor, host, read) in fills)
        self._kept[which] = EngineGraph(context, inputs, outputs, self._written, replay, ready)
        del self._seen[which]
        return results


def _results(
    outputs: Sequence[torch.Tensor], written: Mapping[int, int], given: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """The outputs of a graph as the caller's: copies, and of those in the place of inputs these."""
    return tuple(given[written[index]] if index in written else output.clone() for index, output in enumerate(outputs))


def _own(given: torch.Tensor, host: bool) -> torch.Tensor:
    """A row-major copy that nobody else writes to; PyTorch aligns what it allocates."""
    return given.clone() if host else torch.empty(given.shape, dtype=given.dtype, device=given.device).copy_(given)
