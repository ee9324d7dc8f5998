"""How long comparisons may take together: which points come first, which are left out, and how that is told.

The clock is the test's: the compiled program moves it on by what a call is to take.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from math import prod

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.harness.rows import thinned
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.option_warnings import without_effect
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.stages import Clock
from trtdiag.pipeline.verify import verify
from trtdiag.report.compile_words import outcome_line, points_text
from trtdiag.symbolic import Range
from trtdiag.verification import limits as limits_module
from trtdiag.verification.facts import Point, Verification
from trtdiag.verification.limits import TimeBudget, VerifyLimits, left_out_words, usual_total_s
from trtdiag.verification.points import points, running_order
from trtdiag.verification.run import Comparison


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Timed:
    """A compiled program each of whose calls takes so many seconds for an element of its input, and its clock."""

    def __init__(self, per_element: float, fixed: float = 0.0, factor: float = 2.0) -> None:
        self.now, self.per_element, self.fixed, self.factor = 100.0, per_element, fixed, factor
        self.ran: list[tuple[int, ...]] = []

    def clock(self) -> float:
        return self.now

    def __call__(self, x: Tensor) -> Tensor:
        self.ran.append(tuple(x.shape))
        self.now += self.fixed + self.per_element * x.numel()
        return x * self.factor


def program_of(*example: int, **dims: tuple[int, int]) -> Program:
    shapes = {index: Dim(name, min=low, max=high) for index, (name, (low, high)) in enumerate(dims.items())}
    return capture((Twice(), (torch.ones(*example),), {}, {"x": shapes}))


@pytest.fixture(scope="module")
def batches() -> Program:
    return program_of(3, b=(1, 41))


@pytest.fixture(scope="module")
def images() -> Program:
    return program_of(2, 7, 5, b=(1, 11), h=(3, 31), w=(2, 37))


def elements(sizes: Mapping[str, int]) -> int:
    return prod(sizes.values())


def compared(
    program: Program, made: Timed, total_s: float | None, told: Callable[[str], None] | None = None
) -> Verification:
    limits = VerifyLimits(total_s=total_s)
    return Comparison(program, made, (), limits=limits, elements=elements, progress=told, clock=made.clock).run()


@pytest.mark.parametrize("total_s", [None, 0, 0.0, 1e9])
def test_without_a_limit_all_is_compared(batches: Program, total_s: float | None) -> None:
    made = Timed(1000.0)
    found = compared(batches, made, total_s)
    assert sorted(made.ran) == [(1,), (3,), (11,), (19,), (41,)] or len(made.ran) == len(found.results)
    assert (found.left_out, left_out_words(found, {})) == ((), "")
    assert found.total_s == (total_s or None)
    assert points_text(found) == f"{len(found.results)} sets of sizes"


def test_what_does_not_fit_is_left_out_and_named(batches: Program) -> None:
    made = Timed(1.0)
    found = compared(batches, made, 30)
    (symbol,) = batches.ranges
    # 3 and 1 s, then 11 s; the next, of 23 s, would end after 38 s.
    sizes = {result.point.sizes[symbol]: result.skipped for result in found.results}
    late = [size for size, why in sizes.items() if why]
    assert [point.sizes[symbol] for point in found.left_out] == sorted(late, reverse=True)
    assert 41 in late
    assert sum(shape[0] for shape in made.ran) <= 30
    words = left_out_words(found, {symbol: "b"})
    why = "for the limit of 30 s for all; --verify-limit 0 compares all"
    assert words == f"{len(late)} sets of sizes, the largest b=41, {why}"
    assert {sizes[size] for size in late} == {f"left out {why}"}
    assert (found.passed, found.total_s) == (True, 30)
    assert points_text(found) == f"{len(sizes) - len(late)} of {len(sizes)} sets of sizes"
    assert points_text(found) in outcome_line(found)
    assert "were not compared" in repr(found)


def test_one_point_is_compared_however_long_it_takes(batches: Program) -> None:
    made = Timed(1000.0)
    found = compared(batches, made, 30)
    assert made.ran == [(3,), (1,)]  # the least costs no more than the example
    assert (found.passed, len(found.left_out)) == (True, len(found.results) - 2)


def test_a_least_point_that_costs_more_than_the_example_has_to_fit() -> None:
    made = Timed(1000.0)
    found = compared(program_of(2, b=(2, 41)), made, 30)
    assert made.ran == [(2,)]
    assert found.passed


def test_a_difference_counts_although_others_are_left_out(batches: Program) -> None:
    found = compared(batches, Timed(10.0, factor=2.1), 45)
    assert found.left_out
    assert found.differs


def test_a_point_that_has_begun_is_finished(batches: Program) -> None:
    """Nothing tells that the fourth takes a hundred times as long."""

    class Slows(Timed):
        def __call__(self, x: Tensor) -> Tensor:
            self.per_element = 100.0 if len(self.ran) >= 3 else 0.1
            return super().__call__(x)

    made = Slows(0.1)
    found = compared(batches, made, 30)
    assert len(made.ran) == 4
    assert made.now > 130
    assert len(found.left_out) == len(found.results) - 4
    assert all(result.passed for result in found.results if not result.skipped)


def test_a_slow_first_call_does_not_leave_out_what_fits(batches: Program) -> None:
    class Prepares(Timed):
        def __call__(self, x: Tensor) -> Tensor:
            self.fixed = 0.01 if self.ran else 20.0
            return super().__call__(x)

    found = compared(batches, Prepares(0.01), 30)
    assert found.left_out == ()


def test_what_was_compared_before_is_compared_again(batches: Program) -> None:
    """Other engines in the place of wrong ones are not called right for want of time."""
    (symbol,) = batches.ranges
    again = [Point("max", {symbol: 41}), Point("towards max", {symbol: 17})]
    made = Timed(1000.0)
    limits = VerifyLimits(seconds=1e9, total_s=30)
    found = Comparison(batches, made, (), limits=limits, elements=elements, again=again, clock=made.clock).run()
    assert {size for (size,) in made.ran} == {3, 1, 17, 41}
    assert {result.point.sizes[symbol] for result in found.results if not result.skipped} == {3, 1, 17, 41}


def test_nearer_points_take_the_place_of_those_that_do_not_fit() -> None:
    made = Timed(10.0)
    found = compared(program_of(2, b=(2, 1000)), made, 1000)
    towards = [result.point for result in found.results if result.point.label.startswith("towards")]
    # The way from 1000 to 2 is halved until it fits, then the way from 251, of what is left.
    assert made.ran == [(2,), (64,), (33,)]
    assert [size for point in towards for size in point.sizes.values()] == [64, 33]
    assert all(point not in found.left_out for point in towards)


def test_ends_of_ranges_come_early_and_the_greatest_last(images: Program) -> None:
    made = Timed(1e-6)
    found = compared(images, made, None)
    volumes = [b * h * w for b, h, w in made.ran]
    assert made.ran[:2] == [(2, 7, 5), (1, 3, 2)]
    ends = made.ran[2:5]
    assert {(b == 11, h == 31, w == 37) for b, h, w in ends} == {
        (True, False, False),
        (False, True, False),
        (False, False, True),
    }
    assert volumes[2:5] == sorted(volumes[2:5])
    assert volumes[5:] == sorted(volumes[5:])
    assert made.ran[-1] == (11, 31, 37)
    assert [result.point.label for result in found.results[:3]] == ["example", "min", "max"]


@pytest.mark.parametrize("names", [0, 1, 2, 3, 4, 5])
def test_the_order_has_each_point_once(names: int) -> None:
    ranges = {f"s{index}": Range(1 + index, 7 * index + 9) for index in range(names)}
    found = points(ranges, dict.fromkeys(ranges, 6), ())
    order = running_order(found, lambda point: sum(point.sizes.values()))
    assert sorted(order) == list(range(len(found)))
    assert order[0] == 0
    costs = [sum(found[index].sizes.values()) for index in order[1:]]
    assert not costs or (min(costs), max(costs)) == (costs[0], costs[-1])
    early = [found[index].sizes for index in (*order[: 2 + names], order[-1])]
    for name, range_ in ranges.items():
        assert {sizes[name] for sizes in early} >= {range_.min, range_.max}


def test_the_rest_is_told_as_soon_as_it_is_known(batches: Program) -> None:
    told: list[str] = []
    made = Timed(1.0)
    compared(batches, made, None, told.append)
    first, second, *others = told
    assert "left" not in first
    assert ", about " in second
    rests = [int(words.partition("about ")[2].partition(" s left")[0]) for words in others]
    assert rests[-1] == pytest.approx(41, abs=1)  # a second for each element, as those before it took


def test_the_rest_is_at_most_what_the_limit_leaves(batches: Program) -> None:
    told: list[str] = []
    compared(batches, Timed(1.0), 20, told.append)
    rests = [int(words.partition("about ")[2].partition(" s left")[0]) for words in told if "about" in words]
    assert rests
    assert max(rests) <= 20


def test_what_a_point_is_expected_to_take() -> None:
    clock = Timed(0.0)
    time = TimeBudget(10, clock.clock)
    assert (time.expected(None), time.expected(10**12)) == (0.0, 0.0)
    time.note(100, 0.5)
    time.note(10, 0.5)  # so that all of it is what every call costs
    assert time.expected(10**6) == pytest.approx(0.5)
    time.note(1000, 1.5)  # 1 s for 1000 elements
    assert time.expected(2000) == pytest.approx(2.5)
    assert time.expected(None) == pytest.approx(1.5)
    assert time.fits(9000)
    clock.now += 8
    assert not time.fits(9000)
    assert time.fits(1000)
    clock.now += 2
    assert not time.fits(0)
    assert time.rest([1000, 2000]) == 0.0


def test_the_usual_limit_grows_with_export_and_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "LEAST_TOTAL_S", 30.0)
    assert [usual_total_s(made_s) for made_s in (0.0, 29.9, 30.0, 100.4)] == [30.0, 30.0, 30.0, 101.0]


# Quick: the ends.
@thinned(
    ("made_s", "asked", "limit_s"), [(0.0, None, 30), (100.4, None, 101), (100.4, 7.5, 7.5), (100.4, 0, None)], every=9
)
def test_a_compilation_is_compared_as_long_as_was_asked_or_as_it_took(
    made_s: float, asked: float | None, limit_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits_module, "LEAST_TOTAL_S", 30.0)
    monkeypatch.setattr(Clock, "seconds", lambda self, *names: made_s)
    options = CompileOptions(backend="reference", verify_limit_s=asked)
    made = compile_in_stages((Twice(), (torch.ones(3),), {}, None), options)
    assert made.verified.total_s == limit_s
    made.compiled.build_s = 0.0
    again = verify(made.compiled, made.program.exported, limits=VerifyLimits(total_s=asked))
    assert again.total_s == limit_s
    made.compiled.build_s = 300.5
    again = verify(made.compiled, made.program.exported)
    assert again.total_s == math.ceil(made_s + 300.5)
    told = json.loads(made.report.to_json())["compiled"]["verification"]
    assert (told["limit_s"], told["left_out"]) == (limit_s, 0)


def test_a_limit_without_a_comparison_is_warned_of() -> None:
    (found,) = without_effect(CompileOptions(verify=False, verify_limit_s=5))
    assert (found.option, found.value) == ("verify_limit_s", 5)
    assert not list(without_effect(CompileOptions(verify_limit_s=5)))
