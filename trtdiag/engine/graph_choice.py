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


class choosing_graphs:  # noqa: N801  # used as a statement; a generator would take three times as long
    """Lets engines that run in this block, one call of a program, know the choice."""

    __slots__ = ("_token", "choice")

    def __init__(self, choice: GraphChoice | None) -> None:
        self.choice = choice

    def __enter__(self) -> None:
        self._token: Token[choosing_graphs | None] = _CALL.set(self)

    def __exit__(self, *_: object) -> None:
        _CALL.reset(self._token)


_CALL: ContextVar[choosing_graphs | None] = ContextVar("trtdiag_call", default=None)


def chosen_graphs() -> GraphChoice | None:
    """The choice of the program that is running; ``None`` where it records nothing."""
    call = _CALL.get()
    return None if call is None else call.choice


def running_call() -> object | None:
    """What stands for the call of a program that is running; ``None`` where engines run without a program."""
    return _CALL.get()
