"""Runs a function in a child process under a time limit: an export can hang, crash or eat a process's state."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

import torch

from trtdiag.errors import TrtdiagError
from trtdiag.frontend.torch_lock import TORCH_TURN

T = TypeVar("T")
_POLL_S = 0.2


@dataclass(frozen=True)
class Ended(Generic[T]):
    """How a run ended: with a ``value``, or with ``failure`` saying why there is none.

    ``timed_out`` is set where the limit was hit; ``here`` where the function ran in this process, without a limit.
    """

    value: T | None
    failure: str = ""
    timed_out: bool = False
    here: bool = False


def no_child() -> str:
    """Why no child can be forked here; empty where it can."""
    if not hasattr(os, "fork"):
        return "this system cannot fork"
    # A forked child cannot use the CUDA context of its parent.
    in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return "CUDA is in use in this process" if in_use else ""


def run_in_child(function: Callable[[], T], limit_s: float) -> Ended[T]:
    """The result of ``function``, run in a forked child that is killed after ``limit_s`` seconds.

    The child shares this process's memory (a model is not copied), and what it returns must be picklable. Where forking
    is not possible the function runs here, without a limit.

    Raises:
        TrtdiagError: Raised by the function itself.
    """
    if no_child():
        with TORCH_TURN:
            return Ended(function(), here=True)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_serve, args=(function, theirs), daemon=True)
    # What another thread holds at this moment would be held in the child for ever.
    with TORCH_TURN:
        child.start()
    theirs.close()
    deadline = time.monotonic() + limit_s
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return Ended(None, f"it took longer than {limit_s:g} s (--time-limit, time_limit_s=)", timed_out=True)
            if ours.poll(min(_POLL_S, left)):
                return _received(ours, child)
            if not child.is_alive() and not ours.poll(0):
                return Ended(None, _death(child.exitcode))
    finally:
        ours.close()
        if child.is_alive():
            child.kill()
        child.join()


def _received(ours: Connection, child: Any) -> Ended[Any]:
    try:
        kind, value = pickle.loads(ours.recv_bytes())
    except EOFError:
        child.join()
        return Ended(None, _death(child.exitcode))
    if kind == "error":
        if isinstance(value, TrtdiagError):
            raise value
        return Ended(None, str(value))
    return Ended(value)


def _death(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"its process was ended by signal {-exit_code}" + (" (out of memory?)" if exit_code == -9 else "")
    return f"its process ended with code {exit_code}"


def _serve(function: Callable[[], Any], pipe: Connection) -> None:
    # Threads of the parent do not exist here: a parallel region would wait for them for ever.
    torch.set_num_threads(1)
    # The parent's terminal shows a progress bar, and what torch logs about a refused export comes back in words.
    sys.stdout, sys.stderr = StringIO(), StringIO()
    logging.disable(logging.CRITICAL)
    try:
        answer = pickle.dumps(("value", function()))
    except TrtdiagError as error:
        answer = pickle.dumps(("error", error))
    except Exception as error:  # crosses the process border as text
        answer = pickle.dumps(("error", f"{type(error).__name__}: {error}"))
    pipe.send_bytes(answer)
    pipe.close()
