"""Whether runs of engines are recorded as CUDA graphs: a choice of the program that calls them."""

from __future__ import annotations

from contextvars import ContextVar, Token


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


class choosing_graphs:  # noqa: N801  # used as a statement; a generator would take three times as long
    """Lets engines that run in this block know the choice."""

    __slots__ = ("_choice", "_token")

    def __init__(self, choice: GraphChoice | None) -> None:
        self._choice = choice

    def __enter__(self) -> None:
        self._token: Token[GraphChoice | None] = _CHOSEN.set(self._choice)

    def __exit__(self, *_: object) -> None:
        _CHOSEN.reset(self._token)
