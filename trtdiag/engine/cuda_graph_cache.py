"""Which recorded runs are kept, where there is room for some: those of the sizes that come most."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import LRUCache

MOST_CREDIT = 8
"""Own choice: how often others must ask for the place of a recording that was used much before it gives way."""

Key = TypeVar("Key", bound=Hashable)
Recording = TypeVar("Recording")


@dataclass
class Kept(Generic[Recording]):
    """A recording that is kept.

    Attributes:
        recording: It.
        credit: How much it was used since others asked for its place.
        used: Whether it was used without the cache being asked, since that looked.
    """

    recording: Recording
    credit: int = 1
    used: bool = False


class CudaGraphCache(Generic[Key, Recording]):
    """Recordings by what they were made for.

    What comes for the first time runs as always: recording costs more than a run.  The second time it is recorded.
    Where there are as many as may be, the one not used for longest gives way, but only once it was asked to as often as
    it was used of late: sizes that come in turn, one more than there is room for, would otherwise be recorded at every
    call.

    Args:
        most: How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Key, Kept[Recording]] = OrderedDict()
        self._seen: LRUCache[Key, None] = LRUCache(4 * most)  # what came once and may come again

    def __len__(self) -> int:
        return len(self._kept)

    def peek(self, key: Key) -> Recording | None:
        """The recording, without counting it as used."""
        found = self._kept.get(key)
        return None if found is None else found.recording

    def kept(self, key: Key) -> Kept[Recording] | None:
        """The recording, for who uses it again without asking the cache: it must hold it weakly, and set ``used``."""
        return self._kept.get(key)

    def get(self, key: Key) -> Recording | None:
        """The recording, to be used now."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._note_use(key, found)
        return found.recording

    def _note_use(self, key: Key, found: Kept[Recording]) -> None:
        self._kept.move_to_end(key)
        found.credit, found.used = min(found.credit + 1, MOST_CREDIT), False

    def wants(self, key: Key) -> bool:
        """Whether what has just come, and is not kept, is worth recording now."""
        known = key in self._seen
        self._seen[key] = None  # now the one that came last
        if not known:
            return False
        if len(self._kept) < self._most:
            return True
        for place, found in list(self._kept.items()):
            if not found.used:
                break
            self._note_use(place, found)
        oldest = next(iter(self._kept.values()))
        if oldest.credit > 0:
            oldest.credit -= 1
            return False
        self._kept.popitem(last=False)
        return True

    def keep(self, key: Key, recording: Recording) -> None:
        """Keep a recording that was wanted."""
        self._kept[key] = Kept(recording)
        self._seen.pop(key, None)
