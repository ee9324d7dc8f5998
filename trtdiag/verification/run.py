"""Runs the original and the compiled program at every point and compares what they give."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from trtdiag.errors import TrtdiagError, UserError
from trtdiag.frontend.bounds_checked_run import BeyondTensorsError, stated_too
from trtdiag.frontend.program import Program
from trtdiag.graph.pytree import flattened, leaves_of, named_leaves
from trtdiag.options import Precision
from trtdiag.symbolic import Condition, Range
from trtdiag.symbolic.size_names import named_sizes
from trtdiag.timed_steps import timed
from trtdiag.verification.columns import fixed_dims
from trtdiag.verification.compare import compare, not_finite_notes, tolerance_for
from trtdiag.verification.exact_sums import added_exactly
from trtdiag.verification.facts import Culprit, OutputError, Point, PointResult, Tolerance, Verification
from trtdiag.verification.limits import FEW_POINTS, Clock, TimeBudget, VerifyLimits, left_out_why, verify_step
from trtdiag.verification.numeric_sensitivity import Movement, nudged, unstable_notes, unstable_words
from trtdiag.verification.points import Box, Elements, input_ranges, nearer, points_of, running_order
from trtdiag.verification.sides import NO_EXAMPLE, Sides, on_gpu
from trtdiag.verification.ties import tied_notes
from trtdiag.wording import first_line

Locate = Callable[[Point, Sequence[Any], Tolerance], "Culprit | None"]
"""Finds the op whose output differs for these flat inputs."""
Undefined = Callable[[Sequence[Any]], Mapping[int, str]]
"""Of the outputs for these flat inputs those that PyTorch does not define, by their place, with the reason."""
Ties = Callable[[Sequence[Any], Sequence[OutputError], Sequence[Any], Tolerance], Sequence[OutputError]]
"""The outputs for these flat inputs, of which those pass that differ only in which of equal values is chosen; given how
they differ, what the compiled program gave, and the tolerance."""


@dataclass
class Comparison:
    """Compares a compiled program with its original at the example, at the corners of all ranges, and in between.

    Where outputs differ, the original runs again with inputs changed by one unit in the last place
    (``numeric_sensitivity.py``): what it does not keep itself then counts as agreeing, and the point as unstable.

    Args:
        program: The original.
        compiled: Called like the module: arguments, keyword arguments, nested structures.
        given: The conditions that every input satisfies.
        precision: What it was compiled with; decides the tolerance.
        tolerance: Another one.
        limits: What a point, and all together, may cost; a point beyond is skipped, with the reason, and replaced by
            one that is nearer to the example where few are left.  At least one point is compared, whatever it takes.
        elements: See ``Elements``.
        live: The bytes of the tensors that are there at once, at sizes; ``None`` where that is not known.
        locate: Asked once, at the first point that differs and is within the limits for it.
        undefined: Asked at each point that differs; where all that differs is not defined the point counts as skipped.
        ties: Asked at each point that differs.
        progress: Called with a ``VerifyStep`` before each point.
        again: Points that are compared whatever time all together may take.
        boxes: Parts of the ranges, where not all of them are taken.
        clock: Tells how long things take.

    Raises:
        UserError: ``verify-without-program`` where the original has no graph to run.
    """

    program: Program
    compiled: Callable[..., Any]
    given: Sequence[Condition]
    precision: Precision = Precision.KEEP
    tolerance: Tolerance | None = None
    limits: VerifyLimits = field(default_factory=VerifyLimits)
    elements: Elements | None = None
    live: Elements = lambda _sizes: None
    locate: Locate | None = None
    undefined: Undefined | None = None
    ties: Ties | None = None
    progress: Callable[[str], None] | None = None
    again: Sequence[Point] = ()
    boxes: Sequence[Box] = ()
    clock: Clock = time.perf_counter

    def __post_init__(self) -> None:
        exported = self.program.exported
        if exported is None:
            raise UserError(
                "there is nothing to compare with",
                because="the export of the original failed",
                fix="give a program that exports",
                reference="verify-without-program",
            )
        self._tolerance = self.tolerance or tolerance_for(self.precision, exported.graph)
        self._sides = Sides(self.program, exported, self.compiled)
        self._fixed = fixed_dims(exported)
        self._pace: float | None = None  # seconds per element
        self._culprit: Culprit | None = None
        self._unsearched: list[Point] = []  # what differs there was too much to look into
        self._time = TimeBudget(self.limits.total_s, self.clock)

    def run(self) -> Verification:
        """Compare.

        Raises:
            BeyondTensorsError: A call would reach beyond its tensors at sizes that its program states otherwise.
        """
        started = self.clock()
        self._time = TimeBudget(self.limits.total_s, self.clock)
        ranges = input_ranges(self.program)
        found = list(points_of(ranges, self.program.hints, self.given, self.boxes))
        found += [point for point in self.again if all(point.sizes != other.sizes for other in found)]
        try:
            order = running_order(found, self._cost)
            if self._beyond(found[0]):  # the cheapest tells how long it takes
                order[:2] = reversed(order[:2])
            ran: dict[int, PointResult] = {}
            for place, index in enumerate(order):
                self._tell(found[index], [found[later] for later in order[place:]], place)
                # The least shows what the example does not, and where it costs no more it is worth as much.
                first = place < 2 and self._cost(found[index]) <= self._cost(found[0])
                asked = any(found[index].sizes == point.sizes for point in self.again)
                anyway = first or asked or all(result.skipped for result in ran.values())
                ran[index] = self._point(found[index], anyway=anyway)
            results = [ran[index] for index in range(len(found))]
            results += self._instead(results, ranges)
        finally:
            self._sides.restore()
        notes = [*unstable_notes(results, self._tolerance), *tied_notes(results), *not_finite_notes(results)]
        if not self._sides.has_example:
            notes.append(NO_EXAMPLE)
        if self._unsearched and self._culprit is None:
            notes.append(
                f"with which op the difference at {self._unsearched[0].label} begins was not looked for: every tensor "
                f"would be held, and together they have more than {self.limits.held:,} elements"
            )
        late = sorted(
            (result.point for result in results if result.skipped == self._late), key=self._cost, reverse=True
        )
        return Verification(
            tuple(results),
            self._tolerance,
            self._culprit,
            tuple(notes),
            self.clock() - started,
            self.limits.total_s or None,
            tuple(late),
        )

    def _instead(self, results: Sequence[PointResult], ranges: Mapping[str, Range]) -> list[PointResult]:
        """Where the limits leave few points, some nearer to the example: one set of sizes shows little of a range."""
        compared = [result.point for result in results if not result.skipped]
        if not compared:
            return []
        # The first is the example, unless only a smaller point was within the limits.
        base, seen = compared[0].sizes, [point.sizes for point in compared]
        added: list[PointResult] = []
        for result in results:
            if not result.skipped or not self._beyond(result.point) or len(compared) + len(added) >= FEW_POINTS:
                continue
            for point in nearer(result.point, base, ranges, self.given, self.boxes):
                if point.sizes not in seen and not self._beyond(point):
                    seen.append(point.sizes)
                    added.append(self._point(point))
                    break
        return added

    def _tell(self, point: Point, waiting: Sequence[Point], done: int) -> None:
        """Tell of a point before it is compared; ``waiting`` has those to come, it among them."""
        if self.progress is None:
            return
        rest = self._time.rest(self._elements_at(each) for each in waiting)
        self.progress(verify_step(point, self.program.words, done, done + len(waiting), rest))

    def _cost(self, point: Point) -> int:
        """What a point costs beside others."""
        elements = self._elements_at(point)
        return prod(point.sizes.values()) if elements is None else elements

    @property
    def _late(self) -> str:
        """Why a point is not run for which there is no time."""
        return f"left out {left_out_why(self.limits.total_s)}"

    def _beyond(self, point: Point, *, anyway: bool = False) -> str:
        """Why a point is not run, empty where it is; ``anyway``: whatever time all points together may take."""
        elements = self._elements_at(point)
        if self._sides.lost or elements is None:
            return self._sides.lost
        too_much = self.limits.beyond(elements, lambda: self.live(point.sizes), self._pace, first=anyway)
        return too_much or ("" if anyway or self._time.fits(elements) else self._late)

    def _elements_at(self, point: Point) -> int | None:
        return self.elements(point.sizes) if self.elements is not None else None

    def _point(self, point: Point, *, anyway: bool = False) -> PointResult:
        too_much = self._beyond(point, anyway=anyway)
        if too_much:
            return PointResult(point, skipped=too_much)
        names = self.program.words
        sizes = named_sizes(point.sizes, names)
        began = self.clock()
        with timed("compare", f"compare at {point.label}", **sizes):
            result = self._compared_at(point).named(names)
        if result.outputs:
            self._time.note(self._elements_at(point), self.clock() - began)
        return result

    def _compared_at(self, point: Point) -> PointResult:
        elements, sides = self._elements_at(point), self._sides
        flat = sides.inputs(point.sizes)
        try:
            if on_gpu(flat) and self._pace is None:
                sides.call(sides.original, flat)  # the first call loads kernels and would be no measure
                sides.restore()
            began = self.clock()
            expected = sides.call(sides.original, flat)
        except BeyondTensorsError as error:
            # What inputs hold was made up; else not even the example's sizes can be believed.
            if not error.by_elements and not stated_too(error, point.sizes):
                raise
            return PointResult(point, skipped=f"the original does not run there: {error.because}")
        except Exception as error:
            sides.look_for_gpu(flat, f"the original at {point.label}")
            return PointResult(point, skipped=f"the original does not run there: {first_line(error)}")
        if elements:
            # Small points pay mostly for what every call costs, so the quickest tells most of a greater one.
            pace = (self.clock() - began) / elements
            self._pace = pace if self._pace is None else min(pace, self._pace)
        try:
            actual = sides.call(self.compiled, flat)
        except BeyondTensorsError:
            raise
        except TrtdiagError as error:
            return PointResult(point, failed=f"{error.message}: {error.because}")
        except Exception as error:
            sides.look_for_gpu(flat, f"the compiled program at {point.label}")
            return PointResult(point, failed=f"{type(error).__name__}: {first_line(error)}")
        result = sides.with_written(PointResult(point, self._compared(expected, actual)), self._tolerance)
        if not result.passed:
            why = self._not_defined(result.outputs, flat)
            if why:
                return PointResult(point, skipped=why)
            if self.ties is not None:
                outputs = self.ties(flat, result.outputs, leaves_of(actual), self._tolerance)
                result = replace(result, outputs=tuple(outputs))
        if not result.passed:
            result = self._beside_movement(result, expected, actual, flat)
        if not result.passed and not sides.lost and self._culprit is None and self.locate is not None:
            if elements is not None and elements > self.limits.held:
                self._unsearched.append(point)
            else:
                self._culprit = self.locate(point, flat, self._tolerance)
                sides.look_for_gpu(flat, f"the search for the op at {point.label}")
        return result

    def _not_defined(self, outputs: Sequence[OutputError], flat: Sequence[Any]) -> str:
        """Why no output that differs can be compared; empty where one can."""
        off = [index for index, output in enumerate(outputs) if not output.passed]
        if self.undefined is None or any(outputs[index].why for index in off):
            return ""
        reasons = self.undefined(flat)
        return reasons[off[0]] if all(index in reasons for index in off) else ""

    def _beside_movement(self, result: PointResult, expected: Any, actual: Any, flat: Sequence[Any]) -> PointResult:
        """The result of a point that differs, its outputs beside what the original itself does not keep."""
        if any(output.why for output in result.outputs):
            return result  # no number explains that
        sides = self._sides
        movement = Movement(result.outputs, leaves_of(expected), leaves_of(actual), self._tolerance, self._fixed)
        began, runs = self.clock(), 0
        for inputs in nudged(flat, self.precision):
            # Fewer runs find less movement, which lets off less.  The first is told, whatever it settles.
            if (movement.settled if runs else movement.explains) or self.clock() - began > self.limits.seconds:
                break
            sides.restore()
            try:
                movement.add(leaves_of(sides.call(sides.original, inputs)))
            except Exception:  # then nothing is known of its movement, and nothing is let off
                sides.look_for_gpu(flat, f"the original beside {result.point.label}")
                return result
            runs += 1
        sides.restore()
        exact = not movement.settled and added_exactly(sides, movement, flat)
        if not runs and not exact:
            return result
        judged = replace(result, outputs=movement.judged())
        words = unstable_words(judged.outputs, self.precision, exact=exact)
        return replace(judged, unstable=words) if judged.passed else judged

    def _compared(self, expected: Any, actual: Any) -> tuple[OutputError, ...]:
        left, spec = named_leaves(expected)
        right, other = flattened(actual)
        if spec != other and len(left) != len(right):
            why = f"it returns {len(right)} values, not {len(left)}"
            return (OutputError("outputs", "", (), 0.0, 0.0, 0.0, False, why),)
        fixed = self._fixed if len(self._fixed) == len(left) else [()] * len(left)
        return tuple(
            compare(path or "output", wanted, got, self._tolerance, dims)
            for (path, wanted), got, dims in zip(left, right, fixed, strict=True)
        )
