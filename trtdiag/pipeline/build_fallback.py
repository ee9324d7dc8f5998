"""Engines that TensorRT finds no kernels for: built without a fusion over the op at fault, or without that op.

TensorRT compiles long stretches of a network as one, and where that fails it says no more than the first and the last
layer.  Which op is at fault comes out when ever less of the network is built.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from trtdiag.engine.build import Engine
from trtdiag.engine.isolated_builds import BUILDER_ENDED
from trtdiag.errors import EngineBuildError
from trtdiag.graph.limit import Limit
from trtdiag.network import Network, Origin
from trtdiag.pipeline.accuracy_repair import (
    ENDS_A_FUSION,
    alike,
    left_words,
    like_it,
    line_of,
    shown_words,
    with_network,
    without_ops,
)
from trtdiag.pipeline.state import State
from trtdiag.verification.engine_search import made_of_data, showing

MOST_REMEDIES = 4
"""Own choice: each is a build of everything, and a search of about ten builds of parts."""


class Builds(Protocol):
    """What builds engines, and parts of them."""

    def all(self, state: State) -> tuple[Engine, ...]:
        """Build the engine of each network."""
        ...

    def part(self, state: State, network: Network) -> None:
        """Build a part of a network for the same sizes, to see whether it can be."""
        ...


def build_or_yield(state: State, builds: Builds) -> State:
    """The state with engines: those of its plan, or of one that yields to TensorRT where that finds no kernels.

    What enters the op at fault becomes an output of the engine, which nobody reads and nothing is fused over; so do its
    like in other blocks.  Where that does not help, these ops are left to PyTorch.

    Raises:
        EngineBuildError: The first refusal, where nothing helps or it has another reason.
        UnsupportedOpError: As ``convert_segments``.
    """
    notes: list[str] = []
    shown: set[object] = set()
    first: EngineBuildError | None = None
    while True:
        try:
            return replace(state, engines=builds.all(state), notes=(*state.notes, *notes))
        except EngineBuildError as error:
            first = first or error
            index = error.engine
            network = state.converted[index].network
            found = None
            limit, why, how = _LIMIT, "TensorRT finds no kernels", ""
            if error.reference == BUILDER_ENDED:
                limit, why, how = _CRASH, "the builder's process ended", f" ({error.because})"
            if _has_place(error) and len(notes) < MOST_REMEDIES:
                found = _Search(state, network, builds).run(error.without_kernel)
            if found is None:
                raise _with_notes(first, notes) from error
        origin, entering = found
        where = f"engine {index} was refused, since {why} from {origin} on{how}"
        numbers = alike(network, entering) if line_of(origin) not in shown else set()
        if numbers:
            shown.add(line_of(origin))
            state = with_network(state, index, showing(network, numbers))
            entered = "of what enters that op and its like"
            notes.append(f"{where}: it was built with {shown_words(numbers)}, {entered}, {ENDS_A_FUSION}")
            continue
        # The like in all engines: after a remedy, each block may be one of its own.
        left = [node for one in state.converted for node in like_it(one.network, origin)]
        if state.plan.options.partition.require_full or not left:
            raise _with_notes(first, notes)
        state = without_ops(state, left, limit)
        notes.append(f"{where}: {left_words(left, 'it')}")


_LIMIT = Limit(
    "engine-refused",
    "TensorRT finds no kernels for an engine that has it",
    "try another TensorRT release, and report it with the model",
)
_CRASH = Limit(
    "builder-crash",
    "TensorRT's builder crashes over an engine that has it",
    "try another TensorRT release, or another --optimization-level, and report it to NVIDIA with the model",
)


def _has_place(error: EngineBuildError) -> bool:
    """Whether one op may be at fault, so that a search finds it: no kernels for it, or a builder that dies of it."""
    return bool(error.without_kernel) or error.reference == BUILDER_ENDED


def _with_notes(error: EngineBuildError, notes: Sequence[str]) -> EngineBuildError:
    """The refusal, with what was tried."""
    if not notes:
        return error
    told = copy.copy(error)
    told.because = f"{error.because}; tried: {'; '.join(notes)}"
    return told


class _Search:
    """Where a network begins to be refused."""

    def __init__(self, state: State, network: Network, builds: Builds) -> None:
        self._state, self._network, self._builds = state, network, builds
        self._of_data = made_of_data(network)
        self._built = False

    def run(self, nodes: Sequence[str]) -> tuple[Origin, tuple[int, ...]] | None:
        """The op, and the fewest tensors that enter it with which it is built where they are outputs.

        No tensors where none were seen to help; ``None`` where parts are refused for other reasons than the whole.
        """
        try:
            count = self._count(nodes)
            if not nodes and not self._built:
                return None  # a builder that dies of every part does not die of an op
            part = beginning(self._network, count, self._of_data)
            origin = self._network.layers[count - 1].origin
            return origin, () if part is None else self._entering(part, origin)
        except _OtherReasonError:
            return None

    def _count(self, nodes: Sequence[str]) -> int:
        """How many layers there are up to the end of the op: of a single one it is known."""
        if len(set(nodes)) == 1:
            of_op = [index for index, placed in enumerate(self._network.layers) if placed.origin.node == nodes[0]]
            return of_op[-1] + 1
        return first_refused(self._network, self._refuses, self._of_data)

    def _entering(self, part: Network, origin: Origin) -> tuple[int, ...]:
        op = [placed for placed in part.layers if placed.origin.node == origin.node]
        own = {port.tensor for port in part.outputs} | {number for placed in op for number in placed.outputs}
        entering = tuple(
            dict.fromkeys(n for placed in op for n in placed.inputs if n in self._of_data and n not in own)
        )
        given = {port.tensor for port in part.inputs}
        entering = tuple(number for number in entering if number not in given)
        for numbers in dict.fromkeys([*((number,) for number in entering), entering]):
            if numbers and not self._refuses(showing(part, set(numbers))):
                return numbers
        return ()

    def _refuses(self, part: Network) -> bool:
        try:
            self._builds.part(self._state, part)
        except EngineBuildError as error:
            if not _has_place(error):
                raise _OtherReasonError from error
            return True
        self._built = True
        return False


class _OtherReasonError(Exception):
    """A part of a network is refused for a reason of its own."""


def first_refused(network: Network, refuses: Callable[[Network], bool], of_data: set[int]) -> int:
    """How many layers of a network that is refused there are up to the end of the op that makes it so.

    Cost: as many builds as the ops can be halved.
    """
    nodes = [placed.origin.node for placed in network.layers]
    ends = [index for index in range(1, len(nodes) + 1) if index == len(nodes) or nodes[index] != nodes[index - 1]]

    def refused(end: int) -> bool:
        part = beginning(network, end, of_data)
        return part is not None and refuses(part)

    return ends[bisect_left(ends, True, hi=len(ends) - 1, key=refused)]  # what ends at the last is refused


def beginning(network: Network, count: int, of_data: set[int]) -> Network | None:
    """The first so many layers as a network of their own: what others read, and outputs, are its outputs.

    ``None`` where that is nothing but sizes.
    """
    layers, rest = network.layers[:count], network.layers[count:]
    made = {number for placed in layers for number in placed.outputs}
    own = [port for port in network.outputs if port.tensor in made]
    read = {number for placed in rest for number in placed.inputs}
    further = sorted((made & read & of_data) - {port.tensor for port in own})
    part = replace(network, layers=layers, outputs=tuple(own))
    return showing(part, set(further)) if own or further else None
