"""Which ``torch._check`` lines an export needs where only data decides a size: all of them, from one call."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from sympy.logic.boolalg import Boolean
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.frontend.data_dependent.assume import Assumption, Undecided, assuming, fact_of
from trtdiag.frontend.data_dependent.example_values import DataValues, example_values, made_at, quiet
from trtdiag.frontend.data_dependent.wording import NOT_FLAG, NeededCheck, worded_check
from trtdiag.frontend.failed_export import export_failure
from trtdiag.frontend.torch_private import backed_hints, range_of
from trtdiag.graph.source import Frame
from trtdiag.symbolic import Compare, Condition, Num, Relation, negate, normalise

__all__ = ["DataChecks", "DataValues", "NeededCheck", "assumed_checks", "example_values", "needed_checks"]


MOST_CHECKS = 50


@dataclass(frozen=True)
class DataChecks:
    """The checks that a model needs, and whether the export passes with them.

    Attributes:
        checks: In the order in which the export comes to them.
        passed: Whether an export passed in which these conditions, and no others, were assumed.
        failure: Why not, in torch's words; empty where it passed.
        seconds: What all exports took.
        traced: Whether the whole model was traced, so that no check is missing: true also where only the dims were
            refused afterwards.
        values: What the sizes that come from data are for the example.
    """

    checks: tuple[NeededCheck, ...]
    passed: bool
    failure: str
    seconds: float
    traced: bool
    values: DataValues


def needed_checks(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    *,
    limit: int = MOST_CHECKS,
) -> DataChecks:
    """Find every condition that torch cannot decide because a size comes from data, as true for the example inputs.

    Where torch would stop, the condition is assumed the way the example goes, as a ``torch._check`` before that line
    would do, and the export goes on.  What the example's sizes are is found first, by an export that carries real
    values along.

    Differs: ``torch.export.draft_export`` also carries real values, but records what its own comparison of real and
    symbolic sizes asks as well, and its program is not the one that the plain export gives.

    Args:
        module: The model.
        args: Its example inputs.
        kwargs: Its example inputs by name.
        dynamic_shapes: As for ``torch.export.export``.
        limit: How many checks to look for; with more the export is given up.

    Cost: two exports, a third where several conditions are said as one; the model runs once for real.
    """
    started = time.perf_counter()
    named = dict(kwargs or {})
    values = example_values(module, args, named, dynamic_shapes)

    def attempt(lower_bounds: Mapping[str, int]) -> tuple[CheckRecorder, str, bool]:
        """One export with the assumptions of a recorder, why it failed, and whether it was traced to its end."""
        recorder = CheckRecorder(values, limit, lower_bounds)
        with assuming(recorder.decide, recorder.settled), quiet():
            try:
                torch.export.export(module, args, named or None, dynamic_shapes=dynamic_shapes, strict=False)
            except Exception as error:  # torch raises anything here; the caller reads the words
                failed = export_failure(error, None)
                return recorder, failed.message or failed.error_type, failed.traced
        return recorder, recorder.trouble(), True

    recorder, failure, traced = attempt({})
    lower_bounds = recorder.lower_bounds()
    if lower_bounds and not failure:
        merged, still_fails, _ = attempt(lower_bounds)
        if not still_fails and len(merged.checks) < len(recorder.checks):
            recorder = merged
    return DataChecks(recorder.told(), not failure, failure, time.perf_counter() - started, traced, values)


@contextmanager
def assumed_checks(values: DataValues) -> Iterator[CheckRecorder]:
    """Let exports inside this context go on as with the checks written into the model; the recorder has the checks.

    Args:
        values: The example's sizes, from ``example_values``.
    """
    recorder = CheckRecorder(values, MOST_CHECKS)
    with assuming(recorder.decide, recorder.settled):
        yield recorder


# Decides conditions of data as the example does, and notes each as the line that a model needs.


_GENERAL_SIZES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049)  # neither 0 nor 1, and no multiple of anything


_Excluded = tuple[str, int, int | None]
"""A symbol, a value that it must not have, and the least value that torch knew for it."""


class CheckRecorder:
    """Answers for torch during one export and keeps what it answered.

    Args:
        values: What the example's sizes are.
        limit: How many checks to note; past that torch raises.
        lower_bounds: Symbol -> least value, to be stated in place of single values that the symbol must not have.

    Attributes:
        checks: What was noted, in order.
    """

    def __init__(self, values: DataValues, limit: int, lower_bounds: Mapping[str, int] | None = None) -> None:
        self.checks: list[NeededCheck] = []
        self._values = values
        self._limit = limit
        self._bounds = dict(lower_bounds or {})
        self._excluded: list[_Excluded] = []
        self._placed: list[tuple[Frame | None, Condition | None, str]] = []
        self._worded: dict[str, tuple[NeededCheck, Condition | None]] = {}
        self._trouble = ""

    def decide(self, undecided: Undecided) -> Assumption | None:
        """The example's way of an undecided condition."""
        if len(self.checks) >= self._limit:
            return None
        answer, known = self._answer(undecided)
        if answer is None:
            return None
        facts = [self._stated(undecided, fact_of(undecided.expr, answer))]
        if len(known) == 1 == len(undecided.expr.free_symbols):
            # Where torch cannot conclude the answer from the condition itself, it can from the value.
            (symbol,) = undecided.expr.free_symbols
            facts.append(sympy.Eq(symbol, sympy.sympify(known[str(symbol)])))
        # Worded before torch hears of them: a symbol that is known to be 7 has no name any more.
        self._worded = {str(fact): worded_check(undecided, answer, fact, known) for fact in facts}
        return Assumption(answer, tuple(facts))

    def settled(self, undecided: Undecided, assumption: Assumption, fact: Any | None) -> None:
        """Note the fact that decided it, or that none did."""
        if fact is None:
            words = str(undecided.error).strip().splitlines()[0]
            self._trouble = self._trouble or f"even with {assumption.facts[-1]} assumed: {words}"
            fact = assumption.facts[0]
        check, named = self._worded[str(fact)]
        self._placed.append((check.before, named, check.code))
        if not any(check.code == other.code and check.before == other.before for other in self.checks):
            self.checks.append(check)

    def trouble(self) -> str:
        """Why checks cannot help although the export passed; empty where they do."""
        if self._trouble:
            return self._trouble
        for place, first, second in self._against_each_other():
            return (
                f"{place} runs more than once and the example needs {first!r} the one time, {second!r} "
                "another: no torch._check holds there each time"
            )
        return ""

    def told(self) -> tuple[NeededCheck, ...]:
        """The checks; one that its own line contradicts when it runs again says so, for it cannot be written there."""
        others: dict[tuple[Frame, str], str] = {}
        for place, first, second in self._against_each_other():
            others.setdefault((place, first), second)
            others.setdefault((place, second), first)
        return tuple(
            check
            if check.before is None or (other := others.get((check.before, check.code))) is None
            else replace(
                check,
                note=f"{check.note}; the line runs more than once, and the example needs {other.partition('  #')[0]}"
                " another time: no torch._check holds there each time",
                tried=False,
            )
            for check in self.checks
        )

    def _against_each_other(self) -> Iterator[tuple[Frame, str, str]]:
        """A place, and the lines of two checks there that cannot both hold."""
        for index, (place, condition, text) in enumerate(self._placed):
            for other_place, other, other_text in self._placed[:index]:
                if place is None or place != other_place:
                    continue
                if _contradict(condition, other) or _contradict_as_flags(text, other_text):
                    yield place, other_text, text

    def lower_bounds(self) -> dict[str, int]:
        """Symbol -> least value that says the same as several single values that it must not have."""
        bounds: dict[str, int] = {}
        for symbol in dict.fromkeys(symbol for symbol, _, _ in self._excluded):
            gone = {value for each, value, _ in self._excluded if each == symbol}
            least = min((low for each, _, low in self._excluded if each == symbol and low is not None), default=None)
            if least is not None and len(gone) > 1 and gone == set(range(least, least + len(gone))):
                bounds[symbol] = least + len(gone)
        return bounds

    def _answer(self, undecided: Undecided) -> tuple[Any, dict[str, int | float]]:
        """What the expression is for the example, and the values of its data symbols that are known.

        A size of which nothing is known counts as neither 0 nor 1 for a condition; for a number there is no answer.
        """
        env, expr = undecided.env, undecided.expr
        hints = backed_hints(env)
        known: dict[str, int | float] = {}
        numbers: dict[Any, Any] = {}
        general = iter(_GENERAL_SIZES)
        for symbol in sorted(expr.free_symbols, key=str):
            value = self._values.of(str(symbol), made_at(env, symbol).best)
            if str(symbol) in hints:
                numbers[symbol] = sympy.Integer(hints[str(symbol)])
            elif value is not None:
                known[str(symbol)] = value
                numbers[symbol] = sympy.sympify(value)
            elif symbol.is_integer and isinstance(expr, Boolean) and not expr.is_Symbol:
                most = range_of(env, symbol)[1]
                if most is None or most > 1:  # 0..1 is a truth value: neither is more general
                    size = next(general, _GENERAL_SIZES[-1])
                    numbers[symbol] = sympy.Integer(size if most is None else max(2, min(size, most - 1)))
        answer = expr.xreplace(numbers)
        decided = answer is sympy.true or answer is sympy.false or isinstance(answer, sympy.Integer)
        return (answer if decided else None), known

    def _stated(self, undecided: Undecided, fact: Any) -> Any:
        """The fact as an inequality where that says the same and is the one that a person would write."""
        excluded = _excluded(undecided.env, fact)
        if excluded is None:
            return fact
        self._excluded.append(excluded)
        name, value, least = excluded
        bound = self._bounds.get(name, value + 1 if least == value else None)
        (symbol,) = fact.free_symbols
        return fact if bound is None else sympy.Ge(symbol, bound)


