"""Runs an exported program on tensors, and finds out what it asks of its sizes where it refuses some."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from torch.export import ExportedProgram

from trtdiag.dims.facts import AskedByOp, GuardOrigin
from trtdiag.dims.plan import Plan
from trtdiag.dims.solver_input import dims_in, from_data, system_of
from trtdiag.dims.unequal_points import Point, UnequalPoints
from trtdiag.fixdims.at_zero import unlike_at_zero
from trtdiag.fixdims.export_result import OnData, Run, Tried
from trtdiag.fixdims.guessed_sizes import between_ends, guesses
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.fake_run import FailsAtExampleError, NotRunnableError
from trtdiag.frontend.real_run import Ran, RealRunner, RunOutcome
from trtdiag.symbolic import compare, free_symbols
from trtdiag.symbolic.expr import Condition, Num, Relation, Sym

MOST_GUESSES = 24
"""Equations that are tried for one refusal.  Own choice: an op has few dims that differ."""
MOST_EQUATIONS = 24
"""Found for one program: a cache of 12 layers declares keys and values of each apart."""
MOST_COMPARED = 256
"""Sets of sizes at which a model is compared that asks of sizes what torch guards nowhere.  Own choice: small models
need a second for as many."""
SECONDS_BETWEEN = 1.0
"""For a look at sizes between those of which an end was found.  Own choice: small models take a hundred."""
HALVINGS = 8
"""Of the way from sizes that are too large back to the smallest."""


def run_on_data(
    tried: Tried, exported: ExportedProgram, plan: Plan, used: Recipe, seconds: float, *, assumed: bool = False
) -> Tried:
    """``tried`` with what its program says to tensors of sizes of ``plan``, small ones first.

    What it turns out to ask of its sizes is added to the conditions: two that must be equal, a least or a greatest.

    Args:
        tried: An export that passed.
        exported: Its program.
        plan: What it was exported with.
        used: The recipe of the export: example inputs.
        seconds: For all runs together.
        assumed: Whether the program has checks that the model does not have yet.
    """
    try:
        runner = RealRunner(exported, tried.inputs, used.args, used.kwargs, seconds, used.module, assumed=assumed)
        runner.check_example(tried.hints)
    except NotRunnableError as error:
        unseen = "nothing was compared with it" if tried.escapes else ""
        failed = isinstance(error, FailsAtExampleError)
        return replace(tried, on_data=OnData(unrun=str(error), failed=failed, unseen=unseen))
    search = _Search(tried, plan, runner)
    # Of one size all values first: those that are left out are no ends of its range then.
    first = bool(tried.escapes) and search.of_one_size
    unseen = search.unseen_of_model() if first else ""
    search.run()
    if tried.escapes and not first:
        unseen = search.unseen_of_model()
    at_zero = tuple(unlike_at_zero(runner, tried, plan))
    on_data = OnData(tuple(search.runs), search.unrun, unlike=runner.unlike, unseen=unseen, at_zero=at_zero)
    return replace(tried, on_data=on_data, conditions={**tried.conditions, **search.found})


class _Search:
    def __init__(self, tried: Tried, plan: Plan, runner: RealRunner) -> None:
        self._tried, self._plan, self._runner = tried, plan, runner
        system = system_of(tried.inputs, plan)
        self._box = system.box
        self._conditions = [*(c for c in tried.conditions if not from_data(c, system.box)), *system.asked]
        self._fixed = {int(d.expr.value) for t in tried.inputs for d in t.dims if isinstance(d.expr, Num)}
        example = {symbol: tried.hints[symbol] for symbol in self._box if symbol in tried.hints}
        self._example = example if example.keys() == self._box.keys() else None
        self.found: dict[Condition, GuardOrigin] = {}
        self.runs: list[Run] = []
        self.unrun = ""

    @property
    def of_one_size(self) -> bool:
        """Whether one symbol decides all sizes."""
        return len(self._choice().free) == 1

    def run(self) -> None:
        """Ends that shapes refuse, small sizes that are unequal, least, and the greatest that are not too large."""
        self._refused_by_shapes()
        base = self._unequal()
        # What shapes alone refuse is known already, and mended before the next try.
        if base is None or any(corner.refusal for corner in self._tried.corners):
            return
        choice = self._choice()
        for point in choice.at_ends(base):
            self._bounded(base, point, self._noted(point))
        largest = choice.greatest()
        if largest is None:
            return
        ran = self._noted(largest)
        for _ in range(HALVINGS):
            if ran.outcome is not RunOutcome.UNRUN or largest in (None, base) or self._runner.out_of_time:
                break
            largest = choice.between(base, largest)
            if largest is not None:
                ran = self._runner.run(largest)
        if largest is not None and ran.outcome is not RunOutcome.UNRUN:
            self.runs.append(self._as_run(largest, ran))
            self._bounded(base, largest, ran)

    def _refused_by_shapes(self) -> None:
        """Note the end of a range beyond which shapes alone refuse: a check asks for more than sizes let there be.

        Of sizes of 0 and 1 that is mended before, and what is refused between the ends has no end.
        """
        example = self._example
        if example is None:
            return
        for corner in self._tried.corners:
            at_ends = all(value in (self._box[s].min, self._box[s].max) for s, value in corner.point.items())
            if corner.refusal and at_ends and {0, 1}.isdisjoint(corner.point.values()) and not self.found:
                self._bounded(example, dict(corner.point), Ran(RunOutcome.REFUSED), self._on_shapes)

    def _on_shapes(self, point: Point) -> Ran:
        """A run on shapes; it is refused by the op at which tensors fail, too: of guards no end is looked for."""
        try:
            refusal = self._runner.refusal(point)
        except NotRunnableError as error:
            return Ran(RunOutcome.UNRUN, str(error))
        if not refusal:
            return Ran(RunOutcome.PASSED)
        ran = self._runner.run(point)
        return replace(ran, outcome=RunOutcome.REFUSED if ran.failing.op else RunOutcome.UNRUN, words=refusal)

    def unseen_of_model(self) -> str:
        """Compare with the model at all sizes, where they are few; at how many that was not done, empty where at none.

        A value of a symbol at which the two always differ is left out by a condition.
        """
        choice = self._choice()
        points = choice.every(MOST_COMPARED)
        if points is None:
            return f"there are more than {MOST_COMPARED} sets of sizes to compare it at"
        ran = [self._runner.run(point, beside_model=True) for point in points]
        apart = [(point, each) for point, each in zip(points, ran, strict=True) if each.outcome is RunOutcome.REFUSED]
        origin = GuardOrigin.traced("run", self._tried.escapes[0].stack)
        for symbol in choice.free if self._runner.unlike == "" else []:
            for value in dict.fromkeys(point[symbol] for point, _ran in apart):
                count = sum(point[symbol] == value for point in points)
                if count == sum(point[symbol] == value for point, _ran in apart):
                    self.found[compare(Relation.NE, Sym(symbol), value)] = origin
                    apart = [(point, each) for point, each in apart if point[symbol] != value]
        self.runs += [self._as_run(*each) for each in apart[:1]]
        unseen = sum(each.outcome is not RunOutcome.REFUSED and not each.compared for each in ran)
        return f"it was not compared at {unseen} of {len(points)} sets of sizes" if unseen else ""

    def _choice(self, *more: Condition) -> UnequalPoints:
        conditions = [*self._conditions, *self.found, *more]
        return UnequalPoints(self._box, conditions, self._tried.hints, self._fixed)

    def _unequal(self) -> Point | None:
        """Run at unequal sizes, with more and more of them equal where that is asked; a point that was taken."""
        while True:
            taken: Point | None = None
            refused: tuple[Point, Ran] | None = None
            runs = []
            for point in self._choice().unequal():
                ran = self._runner.run(point)
                runs.append(self._as_run(point, ran))
                if ran.outcome is RunOutcome.REFUSED:
                    refused = refused or (point, ran)
                elif taken is None and ran.outcome is RunOutcome.PASSED:
                    taken = point
            if refused is not None and self._too_small(*refused):
                continue
            equations = () if refused is None or len(self.found) >= MOST_EQUATIONS else self._equations(*refused)
            if not equations or refused is None:
                self.runs += runs
                return None if refused else taken
            self.runs.append(self._as_run(*refused))
            self.found.update(dict.fromkeys(equations, _origin(refused[0], refused[1], "equal")))

    def _too_small(self, point: Point, ran: Ran) -> bool:
        """Whether bounds were found that leave out ``point``.

        Those of an op that one size alone goes into are looked for from the example on.  Else sizes beyond the
        example's are run, which are unequal: where they are taken, it is no matter of two sizes that must be equal.
        Indices that are numbers of the model (``x[:, [0, 3]]``) ask for a size so.
        """
        before = len(self.found)
        asking = {symbol for dims in ran.failing.dims for dim in dims for symbol in free_symbols(dim)}
        if len(asking) == 1 and self._example is not None:
            return self._ended(self._choice(), self._example, point, asking.pop(), self._runner.run)
        larger = list(self._choice().unequal(max(self._tried.hints.values(), default=1)))
        if all(self._runner.run(each).outcome is RunOutcome.PASSED for each in larger):
            for each in larger[:1]:
                self._bounded(each, point, ran)
        return len(self.found) > before

    def _equations(self, point: Point, ran: Ran) -> tuple[Condition, ...]:
        """What makes dims of the op that failed equal, such that it takes other sizes, or fails later."""
        for number, guess in enumerate(guesses(ran.failing, point)):
            if number >= MOST_GUESSES or self._runner.out_of_time:
                return ()
            if self._helps(guess, ran.failing.node):
                return guess
        return ()

    def _helps(self, guess: tuple[Condition, ...], node: str) -> bool:
        outcomes = [self._runner.run(point) for point in self._choice(*guess).unequal()]
        past = [ran.outcome is RunOutcome.PASSED or bool(ran.failing.node) for ran in outcomes]
        return bool(outcomes) and all(past) and all(ran.failing.node != node for ran in outcomes)

    def _bounded(self, base: Point, point: Point, ran: Ran, run: Callable[[Point], Ran] | None = None) -> None:
        """Note the least or greatest value of each symbol that is refused when it alone moves to ``point``.

        Where none is, sizes are refused together (height and width of 1 at once): then of the symbol that is refused
        when it moves there after the others.
        """
        if ran.outcome is not RunOutcome.REFUSED:
            return
        choice, run = self._choice(), run or self._runner.run
        alone = [self._ended(choice, base, point, symbol, run) for symbol in choice.free]
        if any(alone):
            return
        at = base
        for symbol in choice.free:
            if self._ended(choice, at, point, symbol, run):
                return
            moved = choice.moved(at, symbol, point[symbol])
            at = at if moved is None else moved

    def _ended(
        self, choice: UnequalPoints, base: Point, point: Point, symbol: str, run: Callable[[Point], Ran]
    ) -> bool:
        """Whether it is refused to move one symbol from ``base`` to its value at ``point``; then its end is noted."""
        taken, refused = base[symbol], point[symbol]
        moved = None if taken == refused else choice.moved(base, symbol, refused)
        ended = None if moved is None else run(moved)
        if moved is None or ended is None or ended.outcome is not RunOutcome.REFUSED:
            return False
        first = (moved, ended)
        while abs(refused - taken) > 1:
            moved = choice.moved(base, symbol, (taken + refused) // 2)
            if moved is None:
                return True
            ended = run(moved)
            if ended.outcome is RunOutcome.REFUSED:
                refused, first = moved[symbol], (moved, ended)
            elif ended.outcome is RunOutcome.PASSED:
                taken = moved[symbol]
            else:
                return True
        upper = refused > taken
        if not self._in_one_piece(choice, base, symbol, run):
            return False
        condition = compare(Relation.LE if upper else Relation.GE, Sym(symbol), taken)
        self.found[condition] = _origin(*first, "no more" if upper else "no less")
        return True

    def _in_one_piece(self, choice: UnequalPoints, base: Point, symbol: str, run: Callable[[Point], Ran]) -> bool:
        """Whether none of a symbol's sizes is refused between two that are taken, as far as there is time to look."""
        deadline = time.monotonic() + SECONDS_BETWEEN
        range_ = self._box[symbol]
        taken, refused = [base[symbol]], []
        for value in between_ends(range_, base[symbol]):
            moved = choice.moved(base, symbol, value)
            if moved is None or time.monotonic() > deadline:
                continue
            outcome = run(moved).outcome
            taken += [value] if outcome is RunOutcome.PASSED else []
            refused += [value] if outcome is RunOutcome.REFUSED else []
        return not any(min(taken) < value < max(taken) for value in refused)

    def _noted(self, point: Point) -> Ran:
        ran = self._runner.run(point)
        self.runs.append(self._as_run(point, ran))
        return ran

    def _as_run(self, point: Point, ran: Ran) -> Run:
        return Run(ran.outcome, self._sizes(point), ran.words)

    def _sizes(self, point: Point) -> tuple[tuple[str, int], ...]:
        return tuple(
            (dim.site, self._runner.size(dim, point)) for dim, _leaf in dims_in(self._tried.inputs, self._plan)
        )


def _origin(point: Point, ran: Ran, how: str) -> GuardOrigin:
    failing = ran.failing
    asked = AskedByOp("sizes of its inputs", how, point, ran.words)
    return GuardOrigin(("run",), failing.stack, False, failing.op or None, failing.node or None, asked)
