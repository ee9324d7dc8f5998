"""What tracing asks of the program's ShapeEnv: noted, kept out of it, and proven over the ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.frontend.program import Program
from trtdiag.frontend.read_guards import read_guards
from trtdiag.symbolic import ExpressionError, Relation, check, compare, condition_from_sympy, from_sympy, negate, number
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.ranges import Range

LIMIT_S = 2.0
"""For one proof; the conditions of a decomposition are small, and what takes longer counts as not proven."""


@contextmanager
def asking(env: ShapeEnv | None) -> Iterator[dict[Any, Any]]:
    """Inside, no guard is added to ``env``; yields each expression that was evaluated, with its answer."""
    answers: dict[Any, Any] = {}
    if env is None:
        yield answers
        return
    original = env.evaluate_expr

    def evaluate_expr(orig_expr: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(orig_expr, *args, **kwargs)
        answers.setdefault(orig_expr, answer)
        return answer

    env.evaluate_expr = evaluate_expr  # type: ignore[method-assign]  # of this object only, and restored below
    try:
        with env.suppress_guards():
            yield answers
    finally:
        del env.evaluate_expr


class Proofs:
    """Whether answers that were given for the example's sizes hold for all sizes of the ranges."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[Any, str] = {}
        self._proven: dict[Any, bool] = {}

    @cached_property
    def _given(self) -> list[Condition]:
        # Without those that cannot be read: fewer premises prove less, never more.
        return [read.condition for read in read_guards(self._program) if read.condition is not None]

    @cached_property
    def _box(self) -> dict[str, Range]:
        """The ranges as an export sees them: no size of an input is taken to be 0 or 1 (torch 2.13, ``ShapeEnv``).

        A live program's ShapeEnv still starts at 2, a loaded one's at the declared minimum; both are lowered alike.
        """
        return {
            symbol: Range(2, allowed.max) if _assumed_large(symbol, allowed) else allowed
            for symbol, allowed in self._program.ranges.items()
        }

    def doubt(self, env: ShapeEnv | None, answers: dict[Any, Any]) -> str:
        """The first answer that is not shown to hold everywhere, as text; empty where all are."""
        for expr, answer in answers.items():
            # What torch decides from its own ranges would have become no guard in an export either.
            if env is None or not getattr(expr, "free_symbols", None) or env._maybe_evaluate_static(expr) is not None:
                continue
            key = (expr, str(answer))
            if key not in self._known:
                text = str(expr) if answer is sympy.true or answer is True else f"{expr} being {answer}"
                self._known[key] = "" if self._holds(expr, answer) else text
            if self._known[key]:
                return self._known[key]
        return ""

    def hold(self, condition: Condition, facts: Sequence[Condition] = ()) -> bool:
        """Whether a condition is proven for all sizes of the ranges, 0 and 1 included, that the guards allow."""
        key = (condition, tuple(facts))
        if key not in self._proven:
            box = self._program.ranges
            result = check(condition, box, given=[*facts, *self._given], limit_s=LIMIT_S)
            self._proven[key] = result.verdict == "holds"
        return self._proven[key]

    def _holds(self, expr: Any, answer: Any) -> bool:
        try:
            if isinstance(expr, sympy.logic.boolalg.Boolean):
                condition = condition_from_sympy(expr)
                wanted = condition if bool(answer) else negate(condition)
            else:
                wanted = compare(Relation.EQ, from_sympy(expr), number(int(answer)))  # type: ignore[arg-type]
            result = check(wanted, self._box, given=self._given, limit_s=LIMIT_S)
        except (ExpressionError, TypeError, ValueError):
            return False
        return result.verdict == "holds"


def _assumed_large(symbol: str, allowed: Range) -> bool:
    born_from_data = symbol.startswith("u")
    return not born_from_data and (allowed.min is None or allowed.min < 2) and (allowed.max is None or allowed.max > 1)