def _excluded(env: ShapeEnv, fact: Any) -> _Excluded | None:
    """The one value that ``fact`` forbids to a symbol of data: 2 of ``Ne(3*u0 + 1, 7)``."""
    if not isinstance(fact, sympy.Ne) or len(fact.free_symbols) != 1:
        return None
    (symbol,) = fact.free_symbols
    line = sympy.Poly(fact.lhs - fact.rhs, symbol) if (fact.lhs - fact.rhs).is_polynomial(symbol) else None
    if line is None or line.degree() != 1 or str(symbol) in backed_hints(env) or not symbol.is_integer:
        return None
    value = -line.nth(0) / line.nth(1)
    return (str(symbol), int(value), range_of(env, symbol)[0]) if value.is_Integer else None


def _contradict(first: Condition | None, second: Condition | None) -> bool:
    """Whether two conditions in the names of one place are each other's opposite, or ask for two values of one size."""
    if first is None or second is None:
        return False
    values = [c for c in (first, second) if isinstance(c, Compare) and c.relation is Relation.EQ]
    two_values = len(values) == 2 and values[0].left == values[1].left and values[0].right != values[1].right
    return negate(first) == normalise(second) or (two_values and all(isinstance(c.right, Num) for c in values))


def _contradict_as_flags(first: str, second: str) -> bool:
    """Whether two lines give one truth value a name and state it the one time, its opposite another."""
    return first != second and first.replace(NOT_FLAG, "flag") == second.replace(NOT_FLAG, "flag")
