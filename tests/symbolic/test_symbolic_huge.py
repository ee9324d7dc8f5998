"""Nothing overflows and nothing exhausts memory: values around 2**31 and 2**63, ranges without an end."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests.harness.rows import each
from trtdiag.symbolic import (
    ProofKind,
    Range,
    ValueSet,
    allowed,
    bounds,
    check,
    conflict,
    evaluate,
    evaluate_array,
    holds_array,
    negate,
    parse_condition,
    parse_expr,
    progressions,
    substitute,
    to_text,
)

INT64 = (1 << 63) - 1
EDGES = [1, 2, 3, 4093, (1 << 31) - 1, 1 << 31, (1 << 62) + 1, INT64 - 1, INT64]
TEXTS = [
    "h*h",
    "h*h*h - h",
    "4*h + 7",
    "(h - 1)//8 * 8",
    "h*h % 1000003",
    "-h*h // 7",
    "max(h*h, 3*h) - min(h, 5)",
    "h//(h//8 + 1)",
    "(h if h % 2 == 0 else h*h)",
    "ceil(h/3) + floor(h/7)",
    "trunc(-h/3)",
    "(h + 1)*(h - 1) - h**2",
]


@pytest.mark.parametrize("text", TEXTS)
def test_arrays_do_not_overflow(text):
    expr = parse_expr(text)
    values = evaluate_array(expr, {"h": np.array(EDGES)})
    assert values.tolist() == [evaluate(expr, {"h": h}) for h in EDGES]


def test_small_values_stay_int64():
    assert evaluate_array(parse_expr("h*h + 1"), {"h": np.arange(100)}).dtype == np.int64
    assert evaluate_array(parse_expr("h*h + 1"), {"h": np.array([INT64])}).dtype == object


def test_small_dtypes_do_not_wrap():
    for dtype in (np.int8, np.uint8, np.int32, np.uint64):
        assert evaluate_array(parse_expr("h*h"), {"h": np.array([100], dtype=dtype)}).tolist() == [10000]
    assert evaluate_array(parse_expr("h + 1"), {"h": np.array([2**64 - 1], dtype=np.uint64)}).tolist() == [2**64]


def test_comparing_with_a_number_beyond_int64_is_exact():
    near = np.array([INT64 - 1, INT64, -INT64])
    assert holds_array(parse_condition(f"h < {INT64 + 1}"), {"h": near}).tolist() == [True] * 3
    assert holds_array(parse_condition(f"h + 1 == {INT64 + 1}"), {"h": near}).tolist() == [False, True, False]
    assert holds_array(parse_condition(f"h*h > {INT64 * (INT64 - 1)}"), {"h": near}).tolist() == [False, True, True]


def test_zero_divisors_are_false_not_numbers():
    h = np.array([-2, -1, 0, 1, 2])
    assert holds_array(parse_condition("8 // h >= -100"), {"h": h}).tolist() == [True, True, False, True, True]
    assert holds_array(parse_condition("8 % h != 5 or h == 0"), {"h": h}).tolist() == [True] * 5
    with pytest.raises(ZeroDivisionError):
        evaluate_array(parse_expr("8 // h"), {"h": h})
    assert holds_array(parse_condition("8 // 0 == 1"), {"h": h}).tolist() == [False] * 5


RANGES = [Range(1, 1 << 31), Range(1, INT64), Range(2, None), Range(None, None), Range(INT64 - 40, INT64)]


@each("range_", RANGES, ids=str)
@each(
    "text",
    [
        "h % 8 == 0",
        "(((h - 1)//4) - 1) % 2 == 0",
        "h <= 2**40 and h % 3 != 1",
        "h // 16 != 1",
        "h*h % 7 == 2",
        "h != 5",
    ],
)
def test_huge_ranges_are_solved_exactly_in_little_memory(text, range_):
    condition = parse_condition(text)
    tracemalloc.start()
    solution = allowed([condition], "h", range_)
    result = check(condition, {"h": range_})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    assert solution.proof.proven
    near = [edge + delta for edge in (0, 16, 1 << 31, 1 << 40, INT64) for delta in range(-20, 21)]
    for value in near:
        inside = value in range_ and evaluate(condition, {"h": value})
        assert (value in solution.values) == inside, value
    refused = solution.values.complement()
    assert result.verdict == ("holds" if refused.is_empty else "breaks")
    if refused.min is not None:
        assert result.counterexample == {"h": refused.min}
    for progression in progressions(solution.values):
        assert progression.values.intersect(solution.values).same_members(progression.values)


def test_several_huge_symbols():
    box = {"a": Range(1, INT64), "b": Range(2, None)}
    assert check(parse_condition("a + b >= 3"), box).verdict == "holds"
    assert check(parse_condition("(8*a + 8*b) % 8 == 0"), box).verdict == "holds"
    broken = check(parse_condition("a != b"), box)
    assert (broken.verdict, broken.counterexample, broken.smallest) == ("breaks", {"a": 2, "b": 2}, True)
    both = [parse_condition("a > b"), parse_condition("a % 2 == 0"), parse_condition("b > a + 4")]
    assert conflict(both, box).members == (0, 2)
    assert bounds(parse_expr("a*b + a"), box).range == Range(3, None)


def test_powers_that_no_memory_holds_are_refused():
    box = {"h": Range(1, 1 << 40)}
    condition = parse_condition("2**h > h")
    assert check(condition, box).verdict in ("holds", "unknown")
    with pytest.raises(OverflowError):
        evaluate(condition, {"h": 1 << 40})
    assert allowed([condition], "h", Range(1, 1 << 40)).proof.kind is ProofKind.NONE
    assert not bounds(parse_expr("2**h"), box).exact


@pytest.mark.slow
def test_a_set_too_scattered_to_spell_out_is_not_spelled_out():
    """Coprime periods multiply; past the limit the answer is 'not proven', never a wrong or endless one."""
    condition = parse_condition("h % 65521 == 1 and h % 65519 == 2 and h % 65497 == 3")
    solution = allowed([condition], "h", Range(1, None))
    if solution.proof.proven:
        assert all(evaluate(condition, {"h": value}) for value in solution.values.members(3))
    assert check(condition, {"h": Range(1, None)}).counterexample is not None


def test_explicit_sets_of_millions_stay_small():
    points = np.arange(1, (1 << 21) + 1)
    values = ValueSet.from_mask(1, points % (points // 8 + 1) == 0)
    tracemalloc.start()
    assert values.complement().count == len(points) - values.count
    assert tracemalloc.get_traced_memory()[1] < 256 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    ["h" + " // w" * 140, "(" * 25 + "h" + " % 97 + w) // 2" * 25, "max(w, 3 - " * 70 + "h" + ")" * 70],
    ids=["quotients", "sums", "maxima"],
)
def test_the_deepest_text_that_is_read_goes_through_everything(text):
    expr = parse_expr(text)
    condition = parse_condition(f"{text} >= 1")
    box = {"h": Range(1, 90), "w": Range(1, 9)}
    assert parse_expr(to_text(expr)) == expr
    value = evaluate(expr, {"h": 70, "w": 3})
    assert evaluate_array(expr, {"h": np.array([70, 5]), "w": 3})[0] == value
    found = bounds(expr, box)
    assert value in found.range
    result = check(condition, box)
    assert result.verdict in ("holds", "breaks")
    assert substitute(expr, {"w": 3}) == substitute(parse_expr(to_text(expr)), {"w": 3})
    conflict([condition, negate(condition)], box)
