"""Where an engine leaves its own network: it is built again with tensors from inside as outputs, a few times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from trtdiag.errors import TrtdiagError
from trtdiag.graph.node_kinds import reached
from trtdiag.network import Network, Origin, Placed, Port, run
from trtdiag.network.layers import Constant, Shape
from trtdiag.verification.compare import compare
from trtdiag.verification.facts import OutputError, Tolerance

MOST_BUILDS = 10
"""Own choice: three suffice for 4096 layers while the difference stays; the rest is for when it comes and goes."""
MOST_HIDING = 3
"""Own choice: tensors that each make the difference go away when they are an output, before the search ends."""
MOST_TAPS = 16
"""Own choice: each further output takes a layer out of a fusion; few keep the engine near to what it was."""

SHOWN = "inside {}"
"""The name of an output that is there for the engine's sake, by the number of its tensor."""

Runs = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
Rebuild = Callable[[Network], Runs]
"""Builds a network as the engine was built, and gives what runs it."""


@dataclass(frozen=True)
class Found:
    """How far the search came.

    Attributes:
        placed: The first layer whose output was seen to differ; ``None`` where nothing was seen inside.
        max_abs: By how much.
        since: The op before it that was right, where there are layers between the two that could not be told apart.
        note: Why they could not; empty where the layer itself is at fault.
        builds: How many engines were built for it.
        ends: The fewest tensors that were seen to end the difference where they are outputs; empty where none were.
    """

    placed: Placed | None
    max_abs: float
    since: Origin | None
    note: str
    builds: int
    ends: tuple[int, ...] = ()


