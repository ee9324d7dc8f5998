"""A runner that prepares calls, in the place of each engine of the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, dtype

from trtdiag.engine.cuda_graph_choice import chosen_graphs


class Preparing:
    """A runner that prepares, and counts how it is called."""

    def __init__(self, runner: Callable[..., Any]) -> None:
        self.runner, self.whole, self.again = runner, 0, 0
        self.stale = self.casts = False
        self.choices: list[object] = []

    def __call__(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        self.whole += 1
        return self._read(inputs)

    def _read(self, inputs: Sequence[Tensor]) -> Any:
        assert not any(tensor.is_neg() for tensor in inputs)  # an engine reads memory
        return self.runner(inputs)

    def prepared(self, inputs: Sequence[Tensor], given: Sequence[Tensor] = ()) -> Preparing.Run:
        self.choices.append(chosen_graphs())
        casts = [tensor.dtype for tensor in inputs] if self.casts and given else []
        return Preparing.Run(self, [made.clone() for made in self.runner(inputs)], casts)

    class Run:
        def __init__(self, parent: Preparing, like: list[Tensor], casts: Sequence[dtype]) -> None:
            self.parent, self.like, self.casts = parent, like, casts

        def __call__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None = None) -> Any:
            if self.parent.stale:
                return None
            self.parent.again += 1
            if self.casts:
                assert not any(tensor.dtype is to for tensor, to in zip(inputs, self.casts, strict=True))
                inputs = [tensor.to(to) for tensor, to in zip(inputs, self.casts, strict=True)]
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
