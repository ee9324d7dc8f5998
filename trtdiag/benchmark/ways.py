"""The ways to run a program that there are, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from trtdiag.benchmark.clock import Call
from trtdiag.benchmark.original import Original
from trtdiag.errors import UserError
from trtdiag.report.comparison import OURS
from trtdiag.runtime.compiled import CompiledProgram

# A way is a module with a function ``prepare``; adding one is adding that module and its line here.
_HOMES = {
    "eager": "trtdiag.benchmark.eager",
    "inductor": "trtdiag.benchmark.inductor",
    "onnx-trt": "trtdiag.benchmark.onnx_trt",
    "cuda-graphs": "trtdiag.benchmark.cuda_graphs",
}
WAYS = tuple(_HOMES)
"""What a compiled program can be timed against; ``cuda-graphs`` is the program itself, with its runs recorded."""


@dataclass(frozen=True)
class Ready:
    """A way that can run.

    Attributes:
        bind: Gives the call for these arguments.
        computes: What it computes in, in words.
        build_s: What preparing it took, where that is known before the first call.
        build_is_first_call: Whether the first call of each set of sizes prepares it instead.
        bytes: What a call takes beside what PyTorch counts; ``None`` where that is not known.
    """

    bind: Callable[[tuple[Any, ...], dict[str, Any]], Call]
    computes: str = ""
    build_s: float | None = None
    build_is_first_call: bool = False
    bytes: int | None = 0


class Prepare(Protocol):
    """The function ``prepare`` of a way's module."""

    def __call__(self, original: Original, compiled: CompiledProgram) -> Ready:
        """The way, ready to run.

        Raises:
            PlatformError: Something is missing here.
            Exception: Whatever else it fails with: it is a row that says so.
        """
        ...


def preparers(names: tuple[str, ...]) -> Mapping[str, Prepare]:
    """Return the functions of these ways.

    Raises:
        UserError: ``unknown-way``.
    """
    unknown = [name for name in names if name not in _HOMES]
    if unknown:
        raise UserError(
            f"there is nothing named {unknown[0]!r} to compare with",
            because=f"{OURS} is timed against {', '.join(WAYS)}",
            fix="choose among them",
            reference="unknown-way",
        )
    return {name: import_module(_HOMES[name]).prepare for name in dict.fromkeys(names)}
