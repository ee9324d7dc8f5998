"""Points at which a program is run: small, allowed, and unequal wherever they may be."""

from __future__ import annotations

from itertools import combinations

import pytest

from trtdiag.dims.unequal_points import UnequalPoints
from trtdiag.symbolic import Range, holds, parse_condition


def _choice(box: dict[str, Range], *conditions: str, avoid: tuple[int, ...] = ()) -> UnequalPoints:
    return UnequalPoints(box, [parse_condition(text) for text in conditions], dict.fromkeys(box, 5), avoid)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_each_of_two_is_the_larger_one_once(count: int) -> None:
    names = [f"s{index}" for index in range(count)]
    first, second = _choice({name: Range(1, 128) for name in names}).unequal()
    for one, other in combinations(names, 2):
        assert first[one] < first[other]
        assert second[one] > second[other]
    assert min(first.values()) >= 3


def test_sizes_of_other_dims_are_avoided() -> None:
    first, _ = _choice({"a": Range(1, 64), "b": Range(1, 64)}, avoid=(3, 5, 8)).unequal()
    assert not {3, 5, 8} & set(first.values())


def test_narrow_ranges_stay_inside() -> None:
    box = {"b": Range(64, 512), "k": Range(2, 4), "one": Range(1, 1)}
    for point in _choice(box).unequal():
        assert all(value in box[name] for name, value in point.items())


def test_conditions_hold_and_equal_symbols_stay_equal() -> None:
    texts = ("h % 8 == 0", "k == v", "m == k + q")
    box = {name: Range(1, 256) for name in ("h", "k", "v", "m", "q")}
    choice = _choice(box, *texts)
    points = [*choice.unequal()]
    assert len(points) == 2
    points += choice.at_ends(points[0])
    for point in points:
        assert all(holds(parse_condition(text), point) for text in texts), point
    assert points[0]["k"] != points[0]["q"]


def test_ends_are_tried_together_and_alone() -> None:
    choice = _choice({"a": Range(0, 9), "b": Range(1, 9), "c": Range(4, 9)})
    base = next(choice.unequal())
    ends = [(point["a"], point["b"], point["c"]) for point in choice.at_ends(base)]
    assert ends == [(0, 1, 4), (0, base["b"], base["c"]), (base["a"], 1, base["c"])]
    assert choice.greatest() == {"a": 9, "b": 9, "c": 9}


def test_an_open_end_is_four_times_the_example() -> None:
    assert _choice({"a": Range(2, None)}).greatest() == {"a": 20}


def test_where_nothing_is_allowed_there_is_no_point() -> None:
    assert not list(_choice({"a": Range(1, 3), "b": Range(7, 9)}, "a == b").unequal())
    assert _choice({"a": Range(1, 3)}).moved({"a": 2}, "a", 4) is None
