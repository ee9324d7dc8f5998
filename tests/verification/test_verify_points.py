"""Points: every end of every range, guards respected."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from trtdiag.symbolic import Range, holds, parse_condition
from trtdiag.verification.points import points


def _sizes(found: object) -> list[dict[str, int]]:
    return [dict(point.sizes) for point in found]  # type: ignore[attr-defined]


def test_a_static_program_has_its_example_only() -> None:
    (point,) = points({}, {}, [])
    assert (point.label, dict(point.sizes)) == ("example", {})


def test_both_ends_and_the_example_come_first() -> None:
    found = points({"h": Range(1, 17)}, {"h": 4}, [])
    assert _sizes(found)[:3] == [{"h": 4}, {"h": 1}, {"h": 17}]
    assert [point.label for point in found[:3]] == ["example", "min", "max"]


def test_all_corners_of_two_symbols() -> None:
    found = _sizes(points({"h": Range(2, 9), "w": Range(1, 31)}, {"h": 3, "w": 5}, []))
    for corner in ({"h": 2, "w": 1}, {"h": 9, "w": 31}, {"h": 2, "w": 31}, {"h": 9, "w": 1}):
        assert corner in found


def test_many_symbols_are_moved_one_at_a_time() -> None:
    ranges = {f"s{i}": Range(1, 10) for i in range(6)}
    found = _sizes(points(ranges, {}, []))
    assert {**dict.fromkeys(ranges, 1), "s4": 10} in found
    assert {**dict.fromkeys(ranges, 10), "s4": 1} in found
    assert len(found) <= 3 + 2 * 6 + 2


def test_values_between_respect_residues() -> None:
    conditions = [parse_condition("h % 8 == 0")]
    found = points({"h": Range(135, 2160)}, {"h": 256}, conditions)
    assert all(point.sizes["h"] % 8 == 0 for point in found)
    assert {point.sizes["h"] for point in found} >= {136, 2160, 256}
    assert any(136 < point.sizes["h"] < 2160 and point.sizes["h"] != 256 for point in found)


def test_values_between_are_prime_where_nothing_forbids_it() -> None:
    found = [point for point in points({"n": Range(1, 100)}, {"n": 4}, []) if point.label == "in between"]
    assert found
    for point in found:
        value = point.sizes["n"]
        assert all(value % divisor for divisor in range(2, value))


def test_a_corner_that_guards_forbid_moves_to_the_next_allowed_point() -> None:
    conditions = [parse_condition("h + w <= 20")]
    found = points({"h": Range(1, 16), "w": Range(1, 16)}, {"h": 4, "w": 4}, conditions)
    assert all(holds(conditions[0], point.sizes) for point in found)
    (most,) = [point for point in found if point.label == "max"]
    assert sum(most.sizes.values()) == 20
    assert most.moved


def test_an_open_end_takes_the_example() -> None:
    found = _sizes(points({"n": Range(3, None)}, {"n": 12}, []))
    assert {"n": 3} in found
    assert max(sizes["n"] for sizes in found) == 12


def test_one_value_is_one_point() -> None:
    assert _sizes(points({"n": Range(7, 7)}, {"n": 7}, [])) == [{"n": 7}]


@given(
    low=st.integers(1, 40),
    extent=st.integers(0, 60),
    period=st.integers(1, 9),
    residue=st.integers(0, 8),
)
def test_every_point_is_allowed_and_the_ends_are_exact(low: int, extent: int, period: int, residue: int) -> None:
    high = low + extent
    fitting = [value for value in range(low, high + 1) if value % period == residue % period]
    conditions = [parse_condition(f"n % {period} == {residue % period}")] if period > 1 else []
    found = points({"n": Range(low, high)}, {"n": fitting[0]} if fitting else {}, conditions)
    seen = [point.sizes["n"] for point in found]
    if not fitting:
        assert seen == []
        return
    assert set(seen) <= set(fitting)
    assert min(seen) == fitting[0]
    assert max(seen) == fitting[-1]


@pytest.mark.parametrize("condition", ["h*w % 64 == 0", "(h - w) % 4 == 0"])
def test_joint_guards(condition: str) -> None:
    parsed = parse_condition(condition)
    found = points({"h": Range(4, 64), "w": Range(4, 64)}, {"h": 16, "w": 16}, [parsed])
    assert len(found) > 3
    assert all(holds(parsed, point.sizes) for point in found)
