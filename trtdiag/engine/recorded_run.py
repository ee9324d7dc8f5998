"""A run that was recorded as a CUDA graph, on memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from trtdiag.engine.tensorrt.gpu import Gpu, Replay

Run = Callable[..., Sequence[Any]]
"""From flat inputs, each by place, to flat results."""


@dataclass(frozen=True)
class RecordedRun:
    """One recorded run.

    Attributes:
        inputs: Where it reads; numbers are as they were.
        outputs: Where it writes; numbers are as they were.
        replay: Runs it.
        given: The results that are inputs, by index: which input.
        held: What engines keep for it: contexts, and their scratch memory.
    """

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    replay: Replay
    given: Mapping[int, int] = field(default_factory=dict)
    held: Sequence[object] = ()

    def run(self, leaves: Sequence[Any]) -> list[Any]:
        """The results, in new memory."""
        for own, leaf in zip(self.inputs, leaves, strict=True):
            if isinstance(own, torch.Tensor):
                own.copy_(leaf)
        self.replay()
        return [
            leaves[self.given[index]] if index in self.given else _copy(output)
            for index, output in enumerate(self.outputs)
        ]


def record(
    run: Run,
    leaves: Sequence[Any],
    device: torch.device,
    gpu: Gpu,
    given: Mapping[int, int] | None = None,
    held: Sequence[object] = (),
) -> RecordedRun:
    """Record a run on copies of its inputs, which ran with them before.

    Args:
        run: Gives the same work each time.
        leaves: Its inputs.
        device: The GPU.
        gpu: What records.
        given: As ``RecordedRun`` has it.
        held: As ``RecordedRun`` has it.

    Raises:
        RuntimeError: CUDA cannot record it.
        TrtdiagError: An engine in it cannot be recorded.
    """
    made: list[Any] = []

    def work(stream: int) -> None:
        del stream  # it is PyTorch's current one
        made[:] = run(*own)

    # In inference mode these would be tensors that nobody may write to outside of it.
    with torch.inference_mode(False), torch.no_grad():
        own = tuple(_copy(leaf) for leaf in leaves)
        replay = gpu.record(device, work)
    return RecordedRun(own, tuple(made), replay, given or {}, held)


def _copy(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
