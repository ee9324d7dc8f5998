"""Exact bounds by table: finite, huge and open boxes, the reason where they are not exact, and the cache."""

from __future__ import annotations

import pytest

from tests.harness.rows import each
from trtdiag.symbolic import BoundsCache, Range, bounds, parse_expr

INT64 = (1 << 63) - 1
BOX = {
    "h": Range(1, 2160),
    "w": Range(3, 77),
    "batch": Range(1, 10),
    "one": Range(1, 1),
    "prime": Range(2, 4093),
    "big": Range(135, 1 << 31),
    "huge": Range(1, INT64),
    "open": Range(1, None),
    "next": Range(2, None),
    "any": Range(None, None),
    "below": Range(None, -1),
    "zero": Range(0, 5),
}

EXACT = {
    "4*h": (4, 8640),
    "h - 1": (0, 2159),
    "h + w": (4, 2237),
    "(h - 1)//8": (0, 269),
    "h*w": (3, 166320),
    "h % 8": (0, 7),
    "one % 8": (1, 1),
    "w % 100": (3, 77),
    "max(h, batch)": (1, 2160),
    "min(h, 64)": (1, 64),
    "h - 8*(h//8)": (0, 7),
    "-h": (-2160, -1),
    "h*(10 - h)": (-4644000, 25),
    "ceil(h/2)": (1, 1080),
    "h - h//2": (1, 1080),
    "h + (-h) % 8": (8, 2160),
    "(h + (-h) % 8)//8": (1, 270),
    "h*h - h": (0, 4663440),
    "h % 8 + w % 7": (0, 13),
    "(h % 8)*(w % 5) - batch": (-10, 27),
    "prime % 4093": (0, 4092),
    "big % 8": (0, 7),
    "big//8*(big % 3)": (0, 536870912),
    "big*(10 - big)": (10 * (1 << 31) - (1 << 62), 1350 - 135 * 135),
    "4*huge": (4, 4 * INT64),
    "huge*huge": (1, INT64 * INT64),
    "huge - 8*(huge//8)": (0, 7),
    "4*open": (4, None),
    "open - 1": (0, None),
    "open + next": (3, None),
    "open*next": (2, None),
    "(open - 1)//8": (0, None),
    "open % 8": (0, 7),
    "open - 8*(open//8)": (0, 7),
    "-open": (None, -1),
    "open*(10 - open)": (None, 25),
    "ceil(open/2)": (1, None),
    "min(open, 5)": (1, 5),
    "max(open, 5)": (5, None),
    "max(1, open - 5)": (1, None),
    "open//(open//8)": (8, 15),
    "(open + next) % 7": (0, 6),
    "5//open": (0, 5),
    "batch//open": (0, 10),
    "any": (None, None),
    "any*any": (0, None),
    "any % 5": (0, 4),
    "any//3": (None, None),
    "-below": (1, None),
    "below*open": (None, -1),
    "batch//zero": (0, 10),
    "open - h//2": (-1079, None),
    "2**batch": (2, 1024),
    "(5 if h > 7 else w)": (3, 77),
    "unknown + 1": (None, None),
    "7": (7, 7),
}


@each("text", EXACT)
def test_bounds_are_exact(text):
    found = bounds(parse_expr(text), BOX)
    assert (found.range.min, found.range.max) == EXACT[text], found.method
    assert found.exact
    assert found.method


LOOSE = {
    # Two open symbols that do not move together, and fractions: sound, and said to be loose.
    "open % next": (0, None, "cannot be followed to an open end"),
    "h/2": (0, 1080, "rounded outwards to integers"),
    "(huge*big) % (huge + big)": (None, None, "too many values to try"),
}


@pytest.mark.parametrize("text", LOOSE)
def test_what_is_not_exact_says_why(text):
    low, high, why = LOOSE[text]
    found = bounds(parse_expr(text), BOX)
    assert not found.exact
    assert why in found.method
    if low is not None:
        assert (found.range.min, found.range.max) == (low, high)


def test_an_empty_range_and_an_undefined_expression_give_nothing():
    empty = bounds(parse_expr("h + w"), {"h": Range(5, 4), "w": Range(1, 2)})
    assert empty.range.empty
    assert empty.exact
    nowhere = bounds(parse_expr("h // (h - h % 100)"), {"h": Range(1, 9)})
    assert nowhere.range.empty
    assert "no value" in nowhere.method


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("z % 7 + a // (m - 3)", 0, 6), ("(z + a // (m - 3)) % 7", 0, 6), ("m + a // (m - 3)", 4, 10)],
)
def test_a_hole_at_a_corner_hides_nothing(text, low, high):
    """``a // (m - 3)`` is zero where it is defined, which the least ``m`` is not."""
    found = bounds(parse_expr(text), {"z": Range(1, 100), "a": Range(0, 0), "m": Range(3, 10)})
    assert found.range.min <= low
    assert found.range.max >= high
    if found.exact:
        assert (found.range.min, found.range.max) == (low, high)


def test_a_cache_computes_each_expression_once(monkeypatch):
    cache = BoundsCache(BOX)
    first = cache.of(parse_expr("(h - 1)//8 + w"))
    monkeypatch.setattr(cache, "_compute", None)  # a second computation would fail
    assert cache.of(parse_expr("w + (h - 1)//8")) is first


@pytest.mark.slow  # quick: test_symbolic_huge.py
def test_two_thousand_symbols_do_not_blow_up():
    expr = parse_expr(" + ".join(f"s{index} % {3 + index % 5}" for index in range(400)))
    box = {f"s{index}": Range(1, 1000) for index in range(400)}
    found = bounds(expr, box)
    assert found.exact
    assert found.range == Range(0, sum(2 + index % 5 for index in range(400)))
