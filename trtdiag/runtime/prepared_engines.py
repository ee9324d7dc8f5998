"""Engines that a graph calls with inputs like those of a call before: nothing is asked twice.

Programs that ``torch.export.load`` reads call the op alone, and so do those of several engines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident, local
from typing import Any
from weakref import ref

import torch

from trtdiag.engine.backend import Runner
from trtdiag.engine.cuda_graph_choice import runs_as_usual
from trtdiag.engine.manifest import Manifest
from trtdiag.graph.tensor_signature import Signature, check_like, signature_of
from trtdiag.runtime.custom_op import PREPARED, Outputs

MOST_PREPARED = 256
"""Own choice: sets of sizes that one thread remembers of an engine or a program; then it begins anew."""

Checked = Callable[[Sequence[Any]], Any]
"""From inputs to what a call gives; ``None`` where they are not like those that it was made for."""


class _Known(local):
    """What one thread knows: an engine's contexts are a thread's own."""

    def __init__(self) -> None:
        self.runs: dict[Signature, Callable[..., Outputs | None]] = {}


class PreparedEngine:
    """Calls of one engine outside of programs that choose how engines run.

    Args:
        engine: Its bytes; when they go, this does.
        text: Its manifest.
        runner: The engine, loaded.
    """

    def __init__(self, engine: torch.Tensor, text: str, runner: Runner) -> None:
        self.runner, self._text, self._known = runner, text, _Known()
        self.engine = ref(engine, partial(_gone, id(engine)))
        self._last: Checked = nothing_known

    def __call__(self, inputs: Sequence[torch.Tensor], engine: torch.Tensor, text: str) -> Outputs | None:
        """The outputs of a call like one before; ``None`` where there was none, or something else has changed since."""
        if self.engine() is not engine or text != self._text or not runs_as_usual():
            return None
        made: Outputs | None = self._last(inputs)
        if made is None:
            run = self._known.runs.get(signature_of(inputs))  # type: ignore[arg-type]  # nothing has the key None
            if run is None:
                return None
            self._last = checked_call(run, inputs)
            made = run(inputs)
        return made

    def learn(self, inputs: Sequence[torch.Tensor]) -> None:
        """Prepare for more calls like the one that has just run."""
        signature = signature_of(inputs)
        if signature is None:
            return
        run = self.runner.prepared(inputs)  # type: ignore[attr-defined]  # it has that
        known = self._known.runs
        if run is None:
            known.pop(signature, None)
            return
        if len(known) >= MOST_PREPARED:
            known.clear()
        known[signature] = getattr(run, "call", run)  # the same without a method around it


def learn(engine: torch.Tensor, text: str, manifest: Manifest, inputs: Sequence[torch.Tensor], runner: Runner) -> None:
    """Prepare for more calls of an engine like the one that has just run.

    Args:
        engine: Its bytes.
        text: Its manifest.
        manifest: The same, read.
        inputs: Those of the call, which were checked.
        runner: The engine, loaded.
    """
    # What is looked at around a run must be looked at each time.
    around = manifest.counts or manifest.written or any(port.is_size for port in manifest.inputs)
    if around or not hasattr(runner, "prepared") or not runs_as_usual():
        return
    known = PREPARED.get(id(engine))
    if known is None or known.engine() is not engine or known.runner is not runner:
        known = PREPARED[id(engine)] = PreparedEngine(engine, text, runner)
    known.learn(inputs)


def forget(runner: object) -> None:
    """Let go of an engine that is loaded no longer."""
    for number, known in list(PREPARED.items()):
        if known.runner is runner:
            PREPARED.pop(number, None)


def _gone(number: int, engine: ref[torch.Tensor]) -> None:
    known = PREPARED.get(number)
    if known is not None and known.engine is engine:  # else it is another's by now
        PREPARED.pop(number, None)  # another thread may have forgotten it meanwhile


def nothing_known(inputs: Sequence[Any]) -> None:
    """No call is known."""
    del inputs


def checked_call(call: Callable[..., Any], like: Sequence[torch.Tensor]) -> Checked:
    """A call that is made for inputs like these, in this thread; ``None`` for others.

    It asks what ``signature_of`` does: with cold caches each question costs microseconds.

    Args:
        call: From inputs to a result.
        like: Inputs that have a signature.
    """
    thread, count, alike = get_ident(), len(like), check_like(like)

    def checked(args: Sequence[Any]) -> Any:
        return call(args) if len(args) == count and get_ident() == thread and alike(*args) else None

    return checked
