"""Random expressions and guards against Python itself and brute force."""

from __future__ import annotations

import re

import numpy as np
import pytest
import random_guards as rg
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from tests.random_cases import cases
from trtdiag.symbolic import (
    BoundsCache,
    ProofKind,
    Range,
    allowed,
    check,
    conflict,
    evaluate,
    evaluate_masked,
    free_symbols,
    holds,
    holds_array,
    negate,
    parse_condition,
    parse_expr,
    periodic,
    substitute,
    to_text,
)
from trtdiag.symbolic.polynomials import NotApplicableError

SETTINGS = settings(max_examples=cases(100), deadline=None, suppress_health_check=list(HealthCheck))


def ranges(box):
    return {name: Range(*ends) for name, ends in box.items()}


def arrays(points):
    return {name: np.array([point[name] for point in points]) for name in rg.NAMES}


@SETTINGS
@given(rg.expressions(), rg.boxes(6))
def test_expressions_are_what_python_computes(text, box):
    expr = parse_expr(text)
    points = rg.points(box)
    wanted = [rg.value_of(text, point) for point in points]
    values, defined = evaluate_masked(expr, arrays(points))
    for point, want, value, is_defined in zip(points, wanted, values, defined, strict=True):
        assert is_defined == (want is not None)
        if want is None:
            with pytest.raises(ZeroDivisionError):
                evaluate(expr, point)
        else:
            assert evaluate(expr, point) == want == value


@SETTINGS
@given(rg.guards(), rg.boxes(6))
def test_guards_hold_where_python_says_so(guard, box):
    condition = parse_condition(guard.text)
    points = rg.points(box)
    wanted = [guard.truth(point) for point in points]
    assert [holds(condition, point) for point in points] == [want is True for want in wanted]
    assert holds_array(condition, arrays(points)).tolist() == [want is True for want in wanted]
    assert [holds(negate(condition), point) for point in points] == [want is False for want in wanted]


@SETTINGS
@given(rg.guards(), rg.expressions())
def test_printing_and_reading_again_gives_the_same_tree(guard, text):
    condition, expr = parse_condition(guard.text), parse_expr(text)
    assert parse_condition(to_text(condition)) == condition
    assert parse_expr(to_text(expr)) == expr
    assert hash(parse_expr(to_text(expr))) == hash(expr)
    assert substitute(condition, {}) == condition
    assert negate(negate(condition)) == condition


@SETTINGS
@given(rg.expressions(), rg.expressions(("a",)), rg.boxes(4))
def test_substituting_is_evaluating_in_two_steps(text, inner, box):
    expr, replacement = parse_expr(text), parse_expr(inner)
    joined = substitute(expr, {"b": replacement})
    assert "b" not in free_symbols(joined)
    for point in rg.points(box):
        b = rg.value_of(inner, point)
        if b is None:
            continue  # where the replacement is undefined nothing is promised
        want = rg.value_of(text, {"a": point["a"], "b": b})
        if want is None:
            with pytest.raises(ZeroDivisionError):
                evaluate(joined, point)
        else:
            assert evaluate(joined, point) == want


@SETTINGS
@given(rg.expressions(), rg.boxes(9))
def test_bounds_are_sound_and_exact_when_they_say_so(text, box):
    expr = parse_expr(text)
    found = BoundsCache(ranges(box)).of(expr)
    values = [value for value in (rg.value_of(text, point) for point in rg.points(box)) if value is not None]
    if not values:
        assert not found.exact or found.range.empty
        return
    assert all(value in found.range for value in values)
    if found.exact:
        assert (found.range.min, found.range.max) == (min(values), max(values))


@SETTINGS
@given(rg.expressions(leaves=4), st.integers(-3, 5), st.integers(0, 5), st.booleans())
def test_bounds_over_open_boxes_are_sound_and_their_numbers_are_reached(text, low, second, both):
    expr = parse_expr(text)
    assume(all(int(number) < 250 for number in re.findall(r"\d+", to_text(expr))))  # what constants multiply to
    found = BoundsCache({"a": Range(low, None), "b": Range(second, None if both else second + 9)}).of(expr)
    # Constants are below 33, so that 300 values of each symbol go far beyond any period and any crossing; a cube of a
    # bounded symbol, up to 14**3, is crossed by the open one alone.
    a, b = np.arange(low, low + (300 if both else 4000)), np.arange(second, second + (300 if both else 10))
    values, defined = evaluate_masked(expr, {"a": a[:, None], "b": b[None, :]})
    seen = values[defined]
    if len(seen) == 0:
        return
    least, most = int(seen.min()), int(seen.max())
    assert least in found.range
    assert most in found.range
    if found.exact:
        assert found.range.min in (None, least)
        assert found.range.max in (None, most)


