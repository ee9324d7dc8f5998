"""How engines run, whether recorded as CUDA graphs for one: a choice of the program that calls them."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass, replace


class GraphChoice:
    """One program's choice; graphs that engines keep for it go with it.

    Args:
        most: For how many sizes each engine keeps a graph, on each stream of each thread.
    """

    __slots__ = ("__weakref__", "most")

    def __init__(self, most: int) -> None:
        self.most = most


@dataclass(frozen=True)
class RtxChoice:
    """One program's choice of how TensorRT-RTX runs its engines; ``CompiledProgram.rtx_runtime`` says what each does.

    Attributes:
        cache: The file that keeps compiled kernels.
        cuda_graphs: Whether TensorRT-RTX records runs as CUDA graphs by itself.
        kernel_specialization: When kernels are compiled for sizes; ``None``: as TensorRT-RTX does by itself.
    """

    cache: str | None = None
    cuda_graphs: bool = False
    kernel_specialization: str | None = None

    def without_graphs(self) -> RtxChoice:
        """The same, where another records the runs."""
        return replace(self, cuda_graphs=False) if self.cuda_graphs else self


_USUAL = RtxChoice()


class choosing_graphs:  # noqa: N801  # used as a statement; a generator would take three times as long
    """Lets engines that run in this block, one call of a program, know the choice.

    Args:
        choice: How its runs are recorded.
        rtx: How TensorRT-RTX runs its engines.
        held: Is given what a graph that is recorded in this block needs for as long as it is there; where there is no
            such list, engines keep that themselves, for as long as they are loaded.
    """

    __slots__ = ("_token", "choice", "held", "rtx")

    def __init__(
        self, choice: GraphChoice | None, rtx: RtxChoice = _USUAL, held: list[tuple[object, object]] | None = None
    ) -> None:
        self.choice, self.rtx, self.held = choice, rtx, held

    def __enter__(self) -> None:
        self._token: Token[choosing_graphs | None] = _CALL.set(self)

    def __exit__(self, *_: object) -> None:
        _CALL.reset(self._token)


_CALL: ContextVar[choosing_graphs | None] = ContextVar("trtdiag_call", default=None)


def chosen_graphs() -> GraphChoice | None:
    """The choice of the program that is running; ``None`` where it records nothing."""
    call = _CALL.get()
    return None if call is None else call.choice


def chosen_rtx() -> RtxChoice:
    """How TensorRT-RTX is to run the engines of the program that is running."""
    call = _CALL.get()
    return _USUAL if call is None else call.rtx


def runs_as_usual() -> bool:
    """Whether nobody has chosen how engines run."""
    call = _CALL.get()
    return call is None or (call.choice is None and (call.rtx is _USUAL or call.rtx == _USUAL))


def running_call() -> choosing_graphs | None:
    """What stands for the call of a program that is running; ``None`` where engines run without a program."""
    return _CALL.get()
