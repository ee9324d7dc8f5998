"""Questions to z3: is there an assignment inside a box for which conditions hold, and which is the smallest.

Python's semantics are kept: ``//`` and ``%`` round towards minus infinity for divisors of either sign, true division
is exact, and a comparison that divides by zero does not hold.  z3 is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partialmethod, reduce
from threading import local
from time import monotonic
from typing import Any

from trtdiag.symbolic.build import Number
from trtdiag.symbolic.expr import Condition, Expr, Num, Relation
from trtdiag.symbolic.fold import Fold
from trtdiag.symbolic.ranges import Range

DEFAULT_LIMIT_S = 5.0
MOST_POWER = 8
UNITS_PER_S = 2_500_000
"""z3's units of work (``rlimit``) in a second of an idle core: 2.3 to 4.7 million in most questions that run long,
measured with z3 5.4 on an AMD EPYC."""
PATIENCE = 2.0
"""Own choice: how much longer than its limit a search may take on the clock, on a machine that is busy or slow.

Some questions do few units a second (remainders by large primes: 0.2 million), so that the clock ends them: with 10 in
the place of 2 one of them took 50 s."""
MOST_UNITS = (1 << 32) - 1
"""What z3 takes for a limit has 32 bits."""


@dataclass(frozen=True, slots=True)
class SmtResult:
    """``sat`` with an assignment, ``unsat``, or ``unknown`` (time ran out or z3 gave up; ``why`` says it).

    ``smallest`` is True where the assignment was shown to be the least (least maximum, then lexicographic).
    """

    status: str
    model: Mapping[str, int] | None = None
    smallest: bool = False
    why: str = ""


class UntranslatableError(Exception):
    """z3 has no form for an expression; the reason is a readable clause."""


@dataclass(frozen=True, slots=True)
class _Term:
    """``top / bottom`` with ``bottom > 0`` where all ``sides`` hold; z3 terms or plain integers."""

    top: Any
    bottom: Any
    sides: tuple[Any, ...] = ()


class _Work(local):
    """What the searches of a thread cost so far."""

    units = 0


_work = _Work()


def worked_s() -> float:
    """What z3 has worked for this thread, as seconds of an idle core: a clock for budgets of several searches."""
    return _work.units / UNITS_PER_S


def find(
    conditions: Iterable[Condition],
    box: Mapping[str, Range],
    limit_s: float = DEFAULT_LIMIT_S,
    *,
    refuting: Condition | None = None,
    least: bool = False,
) -> SmtResult:
    """An assignment inside ``box`` for which all ``conditions`` hold, and ``refuting`` does not.

    Args:
        conditions: All must hold.
        box: The range of each symbol; a symbol without one may have any value.
        limit_s: For everything together, in seconds of an idle core, counted in z3's own units of work.  So the answer
            does not depend on how busy the machine is, unless ``PATIENCE`` times as much time passes.
        refuting: Must be false or not defined (its negation among ``conditions`` would have to be defined).
        least: Look for the smallest assignment: the least maximum, then the least value symbol by symbol by name.
    """
    import z3

    # Of its own, so that neither the work nor the answer depends on what was asked before.
    context = z3.Context()
    translator = _Translator(z3, context)
    solver = z3.Solver(ctx=context)
    search = _Search(solver, translator.symbols, limit_s)
    try:
        stated = [translator.condition(condition) for condition in conditions]
        if refuting is not None:
            stated.append(z3.Not(translator.condition(refuting)))
    except UntranslatableError as error:
        return SmtResult("unknown", why=str(error))
    for name in sorted(box):
        translator.symbol(name)
    for name, variable in translator.symbols.items():
        range_ = box.get(name, Range())
        if range_.min is not None:
            solver.add(variable >= range_.min)
        if range_.max is not None:
            solver.add(variable <= range_.max)
    solver.add(*stated)
    status = search.check()
    if status != "sat":
        return SmtResult(status, why="" if status == "unsat" else _why(solver.reason_unknown()))
    smallest = least and search.minimise()
    return SmtResult("sat", search.model, smallest)


class _Search:
    """Asks one solver again and again, always keeping the last model.

    All questions together may take ``limit_s`` in units of z3, and ``PATIENCE`` times as much on the clock.
    """

    def __init__(self, solver: Any, symbols: Mapping[str, Any], limit_s: float) -> None:
        self.solver = solver
        self.symbols = symbols
        self.model: dict[str, int] = {}
        self._deadline = monotonic() + PATIENCE * limit_s
        self._left_units = min(int(limit_s * UNITS_PER_S), MOST_UNITS)
        self._counted = 0  # by z3, since the search began

    def check(self, *extra: Any) -> str:
        left_ms = int((self._deadline - monotonic()) * 1000)
        if left_ms <= 0 or self._left_units <= 0:  # to z3 both would be no limit
            return "unknown"
        self.solver.set(timeout=left_ms, rlimit=self._left_units)
        answer = str(self.solver.check(*extra))
        spent = _count(self.solver.statistics()) - self._counted
        self._counted += spent
        self._left_units -= spent
        _work.units += spent
        if answer == "sat":
            model = self.solver.model()
            self.model = {name: model.eval(one, model_completion=True).as_long() for name, one in self.symbols.items()}
        return answer

    def minimise(self) -> bool:
        """Shrink the model to the smallest one; False where time ran out or there is none."""
        names = sorted(self.symbols)
        if not names:
            return True
        if not self.lower(names):
            return False
        most = max(self.model.values())
        self.solver.add(*(self.symbols[name] <= most for name in names))
        for name in names:
            if not self.lower([name]):
                return False
            self.solver.add(self.symbols[name] == self.model[name])
        return True

    def lower(self, names: Sequence[str]) -> bool:
        """Make the greatest of these as small as it goes, by doubling steps down and then halving."""

        def at_most(bound: int) -> str:
            return self.check(*(self.symbols[name] <= bound for name in names))

        def greatest() -> int:
            return max(self.model[name] for name in names)

        high = greatest()
        step = 1
        low: int | None = None  # no model at or below
        while low is None or high - low > 1:
            bound = high - step if low is None else (low + high) // 2
            status = at_most(bound)
            if status == "unknown" or step > 1 << 80:
                return False
            if status == "unsat":
                low = bound
            else:
                high = greatest()
                step *= 2 if low is None else 1
        return at_most(high) == "sat"


class _Translator(Fold[_Term, Any]):
    def __init__(self, z3: Any, context: Any) -> None:
        super().__init__()
        self.z3 = z3
        self.context = context
        self.symbols: dict[str, Any] = {}

    def truth(self, value: bool) -> Any:
        return self.z3.BoolVal(value, self.context)

    def both(self, left: Any, right: Any) -> Any:
        return self.z3.And(left, right)

    def either(self, left: Any, right: Any) -> Any:
        return self.z3.Or(left, right)

    def compare(self, relation: Relation, left: _Term, right: _Term) -> Any:
        truth = relation.holds(left.top * right.bottom, right.top * left.bottom)
        sides = (*left.sides, *right.sides)
        if sides:
            return self.z3.And(*sides, truth)
        return self.truth(truth) if isinstance(truth, bool) else truth

    def number(self, value: Number) -> _Term:
        return _Term(value.numerator, value.denominator)

    def symbol(self, name: str) -> _Term:
        if name not in self.symbols:
            self.symbols[name] = self.z3.Int(name, self.context)
        return _Term(self.symbols[name], 1)

    def add(self, left: _Term, right: _Term) -> _Term:
        sides = (*left.sides, *right.sides)
        if isinstance(left.bottom, int) and isinstance(right.bottom, int) and left.bottom == right.bottom:
            return _Term(left.top + right.top, left.bottom, sides)
        return _Term(left.top * right.bottom + right.top * left.bottom, left.bottom * right.bottom, sides)

    def mul(self, left: _Term, right: _Term) -> _Term:
        return _Term(left.top * right.top, left.bottom * right.bottom, (*left.sides, *right.sides))

    def negated(self, value: _Term) -> _Term:
        return _Term(-value.top, value.bottom, value.sides)

    def extreme(self, left: _Term, right: _Term, relation: Relation) -> _Term:
        a, b = left.top * right.bottom, right.top * left.bottom
        return _Term(self.choice(relation.holds(a, b), a, b), left.bottom * right.bottom, (*left.sides, *right.sides))

    least = partialmethod(extreme, relation=Relation.LE)
    greatest = partialmethod(extreme, relation=Relation.GE)

    def trunc(self, value: _Term) -> _Term:
        down, up = self.floor(value), self.ceil(value)
        return _Term(self.choice(value.top >= 0, down.top, up.top), 1, value.sides)

    def as_float(self, value: _Term) -> _Term:
        raise UntranslatableError("z3 is not asked about sizes in floating point")

    def power(self, base: Expr, exponent: Expr) -> _Term:
        count = exponent.value if isinstance(exponent, Num) else None
        if not isinstance(count, int) or not 0 <= count <= MOST_POWER:
            raise UntranslatableError("z3 is not asked about symbolic or high powers")
        return reduce(self.mul, [self.expr(base)] * count, _Term(1, 1))

    def choice(self, condition: Any, then: Any, otherwise: Any) -> Any:
        if isinstance(condition, bool):
            return then if condition else otherwise
        return self.z3.If(condition, then, otherwise)

    def where(self, holds: Any, fails: Any, then: _Term, otherwise: _Term) -> _Term:
        top = self.choice(holds, then.top, otherwise.top)
        bottom = self.choice(holds, then.bottom, otherwise.bottom)
        z3 = self.z3
        return _Term(top, bottom, (z3.Or(z3.And(holds, *then.sides), z3.And(fails, *otherwise.sides)),))

    def divide(self, left: _Term, right: _Term) -> _Term:
        top, bottom = left.top * right.bottom, left.bottom * right.top
        sides = (*left.sides, *right.sides)
        if isinstance(bottom, int):
            if bottom == 0:
                return _Term(0, 1, (*sides, self.truth(False)))
            return _Term(top if bottom > 0 else -top, abs(bottom), sides)
        # The divisor's sign goes to the top; where it is zero the side condition fails and 1 stands in.
        z3 = self.z3
        positive = z3.If(bottom > 0, bottom, z3.If(bottom < 0, -bottom, 1))
        return _Term(z3.If(bottom < 0, -top, top), positive, (*sides, bottom != 0))

    def floor(self, value: _Term) -> _Term:
        if isinstance(value.bottom, int) and value.bottom == 1:
            return value
        if isinstance(value.top, int) and isinstance(value.bottom, int):
            return _Term(value.top // value.bottom, 1, value.sides)
        # z3 rounds towards minus infinity for positive divisors, and all are positive here.
        top = self.z3.IntVal(value.top, self.context) if isinstance(value.top, int) else value.top
        return _Term(top / value.bottom, 1, value.sides)

    def remainder(self, left: _Term, right: _Term) -> _Term:
        if left.bottom == 1 and right.bottom == 1 and isinstance(right.top, int) and right.top > 0:
            return _Term(left.top % right.top, 1, (*left.sides, *right.sides))
        return super().remainder(left, right)


def _why(reason: str) -> str:
    """Why there is no answer; z3 calls itself cancelled where it has done all the work that it may."""
    return "z3: no answer within its limit" if reason in ("canceled", "timeout") else f"z3: {reason}"


def _count(statistics: Any) -> int:
    """The units of work of a context so far."""
    keys = statistics.keys()  # it is no dict
    return int(statistics.get_key_value("rlimit count")) if "rlimit count" in keys else 0
