"""What a Dim can say inside a value set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from test_symbolic_valueset import masks, spelled

from tests.random_cases import cases
from trtdiag.symbolic import Range, ValueSet, allowed, parse_condition, progressions


def solved(text: str, range_: Range) -> ValueSet:
    return allowed([parse_condition(text)], "h", range_).values


BEST = {
    # condition, range, example -> step, offset, range of d, kept
    ("h % 8 == 0", 135, 2160, 144): (8, 0, Range(17, 270), 254),
    ("h % 2 == 1", 1, 99, 7): (2, 1, Range(0, 49), 50),
    ("((h - 1)//2) % 2 != 0", 320, 7680, 328): (4, 0, Range(80, 1920), 1841),
    ("((h - 1)//2) % 2 != 0", 320, 7680, 327): (4, 3, Range(80, 1919), 1840),
    ("(((h - 1)//4) - 1) % 2 == 0", 135, 2160, 1080): (8, 0, Range(17, 270), 254),
    ("h <= 512", 2, 4096, 64): (1, 0, Range(2, 512), 511),
    ("h >= 2", 2, 4096, None): (1, 0, Range(2, 4096), 4095),
    ("h % 16 != 0", 17, 4095, 50): (4, 2, Range(4, 1023), 1020),
    ("h % 320 == 0 and h >= 640", 320, 48000, 3200): (320, 0, Range(2, 150), 149),
    ("h < 100 or h % 8 == 0", 2, 4096, 64): (8, 0, Range(1, 512), 512),
    ("h < 100 or h % 8 == 0", 2, 4096, 63): (1, 0, Range(2, 99), 98),
    ("h == 16", 2, 4096, 16): (1, 0, Range(16, 16), 1),
    ("h % 8 == 0", 1, None, None): (8, 0, Range(1, None), None),
    ("h % 8 == 0", 135, 2160, 137): (8, 0, Range(17, 270), 254),  # an example that is refused binds nothing
}


@pytest.mark.parametrize("case", BEST, ids=str)
def test_the_best_progression(case):
    text, low, high, example = case
    best = progressions(solved(text, Range(low, high)), example)[0]
    assert (best.step, best.offset, best.range, best.kept) == BEST[case]


def test_alternatives_are_ranked_and_none_lies_inside_another():
    found = progressions(solved("h % 8 in (0, 5, 6, 7)", Range(135, 2160)), None)
    assert [(p.step, p.offset) for p in found[:4]] == [(8, 0), (8, 7), (8, 5), (8, 6)]
    assert [p.kept for p in found] == sorted((p.kept for p in found), reverse=True)
    assert any(p.step == 1 and p.kept == 4 for p in found)


def test_words():
    found = progressions(solved("h % 8 == 0", Range(135, 2160)), 144)
    assert found[0].describe("h") == "h % 8 == 0"
    assert progressions(solved("h <= 512", Range(2, 4096)), 64)[0].describe("h") == "h <= 512"
    assert progressions(solved("h == 16", Range(2, 4096)), 16)[0].single == 16
    assert progressions(solved("h > 9", Range(2, 5)), None) == []


def brute(allowed_values: set[int], low: int, high: int, example: int) -> int:
    """The most values that any progression through ``example`` inside the set has."""
    best = 1
    for step in range(1, high - low + 1):
        down = up = example
        while down - step in allowed_values:
            down -= step
        while up + step in allowed_values:
            up += step
        best = max(best, (up - down) // step + 1)
    return best


def test_a_step_that_divides_no_period_is_found_in_a_few_periods() -> None:
    """Two periods of 9: 24, 32, 40 by 8 are more than 24, 33 by 9."""
    members = {23, 24, 31, 32, 33, 40}
    values = ValueSet.from_mask(23, np.array([value in members for value in range(23, 41)]))
    best = progressions(values, 24)[0]
    assert (best.step, best.offset, best.kept) == (8, 0, 3)


@settings(max_examples=cases(80), deadline=None)
@given(masks(), st.data())
def test_progressions_are_inside_maximal_and_the_best_is_the_best(one, data):
    low, mask = one[0] + 40, one[1]  # sizes are not negative
    members = spelled(low, mask)
    values = ValueSet.from_mask(low, np.array(mask))
    if not members:
        assert progressions(values) == []
        return
    example = data.draw(st.sampled_from(sorted(members)))
    found = progressions(values, example)
    assert found
    for progression in found:
        said = {
            progression.step * d + progression.offset for d in range(progression.range.min, progression.range.max + 1)
        }
        assert example in said
        assert example in progression
        assert said <= members
        assert len(said) == progression.kept
        assert 0 <= progression.offset < max(progression.step, 2)
        assert progression.range.min >= 0
        if progression.kept > 1:
            assert min(said) - progression.step not in members
            assert max(said) + progression.step not in members
    assert found[0].kept == brute(members, low, low + len(mask) - 1, example)
    free = progressions(values)
    assert free[0].kept <= max(brute(members, low, low + len(mask) - 1, member) for member in members)
