"""Sizes chosen for conditions as models have them, each named after what it stands for."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.harness.rows import thinned
from trtdiag.dims.solver.choose import choose
from trtdiag.symbolic import ProofKind, Range, evaluate, parse_condition, parse_expr, to_text


def chosen(conditions, box, example, **options):
    return choose(
        [parse_condition(text) for text in conditions],
        {name: Range(*ends) for name, ends in box.items()},
        example,
        **options,
    )


def told(found):
    """Each symbol in words: its least and greatest value and the step, or its size over others."""
    words = {name: (run.extent.min, run.extent.max, run.step) for name, run in found.sets.items()}
    return words | {name: to_text(size) for name, size in found.determined.items()}


ALONE = {
    "multiples": (["h % 8 == 0"], (135, 2160), 136, (136, 2160, 8)),
    "odd sizes": (["(h - 1) % 4 == 2"], (1, 2160), 135, (3, 2159, 4)),
    "a union of residues keeps the example's": (["h % 8 >= 5 or h % 8 == 0"], (135, 2160), 136, (136, 2160, 8)),
    "two residues of four are the even ones": (["h % 4 != 3"], (2, 200), 136, (2, 200, 2)),
    "nested floor divisions": (["(((h - 1)//2)//2) % 2 == 1"], (1, 2160), 135, (7, 2159, 8)),
    "a rational step": (["h - 320*((h/40)//8) == 0", "h//320 != 1"], (320, 48000), 3200, (640, 48000, 320)),
    "an interval before a multiple": (["h <= 512 or h % 2 == 0"], (2, 600), 100, (2, 512, 1)),
    "0 and 1 are taken for constants": (["h >= 2", "h != 1"], (0, 64), 8, (2, 64, 1)),
    "a floor that may not be one": (["h//8 != 1", "h % 8 == 0"], (8, 64), 32, (16, 64, 8)),
    "a single value": (["h == 64"], (1, 512), 64, (64, 64, 1)),
    "an open range": (["h % 16 == 0"], (1, None), 32, (16, None, 16)),
    "no condition": ([], (135, None), 136, (135, None, 1)),
    "sizes are never negative": (["h % 2 == 0"], (None, 7), 2, (0, 6, 2)),
    "a hole keeps the side of the example": (["h != 100"], (2, 150), 120, (101, 150, 1)),
    "a number above all periods": (["h % 44100 == 0"], (1, None), 88200, (44100, None, 44100)),
    "a modulus of 2**62": ([f"h % {2**62} == 0"], (0, 2**63), 2**62, (0, 2**63, 2**62)),
    "a modulus of 2**62 without an end": ([f"h % {2**62} == 0"], (0, None), 2**62, (0, None, 2**62)),
}


@pytest.mark.parametrize("name", ALONE)
def test_one_symbol(name):
    conditions, ends, example, wanted = ALONE[name]
    found = chosen(conditions, {"h": ends}, {"h": example})
    assert told(found) == {"h": wanted}
    assert found.proof.proven
    assert found.open == ()
    assert found.conflict is None


T = (2, 4096)
TOGETHER = {
    "a chain of equal sizes": (
        ["a == b", "b == c"],
        {"a": (2, 64), "b": (1, 32), "c": (4, None)},
        {"a": 8, "b": 8, "c": 8},
        {"a": (4, 32, 1), "b": "a", "c": "a"},
    ),
    "a tied multiple": (
        ["a == b", "b % 4 == 0"],
        {"a": (2, 64), "b": (1, 32)},
        {"a": 8, "b": 8},
        {"a": (4, 32, 4), "b": "a"},
    ),
    "one more": (["T == S + 1"], {"T": (1, 64), "S": (1, 64)}, {"T": 9, "S": 8}, {"S": (1, 63, 1), "T": "S + 1"}),
    "a strided pair": (
        ["(x + 1)//2 == y"],
        {"x": T, "y": (2, 2048)},
        {"x": 20, "y": 10},
        {"x": (3, 4096, 1), "y": "(x + 1) // 2"},
    ),
    "three levels of a pyramid": (
        ["h3 == 2*h4", "h4 == 2*h5"],
        {"h3": (4, 512), "h4": (2, 512), "h5": (2, 512)},
        {"h3": 32, "h4": 16, "h5": 8},
        {"h5": (2, 128, 1), "h3": "4*h5", "h4": "2*h5"},
    ),
    "neither is a multiple of the other": (
        ["3*x == 2*y"],
        {"x": (2, 100), "y": (2, 512)},
        {"x": 6, "y": 9},
        {"_root0": (1, 50, 1), "x": "2*_root0", "y": "3*_root0"},
    ),
    "a sum of two": (
        ["a + b == c"],
        {"a": (2, 512), "b": (2, 512), "c": (2, 1024)},
        {"a": 5, "b": 7, "c": 12},
        {"a": (2, 512, 1), "b": (2, 512, 1), "c": "a + b"},
    ),
    "a decreasing relation": (
        ["x + y == 12"],
        {"x": (2, 10), "y": (2, 512)},
        {"x": 5, "y": 7},
        {"y": (2, 10, 1), "x": "12 - y"},
    ),
    "a tie written as two orderings": (
        ["2*y - 2 < x", "x <= 2*y"],
        {"x": (1, 512), "y": (1, 512)},
        {"x": 20, "y": 10},
        {"y": (1, 256, 1), "x": "2*y"},
    ),
    "a product with a divisor": (
        ["b*t % 7 == 0"],
        {"b": (1, 64), "t": (1, 4096)},
        {"b": 4, "t": 14},
        {"b": (1, 64, 1), "t": (7, 4095, 7)},
    ),
    "a product whose divisor both share": (
        ["h*w % 16 == 0"],
        {"h": (1, None), "w": (1, None)},
        {"h": 4, "w": 20},
        {"h": (4, None, 4), "w": (4, None, 4)},
    ),
    "three factors": (
        ["b*t*c % 8 == 0"],
        {"b": (1, 64), "t": (1, 4096), "c": (1, 100)},
        {"b": 4, "t": 14, "c": 3},
        {"b": (4, 64, 4), "t": (2, 4096, 2), "c": (1, 100, 1)},
    ),
    "an ordering": (
        ["a <= b"],
        {"a": T, "b": T},
        {"a": 20, "b": 30},
        {"a": (2, 30, 1), "b": (30, 4096, 1)},
    ),
    "a common limit": (
        ["a + b <= 100"],
        {"a": (2, 10**9), "b": (2, 10**9)},
        {"a": 20, "b": 30},
        {"a": (2, 50, 1), "b": (2, 50, 1)},
    ),
    "a volume that may not be met": (
        ["(h//14)*(w//14) != 256", "h % 14 == 0", "w % 14 == 0"],
        {"h": (14, 2048), "w": (14, 2048)},
        {"h": 280, "w": 280},
        {"h": (238, 2044, 14), "w": (126, 2044, 14)},
    ),
    "a size that is a product": (
        ["b*t == c", "c % 16 == 0"],
        {"b": (1, 64), "t": (1, 1024), "c": (1, 65536)},
        {"b": 4, "t": 8, "c": 32},
        {"b": (4, 64, 4), "t": (4, 1024, 4), "c": "b*t"},
    ),
}


# Quick: the ends and each third; random cases in test_choose_random.py.
@thinned("name", TOGETHER, every=3)
def test_several_symbols(name):
    conditions, box, example, wanted = TOGETHER[name]
    found = chosen(conditions, box, example)
    assert told(found) == wanted
    assert found.proof.proven
    assert found.open == ()


AFFINE = {
    "a strided pair": (
        ["(x + 1)//2 == y"],
        {"x": T, "y": (2, 2048)},
        {"x": 20, "y": 10},
        {"y": (2, 2048, 1), "x": "2*y"},
    ),
    "a strided pair of odd length": (
        ["(x + 1)//2 == y"],
        {"x": T, "y": (2, 2048)},
        {"x": 21, "y": 11},
        {"y": (2, 2048, 1), "x": "2*y - 1"},
    ),
    "a sum of two that grow together": (
        ["a + b == c"],
        {"a": (2, 512), "b": (2, 400), "c": (2, 1024)},
        {"a": 5, "b": 7, "c": 12},
        {"a": (2, 398, 1), "b": "a + 2", "c": "2*a + 2"},
    ),
    "a decreasing relation has one pair": (
        ["x + y == 12"],
        {"x": (2, 10), "y": (2, 512)},
        {"x": 5, "y": 7},
        {"x": (5, 5, 1), "y": (7, 7, 1)},
    ),
    "rounding on both sides": (
        ["x//2 == y//3"],
        {"x": (1, 512), "y": (1, 512)},
        {"x": 16, "y": 24},
        {"_root0": (1, 170, 1), "x": "2*_root0", "y": "3*_root0"},
    ),
    "at least sixteen, above": (
        ["max(x, 16) == y"],
        {"x": (1, 512), "y": (1, 512)},
        {"x": 20, "y": 20},
        {"x": (16, 512, 1), "y": "x"},
    ),
    "at least sixteen, below": (
        ["max(x, 16) == y"],
        {"x": (1, 512), "y": (1, 512)},
        {"x": 10, "y": 16},
        {"x": (1, 16, 1), "y": (16, 16, 1)},
    ),
}


@pytest.mark.parametrize("name", AFFINE)
def test_only_what_a_derived_dim_can_say(name):
    conditions, box, example, wanted = AFFINE[name]
    found = chosen(conditions, box, example, determine=False)
    assert told(found) == wanted
    assert found.proof.proven


@pytest.mark.parametrize("order", ["hw", "wh"])
def test_sizes_that_go_up_together_are_those_that_torch_computes_exactly(order):
    """Its guard for 3*n + 1 and 4*n + 4 is ``8 / 3 + 4 / 3 * h == w``, over the first: 37 and 52 break it in floats."""
    box = dict.fromkeys(order, (8, 96))
    for h, w in ((40, 56), (41, 53), (50, 37)):
        found = chosen([f"trunc(32*w/h) == {32 * w // h}"], box, {"h": h, "w": w})
        (root,) = found.sets
        sizes = [found.determined.get(name, parse_expr(name)) for name in order]
        (a, b), (c, d) = ([evaluate(size, {root: value}) for value in (0, 1)] for size in sizes)
        slope, start = Fraction(d - c, b - a), c - Fraction(d - c, b - a) * a
        for value in found.sets[root].values.members(99):
            one, other = (evaluate(size, {root: value}) for size in sizes)
            assert start.numerator / start.denominator + slope.numerator / slope.denominator * one == other


def test_the_example_is_given_up_only_where_it_is_refused():
    assert told(chosen(["h % 2 == 0"], {"h": (1, 64)}, {"h": 3})) == {"h": (2, 64, 2)}
    assert told(chosen(["h % 2 == 0"], {"h": (10, 64)}, {"h": 4})) == {"h": (10, 64, 2)}
    assert told(chosen(["a + b >= 3"], {"a": (1, 64), "b": (1, 64)}, {})) == {"a": (1, 64, 1), "b": (2, 64, 1)}
    # Of the two symbols with a value both stay, and the third follows.
    found = chosen(["a + b == c"], {"a": (1, 64), "b": (1, 64), "c": (1, 64)}, {"a": 3, "b": 4})
    assert told(found) == {"a": (1, 32, 1), "b": (1, 32, 1), "c": "a + b"}


def test_a_contradiction_names_the_conditions_that_it_needs():
    alone = chosen(["h >= 0", "h % 2 == 0", "h % 2 == 1"], {"h": (135, 2160)}, {"h": 136})
    assert alone.conflict is not None
    assert alone.conflict.members == (1, 2)
    assert not alone.sets
    tied = chosen(["a == b", "c <= 3", "a % 2 == 0", "b % 2 == 1"], dict.fromkeys("abc", (1, 200)), {})
    assert tied.conflict is not None
    assert tied.conflict.members == (0, 2, 3)
    empty = chosen(["h % 2 == 0"], {"h": (9, 3)}, {})
    assert empty.conflict is not None
    assert empty.conflict.members == ()
    outside = chosen(["h % 100 == 0"], {"h": (135, 199)}, {"h": 100})
    assert outside.conflict is not None
    assert outside.conflict.members == (0,)


def test_only_needed_conditions_are_said_to_narrow():
    found = chosen(["h % 8 == 0", "h % 2 == 0", "h >= 2"], {"h": (1, 64), "w": (1, 64)}, {"h": 8, "w": 3})
    assert {name: [to_text(c) for c in by] for name, by in found.narrowed_by.items()} == {"h": ["h % 8 == 0"]}
    hole = chosen(["h != 100", "h != 50", "h != 140"], {"h": (2, 150)}, {"h": 60})
    assert {name: [to_text(c) for c in by] for name, by in hole.narrowed_by.items()} == {"h": ["h != 100", "h != 50"]}
    tied = chosen(["a == b", "b >= 4", "a != 1"], {"a": (2, 64), "b": (2, 64)}, {"a": 8, "b": 8})
    assert {name: [to_text(c) for c in by] for name, by in tied.narrowed_by.items()} == {
        "a": ["a == b", "b >= 4"],
        "b": ["b >= 4"],
    }


def test_alternatives_are_other_classes():
    found = chosen(["h % 8 >= 5 or h % 8 == 0"], {"h": (135, 2160)}, {"h": 136})
    best = found.alternatives["h"][:3]
    assert {(run.step, run.offset) for run in best} == {(8, 5), (8, 6), (8, 7)}
    assert {run.offset: run.kept for run in best} == {5: 253, 6: 253, 7: 254}


def test_what_is_not_decided_in_time_stays_open():
    hard = "a**3 + b**3 != c**3 + 7"
    box = dict.fromkeys("abc", (1, 2**63))
    found = chosen([hard, "a % 2 == 0"], box, {"a": 2, "b": 3, "c": 4}, limit_s=0.0)
    assert found.open == (parse_condition(hard),)
    assert found.proof.kind is ProofKind.NONE
    assert told(found) == {"a": (2, 2**63, 2), "b": (1, 2**63, 1), "c": (1, 2**63, 1)}


def test_both_guards_are_named_where_one_alone_would_leave_a_longer_run_of_another_step() -> None:
    # Without the first, 1, 4, .. 13 would be allowed: five values for the four of 1, 3, 5, 7.
    guards = [parse_condition("a % 2 == 1"), parse_condition("(-(a + a)) % 7 != 3")]
    found = choose(guards, {"a": Range(0, 13)}, {"a": 1})
    assert list(found.sets["a"].values.members(9)) == [1, 3, 5, 7]
    assert set(found.narrowed_by["a"]) == set(guards)
