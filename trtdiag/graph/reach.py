"""What is reached from where, step by step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

Place = TypeVar("Place", bound=Hashable)


def reached(starts: Iterable[Place], step: Callable[[Place], Iterable[Place]]) -> Iterator[Place]:
    """Yield the starts and all that steps lead to from there, each once; what is not asked for is not looked at."""
    seen = set(starts)
    waiting = list(seen)
    while waiting:
        here = waiting.pop()
        yield here
        further = {each for each in step(here) if each not in seen}
        seen |= further
        waiting += further
