"""Sizes that are equal by what is given of products: told by their form, however long z3 would take."""

from __future__ import annotations

import pytest

from trtdiag.network import ShapeConstraints, facts
from trtdiag.symbolic import Expr, Range, Relation, add, compare, mul, power, symbol

N, A, B, C, D = (symbol(name) for name in "nabcd")
LARGE = Range(2, 65536)


def _facts(*equal: tuple[Expr, Expr], least: int = 2) -> ShapeConstraints:
    ranges = {**dict.fromkeys("abcd", LARGE), "n": Range(least, 65536)}
    return ShapeConstraints(ranges, [compare(Relation.EQ, left, right) for left, right in equal])


@pytest.fixture
def _no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_asked: object, **_options: object) -> None:
        raise AssertionError("z3 was asked")

    monkeypatch.setattr(facts, "implied", refuse)


@pytest.mark.usefixtures("_no_solver")
def test_what_is_equal_by_a_common_factor() -> None:
    found = _facts((mul(N, A), mul(N, B)), (mul(N, C), mul(N, B)))
    assert found.equal(A, B)
    assert found.equal(C, A)
    assert found.equal(add(mul(A, D), 1), add(mul(C, D), 1))


@pytest.mark.usefixtures("_no_solver")
def test_a_chain_of_equal_symbols() -> None:
    found = _facts((A, B), (C, D), (B, C))
    assert all(found.equal(left, right) for left in (A, B, C, D) for right in (A, B, C, D))
    assert found.equal(mul(A, A, B), mul(C, D, D))


@pytest.mark.usefixtures("_no_solver")
def test_powers_and_numbers_are_factors_too() -> None:
    assert _facts((mul(power(N, 2), A, 8), mul(N, N, B, 8))).equal(A, B)


def test_a_factor_that_may_be_nothing_stays() -> None:
    """With 0 of one, the others may be anything."""
    assert not _facts((mul(N, A), mul(N, B)), least=0).equal(A, B)
    assert _facts((mul(N, A), mul(N, B)), least=1).equal(A, B)


def test_what_a_run_checks_stays_as_it_is_given() -> None:
    given = compare(Relation.EQ, mul(N, A), mul(N, B))
    assert _facts((mul(N, A), mul(N, B))).given == (given,)


@pytest.mark.usefixtures("_no_solver")
def test_a_condition_that_is_added_counts() -> None:
    found = _facts((A, B))
    found.require_equal(mul(N, B), mul(N, C))
    assert found.equal(A, C)
