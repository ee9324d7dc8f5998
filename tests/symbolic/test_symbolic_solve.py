"""Checks, pairs, conflicts and consequences by table, in the words of real models."""

from __future__ import annotations

import pytest

from trtdiag.symbolic import (
    ProofKind,
    Range,
    allowed,
    check,
    conflict,
    holds,
    implied,
    parse_condition,
)
from trtdiag.symbolic.grid import Grid

BOX = {"h": Range(135, 2160), "w": Range(3, 77), "batch": Range(1, 10), "n": Range(2, None)}


def test_the_stride_guard_of_an_encoder():
    guard = parse_condition("Eq(Mod((((h - 1)//4) - 1), 2), 0)")
    result = check(guard, BOX, {"h": 1080})
    assert (result.verdict, result.counterexample, result.witness) == ("breaks", {"h": 137}, {"h": 136})
    assert result.proof.kind is ProofKind.EXHAUSTIVE
    assert result.proof.checked == 2026
    values = allowed([guard], "h", BOX["h"]).values
    assert values.describe("h") == "h % 8 in {0, 5..7}"
    assert values.count == 1014


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("floor(h * 0.3333) >= 1", ProofKind.MONOTONE, "h >= 4"),
        ("floor(h * 0.3333) < 1000 / 3", ProofKind.MONOTONE, "h <= 1002"),
        ("2*h / h == 2", ProofKind.SMT, "all"),
    ],
)
def test_a_set_beyond_the_algebra_is_guessed_and_shown_by_bounds_or_z3(text, kind, said):
    solution = allowed([parse_condition(text)], "h", BOX["n"])
    assert (solution.proof.kind, solution.values.describe("h")) == (kind, said)


def test_a_witness_above_where_there_is_none_below():
    result = check(parse_condition("h >= 200"), BOX)
    assert (result.counterexample, result.witness) == ({"h": 135}, {"h": 200})


def test_nothing_satisfies_it_and_the_example_does_not_help():
    result = check(parse_condition("h < 10"), BOX, {"h": 200})
    assert (result.verdict, result.counterexample, result.witness) == ("breaks", {"h": 135}, None)


def test_the_smallest_of_several_symbols_has_the_least_maximum():
    result = check(parse_condition("batch*w % 16 == 0"), BOX)
    assert result.counterexample == {"batch": 1, "w": 3}
    assert result.witness == {"batch": 4, "w": 4}


def test_only_given_points_count():
    joint = parse_condition("h*w % 8 == 0")
    assert check(joint, BOX).verdict == "breaks"
    within = check(joint, BOX, given=[parse_condition("h % 8 == 0")])
    assert within.verdict == "holds"
    open_box = {"h": Range(1, None), "w": Range(1, None)}
    assert check(joint, open_box, given=[parse_condition("h % 8 == 0")]).verdict == "holds"
    alone = check(parse_condition("h % 2 == 0"), BOX, given=[parse_condition("h % 8 == 1"), parse_condition("h > 140")])
    assert alone.counterexample == {"h": 145}


@pytest.mark.parametrize("text", ["n // (n - 2) >= 0", "8 % (h - 135) != 100"])
def test_where_it_is_not_defined_it_breaks(text):
    result = check(parse_condition(text), BOX)
    name = "n" if "n" in text else "h"
    assert result.counterexample == {name: BOX[name].min}


def test_constant_conditions_and_empty_ranges():
    assert check(parse_condition("1 < 2"), {}).verdict == "holds"
    assert check(parse_condition("1 > 2"), {}).verdict == "breaks"
    assert check(parse_condition("h > 5"), {"h": Range(3, 2)}).verdict == "holds"
    assert allowed([], "h", Range(1, 9)).values.is_full
    assert allowed([parse_condition("1 > 2")], "h", Range(1, 9)).values.is_empty
    with pytest.raises(ValueError, match="but they have w"):
        allowed([parse_condition("h == w")], "h", Range(1, 9))


def test_a_relation_that_z3_must_find():
    result = check(parse_condition("n <= h + 2**40"), BOX)
    assert result.verdict == "breaks"
    assert result.smallest
    assert result.counterexample == {"h": 135, "n": 2**40 + 136}


CONFLICTS = [
    (["h % 2 == 0", "h > 200", "h % 4 == 1", "w > 5"], (0, 2)),
    (["h % 2 == 0", "h > 200"], None),
    (["h > 3000"], (0,)),
    (["w > h - 130", "w < 20", "h > 160", "w > 1"], (0, 1, 2)),
    (["h % 6 == 0", "h % 4 == 2", "h % 9 == 1"], (0, 2)),
    ([], None),
    (["1 > 2"], (0,)),
]


@pytest.mark.parametrize(("texts", "members"), CONFLICTS, ids=str)
def test_conflicts(texts, members):
    found = conflict([parse_condition(text) for text in texts], BOX)
    assert found.members == members
    assert (found.members is None and found.witness is not None) is (members is None)
    unbounded = conflict(
        [parse_condition(text) for text in texts], {name: Range(r.min, None) for name, r in BOX.items()}
    )
    if members == (0, 2):
        assert unbounded.members == members
        assert unbounded.proof.proven


def test_what_follows_from_what():
    assert implied(parse_condition("h % 2 == 0"), [parse_condition("h % 8 == 0")], BOX).verdict == "holds"
    other = implied(parse_condition("h % 8 == 0"), [parse_condition("h % 2 == 0")], BOX)
    assert (other.verdict, other.counterexample) == ("breaks", {"h": 138})
    assert (
        implied(parse_condition("n >= 4"), [parse_condition("n > h"), parse_condition("h > 3")], BOX).verdict == "holds"
    )


def test_a_condition_that_is_defined_nowhere():
    nowhere = parse_condition("0 // 0 == 0")
    assert check(nowhere, {}).verdict == "breaks"
    assert check(nowhere, BOX, given=[parse_condition("h > 2")]).counterexample == {"h": 135}
    assert allowed([nowhere], "h", Range(1, None)).values.is_empty
    assert allowed([parse_condition("(h // 0) // h == 0")], "h", Range(1, None)).values.is_empty
    assert conflict([nowhere, parse_condition("h > 2")], BOX).members == (0,)


NEAR = [
    "a*b % 64 == 0",
    "a == b + 200",
    "(a//8)*(b//8) % 2 == 0",
    "a*b < 90000",
    "a + b != 700",
    "a >= 390 or b >= 395",
    "a % 97 == 5 and b % 89 == 7",
]


@pytest.mark.parametrize("text", NEAR)
def test_the_early_search_finds_what_trying_everything_finds(text):
    """160,000 tuples: more than the early search looks at, few enough to try all here."""
    condition = parse_condition(text)
    grid = Grid.of(("a", "b"), {"a": Range(1, 400), "b": Range(1, 400)})
    good = grid.holds([condition])
    result = check(condition, {"a": Range(1, 400), "b": Range(1, 400)})
    smallest = grid.smallest(~good)
    assert result.counterexample == smallest
    assert result.smallest
    nearest = grid.nearest(good, smallest)
    assert sum(abs(result.witness[name] - smallest[name]) for name in "ab") == sum(
        abs(nearest[name] - smallest[name]) for name in "ab"
    )
    assert holds(condition, result.witness)
    open_box = {"a": Range(1, None), "b": Range(1, None)}
    assert check(condition, open_box).counterexample == smallest