@SETTINGS
@given(rg.expressions(("a",)), st.integers(-40, 5), st.one_of(st.none(), st.integers(60, 400)))
def test_residue_classes_give_the_exact_extent(text, low, high):
    expr = parse_expr(text)
    assume("a" in free_symbols(expr))
    try:
        found = periodic.extent(expr, Range(low, high))
    except NotApplicableError:
        assume(False)
    # Far enough to show where an open end goes: the period of these expressions is far below.
    far = high if high is not None else 4000
    values = [value for value in (rg.value_of(text, {"a": a}) for a in range(low, far + 1)) if value is not None]
    if found is None:
        assert not values
        return
    least, most = found
    if high is not None:
        assert (least, most) == (min(values), max(values))
    for value in values:
        assert value in Range(least, most)
    if least is not None and most is not None and high is None:
        assert least in values
        assert most in values


@SETTINGS
@given(rg.guards(("a",)), st.integers(-40, 5), st.integers(0, 300))
def test_residue_classes_give_the_exact_set(guard, low, count):
    condition = parse_condition(guard.text)
    try:
        values = periodic.solve(condition, Range(low, None))
    except NotApplicableError:
        assume(False)
    for a in range(low, low + count + 1):
        assert (a in values) == (guard.truth({"a": a}) is True), a
    bounded = periodic.solve(condition, Range(low, low + count))
    assert bounded.same_members(values.within(Range(low, low + count)))


@SETTINGS
@given(rg.guards(("a",)), rg.boxes(60))
def test_allowed_is_the_brute_force_set(guard, box):
    condition = parse_condition(guard.text)
    low, high = box["a"]
    solution = allowed([condition], "a", Range(low, high))
    assert solution.proof.proven
    wanted = [a for a in range(low, high + 1) if guard.truth({"a": a}) is True]
    assert list(solution.values.members(1000)) == wanted
    assert solution.values.count == len(wanted)


@SETTINGS
@given(rg.guards(), rg.boxes(9))
def test_check_gives_the_smallest_counterexample(guard, box):
    condition = parse_condition(guard.text)
    names = sorted(free_symbols(condition))
    own = {name: box[name] for name in names}
    result = check(condition, ranges(box))
    points = rg.points(own)
    filled = [{"a": 0, "b": 0, **point} for point in points]
    broken = [point for point, whole in zip(points, filled, strict=True) if guard.truth(whole) is not True]
    assert result.verdict == ("breaks" if broken else "holds")
    assert result.proof.proven
    if broken:
        assert result.smallest
        assert result.counterexample == min(broken, key=lambda p: (max(p.values(), default=0), tuple(p.values())))
        fitting = [p for p, whole in zip(points, filled, strict=True) if guard.truth(whole) is True]
        assert (result.witness is None) == (not fitting)
        if fitting and names:
            away = {id(p): sum(abs(p[n] - result.counterexample[n]) for n in names) for p in fitting}
            distance = sum(abs(result.witness[n] - result.counterexample[n]) for n in names)
            nearest = min(away.values())
            # One symbol: the nearest below, however far, before the nearest above.
            assert distance == nearest or (
                len(names) == 1 and result.witness[names[0]] < result.counterexample[names[0]]
            )
            assert result.witness in fitting


@SETTINGS
@given(st.lists(rg.guards(leaves=3), min_size=1, max_size=5), rg.boxes(7))
def test_conflicts_are_real_and_every_member_is_needed(some, box):
    conditions = [parse_condition(guard.text) for guard in some]
    points = rg.points(box)

    def satisfiable(members):
        return any(all(some[m].truth(point) is True for m in members) for point in points)

    result = conflict(conditions, ranges(box))
    everything = range(len(some))
    if satisfiable(everything):
        assert result.members is None
        assert result.witness is not None
        whole = {"a": box["a"][0], "b": box["b"][0], **result.witness}
        assert all(guard.truth(whole) is True for guard in some)
        return
    assert result.members is not None
    assert result.minimal
    assert not satisfiable(result.members)
    for member in result.members:
        assert satisfiable([other for other in result.members if other != member])


@settings(max_examples=cases(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(rg.guards(leaves=3), rg.boxes(5))
def test_z3_agrees_with_brute_force(guard, box):
    from trtdiag.symbolic import smt

    condition = parse_condition(guard.text)
    whole = ranges(box)
    good = [point for point in rg.points(box) if guard.truth(point) is True]
    bad = [point for point in rg.points(box) if guard.truth(point) is not True]
    for answer, wanted in (
        (smt.find([condition], whole, 2.0, least=True), good),
        (smt.find([], whole, 2.0, refuting=condition, least=True), bad),
    ):
        if answer.status == "unknown":
            continue  # z3 may give up on products; what it says must be true
        assert (answer.status == "sat") == bool(wanted)
        if answer.smallest and answer.model is not None:
            assert dict(answer.model) == min(wanted, key=lambda p: (max(p.values()), p["a"], p["b"]))


def test_the_kinds_of_proof_are_told_apart():
    even = parse_condition("h % 2 == 0")
    assert allowed([even], "h", Range(1, 100)).proof.kind is ProofKind.EXHAUSTIVE
    assert allowed([even], "h", Range(1, None)).proof.kind is ProofKind.PERIODIC
    assert check(parse_condition("h >= 1"), {"h": Range(1, None)}).proof.kind is ProofKind.MONOTONE
    assert check(parse_condition("a + b >= a"), {"a": Range(1, None), "b": Range(0, None)}).proof.proven
