"""A runner that prepares calls, in the place of each engine of the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, dtype, int64

from trtdiag.engine.cuda_graph_choice import chosen_graphs
from trtdiag.graph.operators import int32_pairs


class Preparing:
    """A runner that prepares, and counts how it is called."""

    def __init__(self, runner: Callable[..., Any]) -> None:
        self.runner, self.whole, self.again = runner, 0, 0
        self.stale = self.casts = self.by_address = False
        self.choices: list[object] = []
        self.given: Sequence[Tensor] = ()

    def __call__(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        self.whole += 1
        return self._read(inputs)

    def _read(self, inputs: Sequence[Tensor]) -> Any:
        assert not any(tensor.is_neg() for tensor in inputs)  # an engine reads memory
        return self.runner([int32_pairs(tensor) if self._is_whole(tensor) else tensor for tensor in inputs])

    def _is_whole(self, tensor: Tensor) -> bool:
        """Whether a tensor comes in the place of its pairs: the engines of these tests have no int64."""
        return self.by_address and tensor.dtype is int64 and tensor.is_contiguous()

    def prepared(self, inputs: Sequence[Tensor], given: Sequence[Tensor] = ()) -> Preparing.Run:
        self.choices.append(chosen_graphs())
        casts = [tensor.dtype for tensor in inputs] if self.casts and given else []
        return Preparing.Run(self, [made.clone() for made in self.runner(inputs)], casts)

    class Run:
        def __init__(self, parent: Preparing, like: list[Tensor], casts: Sequence[dtype]) -> None:
            self.parent, self.like, self.casts, self.by_address = parent, like, casts, parent.by_address

        def __call__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None = None) -> Any:
            if self.parent.stale:
                return None
            self.parent.again += 1
            self.parent.given = inputs
            if self.casts:
                changed = [tensor.dtype.is_floating_point for tensor in inputs]
                kinds = zip(inputs, self.casts, changed, strict=True)
                assert not any(tensor.dtype is to for tensor, to, cast in kinds if cast)
                kinds = zip(inputs, self.casts, changed, strict=True)
                inputs = [tensor.to(to) if cast else tensor for tensor, to, cast in kinds]
            made = self.parent._read(inputs)
            if outputs is None:
                return made
            for output, tensor in zip(outputs, made, strict=True):
                output.copy_(tensor)
            return outputs

        def takes(self, outputs: Sequence[Tensor]) -> bool:
            pairs = zip(outputs, self.like, strict=True)
            return all(one.shape == other.shape and one.dtype is other.dtype for one, other in pairs)


class Runners:
    """All of them, by the engines that they run."""

    def __init__(self) -> None:
        self.made: dict[int, Preparing] = {}

    @property
    def one(self) -> Preparing:
        (runner,) = self.made.values()
        return runner

    @property
    def counts(self) -> list[tuple[int, int]]:
        """Of each how often it ran whole, and how often again."""
        return [(runner.whole, runner.again) for runner in self.made.values()]
