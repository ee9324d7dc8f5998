"""Guards that torch wrote in the wild (2.1 to 2.13, both notations): read, printed, evaluated and solved."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.harness.rows import each
from tests.random_cases import some
from trtdiag.symbolic import (
    Range,
    Sym,
    allowed,
    evaluate,
    free_symbols,
    parse_condition,
    progressions,
    to_text,
)

HERE = Path(__file__).parent
GUARDS = (HERE / "guards.txt").read_text().splitlines()
SOLVED = json.loads((HERE / "solved_guards.json").read_text())
NOT_FOUND = 10**9


class Source:
    """Stands for ``L`` when Python itself evaluates a guard: every size below it is one number."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __getitem__(self, key: object) -> Source:
        return self

    def size(self) -> list[int]:
        return [self.value] * 8


def python_says(text: str, value: int) -> bool | None:
    """The guard, evaluated by Python with every size equal to ``value``; None where it divides by zero."""
    names = dict.fromkeys(("u0", "u1", "u2", "u4", "u77", "s27", "s35", "s58", "s59"), value)
    known = {
        "L": Source(value),
        "math": math,
        "torch": SimpleNamespace(sym_float=float),
        "IntInfinity": lambda: math.inf,
        "Eq": lambda a, b: a == b,
        "Ne": lambda a, b: a != b,
        "Mod": lambda a, b: a % b,
        "Min": min,
        **names,
    }
    try:
        return bool(eval(text, known))
    except ZeroDivisionError:
        return None


def test_the_corpus_is_whole_and_every_guard_is_read():
    assert len(GUARDS) == len(set(GUARDS)) == 298
    for guard in GUARDS:
        parse_condition(guard)  # raises on the first that cannot be read


@each("guard", some(GUARDS, 6))
def test_a_guard_means_what_python_says(guard):
    condition = parse_condition(guard)
    symbols = free_symbols(condition)
    assert symbols or guard.endswith("IntInfinity()")
    for value in [*range(1, 80), 127, 128, 192, 255, 256, 320, 511, 512, 1021, 2160]:
        wanted = python_says(guard, value)
        assert evaluate(condition, dict.fromkeys(symbols, value)) is (wanted is True), value


@each("guard", GUARDS)
def test_a_guard_survives_printing(guard):
    condition = parse_condition(guard)
    assert parse_condition(to_text(condition)) == condition


@pytest.mark.parametrize("case", SOLVED, ids=[f"{index}-{case['name']}" for index, case in enumerate(SOLVED)])
def test_the_allowed_set_is_the_known_one(case):
    symbol = case["name"]
    range_ = Range(case["low"], case["high"])
    conditions = [parse_condition(text, lambda _: Sym(symbol)) for text in case["guards"]]
    found = allowed(conditions, symbol, range_)
    wanted = allowed([parse_condition(case["allowed"])], symbol, range_)
    assert found.proof.proven
    assert found.values == wanted.values
    for progression in progressions(found.values):
        assert progression.values.intersect(found.values) == progression.values


def test_solving_over_all_sizes_agrees_with_trying():
    """The same guards by residue classes over an open range, wherever the algebra covers them (it must cover most)."""
    covered = 0
    for guard in GUARDS:
        condition = parse_condition(guard, lambda _: Sym("h"))
        if free_symbols(condition) != {"h"}:
            continue
        tried = allowed([condition], "h", Range(2, 3000))
        solved = allowed([condition], "h", Range(2, None))
        assert solved.proof.proven, guard
        covered += 1
        assert solved.values.within(Range(2, 3000)) == tried.values, guard
    assert covered > 250
