"""Products of sizes that are equal factor by factor: as a whole they are too much to prove in time."""

from __future__ import annotations

from trtdiag.network import ShapeConstraints
from trtdiag.symbolic import Expr, Range, add, floordiv, mul, sub, symbol

H, W = symbol("h"), symbol("w")
FACTS = ShapeConstraints({"h": Range(2, 65536), "w": Range(2, 65536)})


def windows(size: Expr) -> Expr:
    """How many windows of 2 at every other place, with a margin of 1, as a layer counts them."""
    return add(floordiv(sub(size, 1), 2), 1)


def halves(size: Expr) -> Expr:
    """The same as torch writes it."""
    return floordiv(add(size, 1), 2)


def test_products_with_equal_factors_are_equal() -> None:
    assert FACTS.equal(mul(windows(H), windows(W)), mul(halves(W), halves(H)))
    assert FACTS.equal(mul(windows(H), windows(H)), mul(halves(H), halves(H)))


def test_products_with_another_factor_are_not() -> None:
    assert not FACTS.equal(mul(windows(H), windows(W)), mul(halves(H), halves(H)))
    assert not FACTS.equal(mul(windows(H), windows(W)), mul(halves(H), floordiv(W, 2)))
    assert not FACTS.equal(mul(windows(H), windows(W), W), mul(halves(H), halves(W)))
