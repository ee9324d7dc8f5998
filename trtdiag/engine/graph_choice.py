"""Whether runs of engines are recorded as CUDA graphs: a choice of the program that calls them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class GraphChoice:
    """One program's choice; graphs that engines keep for it go with it.

    Args:
        most: For how many sizes each engine keeps a graph, on each stream of each thread.
    """

    __slots__ = ("__weakref__", "most")

    def __init__(self, most: int) -> None:
        self.most = most


_CHOSEN: ContextVar[GraphChoice | None] = ContextVar("trtdiag_cuda_graphs", default=None)


def chosen_graphs() -> GraphChoice | None:
    """The choice of the program that is running; ``None`` where it records nothing."""
    return _CHOSEN.get()


@contextmanager
def choosing_graphs(choice: GraphChoice | None) -> Iterator[None]:
    """Let engines that run in this block know the choice."""
    token = _CHOSEN.set(choice)
    try:
        yield
    finally:
        _CHOSEN.reset(token)
