"""Value sets: algebra against Python's sets, words, open ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.random_cases import cases
from trtdiag.symbolic import Range, ValueSet, allowed, holds, membership, parse_condition
from trtdiag.symbolic.patterns import ALL
from trtdiag.symbolic.stretch import Stretch


@st.composite
def masks(draw: st.DrawFn) -> tuple[int, list[bool]]:
    """Where a set starts, and unions of stretches of residue classes, as real guards give them."""
    low, count = draw(st.integers(-30, 30)), draw(st.integers(1, 80))
    values = np.arange(low, low + count)
    mask = np.zeros(count, dtype=bool)
    for _ in range(draw(st.integers(0, 4))):
        first, last = sorted(draw(st.tuples(st.integers(low, low + count), st.integers(low, low + count))))
        period = draw(st.integers(1, 9))
        residues = draw(st.sets(st.integers(0, period - 1), min_size=1))
        mask |= (values >= first) & (values <= last) & np.isin(values % period, list(residues))
    return low, mask.tolist()


def spelled(low: int, mask: list[bool]) -> set[int]:
    return {low + index for index, inside in enumerate(mask) if inside}


def built(low: int, mask: list[bool]) -> ValueSet:
    return ValueSet.from_mask(low, np.array(mask))


@settings(max_examples=cases(150), deadline=None)
@given(masks(), masks(), st.integers(-40, 120), st.integers(1, 6))
def test_sets_are_sets(one, two, value, step):
    first, second = built(*one), built(*two)
    plain, other = spelled(*one), spelled(*two)
    universe = set(range(one[0], one[0] + len(one[1])))
    everything = sorted(universe | plain | other | {value})
    assert [v in first for v in everything] == [v in plain for v in everything]
    assert list(first.members(1000)) == sorted(plain)
    assert (first.count, first.is_empty, first.is_full) == (len(plain), not plain, plain == universe)
    assert (first.min, first.max) == (min(plain, default=None), max(plain, default=None))
    assert first.single == (next(iter(plain)) if len(plain) == 1 else None)
    assert set(first.complement().members(1000)) == universe - plain
    assert set(first.intersect(second).members(1000)) == plain & other
    assert set(first.union(second).members(1000)) == plain | other
    in_class = {v for v in plain if (v - value) % step == 0}
    assert first.at_most(value, step) == max((v for v in in_class if v <= value), default=None)
    assert first.at_least(value, step) == min((v for v in in_class if v >= value), default=None)
    assert first == built(*one)
    assert first.same_members(second) == (plain == other)
    shifted = first.mapped(-3, 5, Range())
    assert set(shifted.members(1000)) == {-3 * v + 5 for v in plain}
    assert first.describe("v")


@settings(max_examples=cases(60), deadline=None)
@given(masks())
def test_membership_says_the_set(one):
    values = built(*one)
    condition = membership(values, "v")
    for value in range(one[0] - 3, one[0] + len(one[1]) + 3):
        assert holds(condition, {"v": value}) == (value in values)


WORDS = {
    # condition -> words, over 2..4096
    "h % 8 == 0": "h % 8 == 0",
    "h % 2 == 1": "h % 2 == 1",
    "h % 8 != 0": "h % 8 != 0",
    "h % 4 in (0, 3)": "h % 4 in {0, 3}",
    "((h - 1)//2) % 2 != 0": "h % 4 in {0, 3}",
    "h >= 17": "h >= 17",
    "h <= 512": "h <= 512",
    "17 <= h <= 512": "17..512",
    "h == 16": "h == 16",
    "h in (3, 5)": "{3, 5}",
    "h != 7": "h != 7",
    "h not in (7, 100)": "all but {7, 100}",
    "h > 5000": "nothing",
    "h >= 1": "all",
    "h >= 136 and h % 8 == 0": "h >= 136 with h % 8 == 0",
    "17 <= h <= 3000 and h % 16 in (1,2,3,4,5,6,7,8,9,10,11,12,15)": "17..3000 with h % 16 in {1..12, 15}",
    "h % 16 not in (1, 5, 8, 11)": "h % 16 not in {1, 5, 8, 11}",
    "h < 100 or h % 8 == 0": "h <= 99 or h >= 104 with h % 8 == 0",
    "h % 6 == 0 and h % 4 == 2": "h % 12 == 6",
    "h // (h // 8) == 8": "8..62 with h in {8, 16, 17, 24..26, 32..35, 40..44, 48..53, 56..62} or h >= 64",
    "h % (h // 2) == 0": "h <= 3 or h >= 4 with h % 2 == 0",
}


@pytest.mark.parametrize("text", WORDS)
def test_sets_in_words(text):
    values = allowed([parse_condition(text)], "h", Range(2, 4096)).values
    words = values.describe("h")
    assert words == WORDS[text]


@pytest.mark.parametrize("text", WORDS)
def test_the_words_of_a_set_do_not_depend_on_how_it_was_found(text):
    """Tried value by value, or solved by residue classes over all sizes and then cut: one set, one wording."""
    condition = parse_condition(text)
    tried = allowed([condition], "h", Range(2, 4096)).values
    solved = allowed([condition], "h", Range(1, None)).values.within(Range(2, 4096))
    assert tried == solved
    assert hash(tried) == hash(solved)
    if len(tried.stretches) == 1:
        assert solved.describe("h") == tried.describe("h")


def test_open_sets():
    eights = ValueSet.residues(8, [0], Range(1, None))
    assert (eights.count, eights.min, eights.max, eights.single) == (None, 8, None, None)
    assert eights.at_least(1 << 63) == 1 << 63
    assert eights.at_most((1 << 63) - 1) == (1 << 63) - 8
    assert list(eights.members(3)) == [8, 16, 24]
    assert eights.complement().describe("h") == "h % 8 != 0"
    assert eights.intersect(ValueSet.full(Range(5, 1 << 62))).count == 1 << 59
    assert eights.within(Range(1, 100)).count == 12
    both_ways = ValueSet.residues(3, [1], Range())
    assert (both_ways.min, both_ways.max, both_ways.at_most(-1)) == (None, None, -2)
    assert list(both_ways.members(2)) == [1, 4]
    assert both_ways.complement().complement() == both_ways
    assert ValueSet.full(Range()).is_full
    assert ValueSet.nothing(Range(1, None)).complement().is_full
    assert ValueSet(Range(1, 50), [Stretch(value, value, ALL) for value in (3, 5, 99)]).describe("h") == "{3, 5}"


def test_an_empty_range_has_an_empty_set():
    values = ValueSet.full(Range(5, 4))
    assert values.is_empty
    assert values.count == 0
    assert values.complement().is_empty


def test_the_smallest_period_is_found():
    for period in (1, 2, 3, 7, 12, 360, 1021):
        values = np.arange(10, 10 + 5 * period + 3)
        found = ValueSet.from_mask(10, values % period == 3 % period)
        assert len(found.stretches) == 1
        assert len(found.stretches[0].mask) == period