@dataclass
class EngineSearch:
    """Looks for the first layer whose output in an engine is not what its network gives.

    A tensor that is an output cannot be fused away, so every build is another engine: only builds in which the
    difference is still there count.

    Args:
        network: The engine's; the reference functions say what is right.
        inputs: What the engine was run with.
        errors: Of each output of the engine, beside what the network gives.
        rebuild: Builds the network with further outputs.
        tolerance: The program's.
    """

    network: Network
    inputs: Sequence[torch.Tensor]
    errors: Sequence[OutputError]
    rebuild: Rebuild
    tolerance: Tolerance

    def __post_init__(self) -> None:
        self._reference = on_cpu(self.network)
        self._own = {port.tensor for port in self.network.outputs}
        self._made = {number: placed for placed in self.network.layers for number in placed.outputs}
        self._of_data = made_of_data(self.network)
        outputs = list(zip(self.network.outputs, self.errors, strict=False))
        self._bad, self._max_abs = next((port.tensor, e.max_abs) for port, e in outputs if not e.passed)
        self._right = {port.tensor for port, e in outputs if e.passed}
        self._learned, self._trusting = False, True
        self._builds = 0
        self._refused = ""
        self._mending: list[Placed] = []
        self._ends: tuple[int, ...] = ()

    def run(self) -> Found:
        """Search."""
        most, hiding = MOST_TAPS, set[int]()
        while self._builds < MOST_BUILDS and len(hiding) < MOST_HIDING:
            taps = self._next_taps(hiding, most)
            if not taps:
                break
            seen = self._tapped(taps)
            if seen is not None and not all(error.passed for error in seen.values()):
                self._learn(taps, seen)
                continue
            if seen is not None and not (self._ends and len(self._ends) < len(seen)):
                self._ends = tuple(number for number in seen if number not in self._own)
            if len(taps) > 1:  # fewer outputs leave more of the fusions as they were
                most = len(taps) // 2
            else:
                hiding.update(taps)
                self._mending += [self._made[number] for number in taps if seen is not None]
        return self._found(self._suspects())

    def _next_taps(self, hiding: set[int], most: int) -> list[int]:
        """What to look at: among the suspects at even distances, at last what goes into the wrong layer itself."""
        entering = [number for number in self._entering() if number not in hiding]
        suspects = [number for number in self._suspects() if number not in hiding]
        if self._trusting:
            return spread(suspects or entering, most)
        if not entering:
            return []
        rest = [number for number in suspects if number not in entering]
        return sorted({*entering[:most], *spread(rest, max(0, most - len(entering)))})

    def _found(self, suspects: Sequence[int]) -> Found:
        placed = self._made.get(self._bad)
        if not suspects or not (self._trusting or self._entering()):
            return Found(placed, self._max_abs, None, "", self._builds, self._ends)
        why = self._refused or (
            f"{self._builds} engines were built to look inside"
            if self._builds >= MOST_BUILDS
            else "the difference is gone when tensors between them are outputs of the engine, which changes what"
            " TensorRT fuses: the fusion is at fault, or hides it"
        )
        if self._mending:
            why += f"; it goes with the output of {self._mending[0].origin} shown: an op to keep in PyTorch"
        if not self._learned:
            return Found(None, self._max_abs, None, why, self._builds, self._ends)
        return Found(placed, self._max_abs, self._last_right(suspects), why, self._builds, self._ends)

    def _last_right(self, suspects: Sequence[int]) -> Origin | None:
        """The op whose output enters the first of the suspects."""
        first = self._made[suspects[0]]
        before = [self._made[number] for number in first.inputs if number in self._made]
        ops = [placed.origin for placed in before if not isinstance(placed.layer, Constant)]
        return ops[-1] if ops else None

    def _learn(self, taps: Sequence[int], seen: Mapping[int, OutputError]) -> None:
        wrong = next((number for number in taps if not seen[number].passed), None)
        self._learned = True
        if wrong is not None:
            self._bad, self._max_abs = wrong, seen[wrong].max_abs
            # What follows can hide a fault: then a right tensor says nothing of what it is made from.
            self._trusting = self._trusting and wrong not in self._ancestors(self._right)
        self._right.update(number for number in taps if seen[number].passed)

    def _suspects(self) -> list[int]:
        """In order what the wrong tensor is made from, without what is right or, while that holds, leads to it."""
        right = self._ancestors(self._right) if self._trusting else self._right
        left = self._ancestors([self._bad]) - right - {self._bad}
        return [number for number in self._made if number in left and number in self._of_data]

    def _entering(self) -> list[int]:
        """What goes into the wrong layer and was not seen to be right."""
        made = self._made.get(self._bad)
        numbers = () if made is None else dict.fromkeys(made.inputs)
        return [n for n in numbers if n in self._made and n in self._of_data and n not in self._right]

    def _ancestors(self, numbers: Iterable[int]) -> set[int]:
        return set(reached(numbers, lambda number: self._made[number].inputs if number in self._made else ()))

    def _tapped(self, taps: Sequence[int]) -> dict[int, OutputError] | None:
        """How far these tensors and the one that was wrong are off in an engine that gives them."""
        asked = {*taps, self._bad}
        network = showing(self.network, asked - self._own)
        self._builds += 1
        try:
            given = self.rebuild(network)(self.inputs)
        except TrtdiagError as error:
            self._refused = f"an engine that shows what is between them cannot be made: {error.message}"
            return None
        made = {port.tensor: tensor for port, tensor in zip(network.outputs, given, strict=True)}
        right: dict[int, torch.Tensor] = {}

        def see(placed: Placed, outputs: tuple[torch.Tensor, ...]) -> None:
            right.update((n, tensor) for n, tensor in zip(placed.outputs, outputs, strict=True) if n in asked)

        run(self._reference, [tensor.cpu() for tensor in self.inputs], see)
        return {n: compare(str(n), right[n], made[n].cpu(), self.tolerance) for n in sorted(asked)}


def spread(items: Sequence[int], most: int) -> list[int]:
    """At most so many of the items, at even distances, in order."""
    if len(items) <= most:
        return list(items)
    return [items[(index + 1) * len(items) // (most + 1)] for index in range(most)]


def made_of_data(network: Network) -> set[int]:
    """The tensors that elements of inputs go into; what sizes alone decide, engines compute on the host."""
    found = {port.tensor for port in network.inputs if network.tensors[port.tensor].values is None}
    for placed in network.layers:
        if not isinstance(placed.layer, Shape) and found.intersection(placed.inputs):
            found.update(placed.outputs)
    return found


def showing(network: Network, tensors: Iterable[int]) -> Network:
    """The network with these tensors as further outputs."""
    further = tuple(Port(SHOWN.format(number), number) for number in sorted(tensors))
    return replace(network, outputs=(*network.outputs, *further))


def on_cpu(network: Network) -> Network:
    """The network with its constants on the CPU, where the reference functions run."""
    return replace(network, weights={key: weight.cpu() for key, weight in network.weights.items()})
