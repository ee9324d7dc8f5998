"""Calls of a program of one engine that are like calls before: nothing is asked twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import local
from typing import Any

from trtdiag.engine.backend import Prepared
from trtdiag.graph.tensor_signature import Signature, signature_of
from trtdiag.runtime.flat_program import FlatProgram
from trtdiag.runtime.in_place_execution import is_writable, may_be_written
from trtdiag.runtime.prepared_engines import MOST_PREPARED, Checked, checked_call, nothing_known
from trtdiag.runtime.single_engine import Entering, SingleEngine

MOST_INTO = 64
"""Own choice: places for results of one set of sizes that one thread remembers; then it begins anew."""


@dataclass
class _Call:
    """How calls of one signature run.

    Attributes:
        run: The engine.
        call: The whole call.
        entering: Makes what the engine takes of the program's inputs.
        into: Whether the engine can write into memory, by what that is like and where all of a call is.
    """

    run: Prepared
    call: Callable[..., Any]
    entering: Entering
    into: dict[Hashable, bool] = field(default_factory=dict)


class _Known(local):
    """What one thread knows: an engine's contexts are a thread's own."""

    def __init__(self) -> None:
        self.calls: dict[Signature, _Call] = {}


class PreparedCalls:
    """The calls of one program, for as long as it makes the same choices of how its engine runs.

    Args:
        program: The program.
        single: Its engine.

    Attributes:
        last: A call like the last one of any thread, from the program's inputs to what this gives for them; ``None``
            where it is another thread's, or for other inputs: then this must be asked.
    """

    def __init__(self, program: FlatProgram, single: SingleEngine) -> None:
        self._program, self._single, self._known = program, single, _Known()
        self.last: Checked = nothing_known

    def __call__(self, args: tuple[Any, ...]) -> Any:
        """The result of a call like one before; ``None`` where there was none, or something else has changed since.

        Args:
            args: The program's inputs, all by place and none nested.
        """
        found = self._known.calls.get(signature_of(args))  # type: ignore[arg-type]  # nothing has the signature None
        if found is None:
            return None
        self.last = checked_call(found.call, args)
        return found.call(args)

    def into(self, args: tuple[Any, ...], outputs: Sequence[Any]) -> bool:
        """Whether a call like one before has written its results into memory that is given for them.

        Args:
            args: The program's inputs, all by place and none nested.
            outputs: Tensors in the order of the results.
        """
        signature, where = signature_of(args), signature_of(outputs)
        found = None if signature is None or where is None else self._known.calls.get(signature)
        if found is None or not all(map(is_writable, outputs)):
            return False
        which = where, *[tensor.data_ptr() for tensor in args], *[tensor.data_ptr() for tensor in outputs]
        if which not in found.into:
            if len(found.into) >= MOST_INTO:
                found.into.clear()
            apart = may_be_written(outputs, args)
            found.into[which] = apart and self._single.can_write(found.run, outputs)
        return found.into[which] and self._single.run_into(found.run, found.entering(args), outputs)

    def learn(self, args: Sequence[Any]) -> None:
        """Prepare for more calls like the one that has just run."""
        signature = signature_of(args)
        if signature is None:
            return
        run = self._single.prepared(args)
        known = self._known.calls
        if run is None:
            known.pop(signature, None)
            return
        if len(known) >= MOST_PREPARED:
            known.clear()
        entering = self._single.entering(run, args)
        call = self._single.call_of(run, entering, self._program.is_leaf, self._program.nested)
        known[signature] = _Call(run, call, entering)
