"""Calls of a program of one engine that are like calls before: nothing is asked twice."""

from __future__ import annotations

from collections.abc import Sequence
from threading import local
from typing import Any

import torch

from trtdiag.engine.backend import Prepared, Signature, signature_of
from trtdiag.runtime.flat_program import FlatProgram
from trtdiag.runtime.single_engine import SingleEngine

MOST_PREPARED = 256
"""Own choice: sets of sizes that one thread remembers; then it begins anew."""


class _Known(local):
    """What one thread knows: an engine's contexts are a thread's own."""

    def __init__(self) -> None:
        self.runs: dict[Signature, Prepared] = {}


class PreparedCalls:
    """The calls of one program, for as long as it makes the same choices of how its engine runs.

    Args:
        program: The program.
        single: Its engine.
    """

    def __init__(self, program: FlatProgram, single: SingleEngine) -> None:
        self._program, self._single, self._known = program, single, _Known()

    def __call__(self, args: tuple[Any, ...], outputs: Sequence[torch.Tensor] | None = None) -> Any:
        """The result of a call like one before; ``None`` where there was none, or something else has changed since.

        Args:
            args: The program's inputs, all by place and none nested.
            outputs: Where to write, in the order of the results; new memory where not given.
        """
        signature = signature_of(args)
        run = self._known.runs.get(signature) if signature is not None else None
        made = None if run is None else self._single.again(run, args, outputs)
        return None if made is None else self._program.nested(made)

    def learn(self, args: Sequence[Any]) -> None:
        """Prepare for more calls like the one that has just run."""
        signature = signature_of(args)
        if signature is None:
            return
        run = self._single.prepared(args)
        known = self._known.runs
        if run is None:
            known.pop(signature, None)
            return
        if len(known) >= MOST_PREPARED:
            known.clear()
        known[signature] = run
