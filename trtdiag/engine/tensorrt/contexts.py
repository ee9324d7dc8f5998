"""The execution contexts of an engine, by thread and stream."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import local
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from trtdiag.engine.cuda_graph_choice import GraphChoice, running_call
from trtdiag.engine.tensorrt.context import EngineContext
from trtdiag.engine.tensorrt.cuda_graphs import EngineGraphs
from trtdiag.engine.tensorrt.engine_bindings import Key
from trtdiag.errors import UserError

MOST_STREAMS = 4
"""Own choice: streams that one thread runs one engine on; each context holds the engine's scratch memory."""


@dataclass
class Place:
    """What one thread keeps for one stream.

    Attributes:
        context: For runs that are not replayed; made when the first one comes.
        graphs: Recorded runs of each program that asked for them; they go when it takes that back.
    """

    context: EngineContext | None = None
    graphs: WeakKeyDictionary[GraphChoice, EngineGraphs] = field(default_factory=WeakKeyDictionary)


class _Places(local):
    """Those of one thread by stream, which must not share scratch memory, by variant and profile."""

    def __init__(self, most: int) -> None:
        self.by_stream: LRUCache[tuple[int, Hashable, int], Place] = LRUCache(most)


class Contexts:
    """The contexts of one engine.

    Args:
        profiles: How many profiles it has; each has contexts of its own.
    """

    def __init__(self, profiles: int = 1) -> None:
        self._places = _Places(MOST_STREAMS * profiles)
        self._given_away: list[tuple[object, object]] = []

    def place(self, stream: int, variant: Hashable = None, profile: int = 0) -> Place:
        """What this thread keeps for a stream; of too many streams the one not used for longest is forgotten."""
        known = self._places.by_stream
        key = stream, variant, profile
        place = known.get(key)
        if place is None:
            place = known[key] = Place()
        return place

    def for_recording(self, key: Key) -> EngineContext:
        """A context that ran with these sizes in this thread, for a graph that another records.

        A graph stays bound to its context, whose sizes must not change any more, and while CUDA records no memory can
        be had for a new one.  So one that is ready for it is given away; the next run makes another.  A program that
        has the same engine twice gets it twice: within a graph its runs follow each other.

        Raises:
            UserError: ``recorded-before-run`` where there is none.
        """
        call = running_call()
        held = None if call is None else call.held
        owner, kept = (call, self._given_away) if held is None else (self, held)
        for earlier, given in reversed(kept):
            if call is not None and earlier is owner and isinstance(given, EngineContext) and given.key == key:
                return given
        for place in self._places.by_stream.values():
            if place.context is not None and place.context.key == key:
                given, place.context = place.context, None
                given.given_away = True
                kept.append((owner, given))
                return given
        raise UserError(
            "a CUDA graph is being recorded, and an engine is not ready for it",
            because="an engine gets its memory when it first runs with sizes, and cannot while a graph is recorded;"
            f" this thread has not just run it with {[tuple(shape) for shape in key[0]]}",
            fix="call the program once with the same sizes before each recording, in the same thread; or let it record"
            " by itself: compiled.cuda_graphs(8)",
            reference="recorded-before-run",
        )
