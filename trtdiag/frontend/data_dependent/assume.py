"""Lets an export go on where torch would stop at a condition that only data decides."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import sympy
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv


@dataclass(frozen=True)
class Undecided:
    """A condition, or a size wanted as a Python number, at which torch would stop.

    Attributes:
        env: The ShapeEnv of the export.
        expr: torch's expression: a condition, or the wanted size.
        frame: The Python frame of the moment.
        error: What torch would raise.
    """

    env: ShapeEnv
    expr: Any
    frame: FrameType
    error: GuardOnDataDependentSymNode


@dataclass(frozen=True)
class Assumption:
    """What to go on with.

    Attributes:
        answer: What the expression is taken for: true, false or an integer.
        facts: Conditions that torch is told to be true, one after the other until it concludes the answer.
    """

    answer: Any
    facts: tuple[Any, ...]


Decide = Callable[[Undecided], "Assumption | None"]
Settled = Callable[[Undecided, Assumption, Any], None]


def fact_of(expr: Any, answer: Any) -> Any:
    """The condition that says that ``expr`` is ``answer``."""
    if answer is sympy.true:
        return expr
    return sympy.Not(expr) if answer is sympy.false else sympy.Eq(expr, answer)


@contextmanager
def assuming(decide: Decide, settled: Settled) -> Iterator[None]:
    """Ask ``decide`` wherever torch would raise; ``None`` from it lets torch raise.

    The facts of the answer go to torch as ``torch._check`` would hand them over: they are asserted in the graph, and
    torch concludes from them.  ``settled`` hears from which one, or ``None`` where torch cannot decide the expression
    even then; the answer holds all the same.
    """
    original = ShapeEnv._evaluate_expr

    def evaluate(self: ShapeEnv, orig_expr: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, orig_expr, *args, **kwargs)
        except GuardOnDataDependentSymNode as error:
            undecided = Undecided(self, orig_expr, sys._getframe(1), error)
            assumption = decide(undecided)
            if assumption is None:
                raise
        for fact in assumption.facts:
            self.guard_or_defer_runtime_assert(fact, f"assumed: {fact}")
            try:
                known = original(self, orig_expr, *args, **kwargs)
            except GuardOnDataDependentSymNode:
                continue
            if bool(known == assumption.answer):
                settled(undecided, assumption, fact)
                return assumption.answer
        settled(undecided, assumption, None)
        return assumption.answer

    # torch looks for the innermost frame outside its own files, for instance to see whether a condition belongs to
    # an ``assert``; this frame must count as one of its own.
    evaluate.__code__ = evaluate.__code__.replace(co_filename=symbolic_shapes.__file__)
    ShapeEnv._evaluate_expr = evaluate  # type: ignore[method-assign]  # restored below, whatever happens
    try:
        yield
    finally:
        ShapeEnv._evaluate_expr = original  # type: ignore[method-assign]
