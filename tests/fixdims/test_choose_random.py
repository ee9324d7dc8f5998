"""Random conditions over small ranges against trying everything: what is allowed, chosen, refused."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from tests.random_cases import cases
from tests.symbolic.random_guards import Guard, guards
from trtdiag.dims.solver.choose import choose
from trtdiag.dims.solver.volume import PIN
from trtdiag.symbolic import Range, evaluate, free_symbols, parse_condition

QUICK = settings(max_examples=cases(80), deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
MOST = 11


def spans(most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(0, 12), st.integers(0, most)).map(lambda t: (t[0], t[0] + t[1]))


ONE = st.tuples(st.lists(guards(("a",)), min_size=1, max_size=3), spans(40), st.integers(0, 60))
TWO = st.tuples(
    st.lists(guards(("a", "b"), leaves=3), min_size=1, max_size=3), spans(MOST), spans(MOST), st.integers(0, 200)
)


def fine(guard_list: list[Guard], point: dict[str, int]) -> bool:
    return all(guard.truth(point) is True for guard in guard_list)


def members(run) -> list[int]:
    return [run.step * d + run.offset for d in range(run.range.min, run.range.max + 1)]


def longest(allowed: set[int], example: int | None) -> int:
    """The most values of any progression inside ``allowed``, through the example where that is allowed."""
    starts = [example] if example in allowed else sorted(allowed)
    best = 0
    for start in starts:
        for step in range(1, max(allowed) - min(allowed) + 2):
            low = high = start
            while low - step in allowed:
                low -= step
            while high + step in allowed:
                high += step
            best = max(best, (high - low) // step + 1)
    return best


def check_one(case) -> None:
    guard_list, (low, high), example = case
    conditions = [parse_condition(guard.text) for guard in guard_list]
    wanted = {value for value in range(low, high + 1) if fine(guard_list, {"a": value})}
    found = choose(conditions, {"a": Range(low, high)}, {"a": example})
    if all(free_symbols(condition) for condition in conditions):  # one without symbols is on none of them
        assert set(found.allowed["a"].values.members(100)) == wanted
    if not wanted:
        assert found.conflict is not None
        assert not found.sets
        return
    assert found.conflict is None
    assert found.open == ()
    assert found.proof.proven
    kept = members(found.sets["a"])
    assert set(kept) <= wanted
    assert example in kept or example not in wanted
    assert len(kept) == longest(wanted, example)
    for other in found.alternatives["a"]:
        assert set(members(other)) <= wanted
    if len(kept) == high - low + 1:
        assert "a" not in found.narrowed_by
        return
    # The conditions that are named leave no more by themselves, and without any one of them more would stay.
    pairs = [pair for pair in zip(guard_list, conditions, strict=True) if pair[1] in found.narrowed_by["a"]]
    for left_out in (None, *found.narrowed_by["a"]):
        causes = [guard for guard, condition in pairs if condition != left_out]
        left = {value for value in range(low, high + 1) if fine(causes, {"a": value})}
        best = longest(left, example if example in wanted else None)
        assert best == len(kept) if left_out is None else best >= len(kept)


def combinations(found) -> list[dict[str, int]]:
    names = list(found.sets)
    points = [dict(zip(names, values, strict=True)) for values in product(*(members(found.sets[n]) for n in names))]
    return [{**point, **{n: int(evaluate(size, point)) for n, size in found.determined.items()}} for point in points]


def measured(found) -> int:
    """The combinations kept, a size that varies counting as much as several that do not."""
    return prod(run.kept * (PIN if run.kept > 1 else 1) for run in found.sets.values())


def largest_rectangle(mask: np.ndarray, row: int | None, column: int | None) -> int:
    """The most that any product of two progressions of indexes is worth whose cells are all true."""

    def lines(count: int, through: int | None):
        for step in range(1, count + 1):
            for start in range(count):
                for stop in range(start, count, step):
                    part = slice(start, stop + 1, step)
                    if (step == 1 or stop > start) and (through is None or through in range(start, stop + 1, step)):
                        yield part

    def worth(height: int, width: int) -> int:
        return height * width * (PIN if height > 1 else 1) * (PIN if width > 1 else 1)

    best = 0
    columns = list(lines(mask.shape[1], column))
    for part in lines(mask.shape[0], row):
        together = mask[part].all(axis=0)
        height = len(range(*part.indices(mask.shape[0])))
        if not together.any() or worth(height, int(together.sum())) <= best:
            continue
        best = max([best, *(worth(height, together[c].size) for c in columns if together[c].all())])
    return best


def check_two(case) -> None:
    guard_list, first, second, pick = case
    conditions = [parse_condition(guard.text) for guard in guard_list]
    ranges = {"a": Range(*first), "b": Range(*second)}
    mask = np.array(
        [
            [fine(guard_list, {"a": a, "b": b}) for b in range(second[0], second[1] + 1)]
            for a in range(first[0], first[1] + 1)
        ]
    )
    good = np.argwhere(mask)
    for determine in (True, False):
        example = {"a": first[0], "b": second[0]}
        if len(good):
            at = good[pick % len(good)]
            example = {"a": first[0] + int(at[0]), "b": second[0] + int(at[1])}
        found = choose(conditions, ranges, example, determine=determine)
        if not len(good):
            assert found.conflict is not None
            assert not found.sets
            continue
        assert found.conflict is None
        assert found.open == ()
        assert found.proof.proven
        chosen = combinations(found)
        assert all(fine(guard_list, point) for point in chosen)
        assert all(point[name] in ranges[name] for point in chosen for name in ranges)
        assert example in [{name: point[name] for name in example} for point in chosen]
        if not found.determined:
            assert measured(found) >= largest_rectangle(mask, example["a"] - first[0], example["b"] - second[0])


def check_conflict(case) -> None:
    guard_list, first, second, _ = case
    conditions = [parse_condition(guard.text) for guard in guard_list]
    points = [{"a": a, "b": b} for a in range(first[0], first[1] + 1) for b in range(second[0], second[1] + 1)]
    assume(not any(fine(guard_list, point) for point in points))
    found = choose(conditions, {"a": Range(*first), "b": Range(*second)}, {})
    assert found.conflict is not None
    every = list(dict.fromkeys(conditions))
    places = found.conflict.members
    assert places is not None
    texts = [next(g for g, c in zip(guard_list, conditions, strict=True) if c == every[place]) for place in places]
    assert not any(fine(texts, point) for point in points)
    for index in range(len(texts)):
        rest = texts[:index] + texts[index + 1 :]
        assert any(fine(rest, point) for point in points)


def check_free(case) -> None:
    guard_list, first, second, _ = case
    conditions = [parse_condition(guard.text) for guard in guard_list]
    mask = np.array(
        [
            [fine(guard_list, {"a": a, "b": b}) for b in range(second[0], second[1] + 1)]
            for a in range(first[0], first[1] + 1)
        ]
    )
    assume(mask.any())
    found = choose(conditions, {"a": Range(*first), "b": Range(*second)}, {})
    assert all(fine(guard_list, point) for point in combinations(found))
    if not found.determined:
        assert measured(found) >= largest_rectangle(mask, None, None)


@QUICK
@given(ONE)
def test_one_symbol_keeps_the_longest_progression(case):
    check_one(case)


@QUICK
@given(TWO)
def test_two_symbols_keep_the_largest_product_around_the_example(case):
    check_two(case)


@pytest.mark.slow  # quick: two symbols around an example
@QUICK
@given(TWO)
def test_two_symbols_without_an_example_keep_the_largest_product(case):
    check_free(case)


@QUICK
@given(TWO)
def test_a_conflict_needs_each_of_its_members(case):
    check_conflict(case)


@pytest.mark.slow
@LONG
@given(ONE)
def test_one_symbol_long(case):
    check_one(case)


@pytest.mark.slow
@LONG
@given(TWO)
def test_two_symbols_long(case):
    check_two(case)


@pytest.mark.slow
@LONG
@given(TWO)
def test_two_symbols_without_an_example_long(case):
    check_free(case)


@pytest.mark.slow
@LONG
@given(TWO)
def test_conflicts_long(case):
    check_conflict(case)
