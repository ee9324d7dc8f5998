"""What is computed costs no more than it must, in its own count: answers do not depend on how busy a machine is."""

from __future__ import annotations

from itertools import count

import pytest

from trtdiag.symbolic import Range, Relation, add, compare, floordiv, mod, mul, normalise, smt, symbol
from trtdiag.symbolic.conditions import transform
from trtdiag.symbolic.expr import Add, Compare, Expr, Num

N, A, B, C = (symbol(name) for name in "nabc")
BOX = dict.fromkeys("nabc", Range(2, 65536))
GIVEN = [compare(Relation.EQ, mul(N, A), mul(N, B)), compare(Relation.EQ, mul(N, C), mul(N, B))]
CLAIM = compare(Relation.EQ, A, C)


def _asked(limit_s: float) -> smt.SmtResult:
    return smt.find(GIVEN, BOX, limit_s, refuting=CLAIM)


def test_a_busy_machine_comes_to_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the time of the search is nearly over when it begins, by the clock on the wall."""
    ticks = count(0.0, 0.9)
    monkeypatch.setattr(smt, "monotonic", lambda: next(ticks))
    assert _asked(1.0).status == "unsat"


@pytest.mark.slow  # quick: little work is no answer
def test_the_work_is_the_same_each_time() -> None:
    before = smt.worked_s()
    _asked(5.0)
    first = smt.worked_s() - before
    _asked(5.0)
    assert first > 0
    assert smt.worked_s() - before == pytest.approx(2 * first, rel=1e-9)  # sums of floats


@pytest.mark.parametrize("limit_s", [0.0, 1e-6, 0.01])
def test_little_work_is_no_answer(limit_s: float) -> None:
    found = _asked(limit_s)
    assert found.status == "unknown"


def test_work_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cubes that are a cube and a bit, which is searched for without end where nothing limits it."""
    monkeypatch.setattr(smt, "PATIENCE", 1000.0)  # the clock, the other limit, plays no part
    x, y, z = (symbol(name) for name in "xyz")
    cubes = compare(Relation.EQ, add(mul(x, x, x), mul(y, y, y)), add(mul(z, z, z), 5))
    before = smt.worked_s()
    assert smt.find([cubes], dict.fromkeys("xyz", Range(10, 10**6)), 0.05).status == "unknown"
    assert 0.04 < smt.worked_s() - before < 0.2  # z3 looks at its count now and then


def test_parts_that_repeat_are_looked_at_once() -> None:
    """As in the sizes of windows, level by level padded and halved: 2 to the power of the levels in the text."""
    size: Expr = N
    for _ in range(12):
        size = floordiv(add(size, mod(size, 3)), 2)
    seen: list[object] = []
    assert transform(size, seen.append) == size
    assert len(seen) == len(set(seen)) < 50


def test_a_tree_that_was_built_by_hand_comes_into_normal_form() -> None:
    by_hand = Compare(Relation.EQ, Add((N, Add((Num(1), N)))), Num(9))
    assert normalise(by_hand) == compare(Relation.EQ, N, 4)
