"""Torch computes with sizes by sympy's core, and all of sympy is there as ever once something else of it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sympy

from tests.harness.rows import each
from trtdiag.frontend.deferred_sympy import _KNOWN

ROOT = Path(__file__).parents[2]
known = pytest.mark.skipif(not sympy.__version__.startswith(_KNOWN), reason="another sympy is imported as it is")

NAMES = """
print({name: sorted((key, type(value).__name__) for key, value in vars(module).items() if not key.startswith("__"))
       for name, module in sorted(sys.modules.items()) if name.split(".")[0] == "sympy"})
"""
LATE = """
from trtdiag.frontend import deferred_sympy
deferred_sympy.defer_sympy()
import sympy
assert deferred_sympy._CORE.begun is {begun}
"""
ENDS = "\nassert not deferred_sympy._CORE.begun"


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def usual() -> dict[str, Any]:
    """By module of sympy: its names and what they are, imported as ever."""
    return ast.literal_eval(run(f"import sympy\n{NAMES}"))  # type: ignore[no-any-return]


# Each takes half a second in a process of its own. A package of the name of a function, a module of a package that was
# begun, all names at once, one that stands alone, one in whose place something stands, and a set.
@known
@pytest.mark.parametrize(
    "asked",
    [
        "from sympy.simplify.radsimp import fraction; assert sympy.simplify(sympy.Integer(3)) == 3",
        pytest.param("from sympy.printing.latex import latex", marks=pytest.mark.slow),
        pytest.param("from sympy import *; assert isprime(7)", marks=pytest.mark.slow),
        pytest.param("import sympy.polys.orderings; sympy.polys", marks=pytest.mark.slow),
        pytest.param("from sympy.sets.sets import FiniteSet; FiniteSet(1, 2).measure", marks=pytest.mark.slow),
        pytest.param("from sympy.polys.polytools import Poly", marks=pytest.mark.slow),
        pytest.param("assert sympy.S.Reals.contains(1)", marks=pytest.mark.slow),
        pytest.param("assert 2 in sympy.sympify({1, 2})", marks=pytest.mark.slow),
        pytest.param("sympy.printing.pretty(1)", marks=pytest.mark.slow),
        pytest.param("assert isinstance(abs(sympy.Symbol('u')), sympy.Expr)", marks=pytest.mark.slow),
    ],
)
def test_all_of_sympy_is_there_once_something_else_is_asked_for(asked: str, usual: dict[str, Any]) -> None:
    assert ast.literal_eval(run(LATE.format(begun=True) + asked + ENDS + NAMES)) == usual


@known
@pytest.mark.slow  # two processes of their own; quick: the zoo's pages are the same, and those above
def test_another_release_is_imported_as_it_is(usual: dict[str, Any]) -> None:
    code = "from trtdiag.frontend import deferred_sympy\ndeferred_sympy._KNOWN = '0.'\n"
    assert ast.literal_eval(run(code + LATE.format(begun=False) + NAMES)) == usual


SIZES = """
import sympy
from sympy import S, Symbol, Integer, Rational
from torch.utils._sympy.functions import FloorDiv, Max, Mod
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy
s, t = (Symbol(name, integer=True, positive=True) for name in "st")
u = Symbol("u", integer=True)
sums = [s + 1, 2 * s * t - s, (s + t) * (s - 1), s**2, s * t**2 + 7, s - 3 * t + Rational(1, 2), u * s, 3 - u]
for each in sums:
    print(each, sympy.srepr(sympy.expand(each)), each.is_positive, each.is_integer, each.subs({s: 7, t: 5, u: -1}))
for number in (Integer(-3), Integer(0), Integer(1), Integer(97), Integer(91), Integer(2**53 + 1), Rational(-2, 3)):
    print(number, number.is_positive, number.is_negative, number.is_prime, complex(number))
print(FloorDiv(s, 2), FloorDiv(4 * s, 2), Mod(s, 3), FloorDiv(s, 2).subs(s, 9), FloorDiv(s + 2, 1), Max(s, t))
print(s > 0, s >= 1, (s > t), sympy.Eq(s, t), sympy.Ne(s, s), s * t > 12, sympy.And(s > 2, t < 3))
print(1 + abs(u), abs(u) >= 0, abs(u) / 2, 7 - abs(u), hash(abs(u)) == hash(sympy.Abs(u)), 9 - u > 0, Max(1, s + u))
print([bound_sympy(each, {s: ValueRanges(1, 9), t: ValueRanges(2, 4), u: ValueRanges(-3, 3)}) for each in sums])
"""


@known
@pytest.mark.slow  # two processes import torch; quick: its sizes are those of every report that is compared
def test_sizes_are_computed_as_ever() -> None:
    printed = run(f"import sympy\n{SIZES}")
    assert len(printed.splitlines()) == 19
    assert run(LATE.format(begun=True) + SIZES) == printed


@known
@pytest.mark.slow
@each(
    "size",
    [
        *("s * t + 1", "(s + 2) ** 2", "sympy.Integer(5)", "s > 3", "bound_sympy(2 * s + 1, {s: ValueRanges(1, 9)})"),
        *("9 - u > 0", "Max(1, s + u)", "FloorDiv(s - 1, 2) < 3"),
    ],
)
def test_usual_sizes_need_no_more_than_the_core(size: str) -> None:
    code = SIZES.partition("sums")[0] + f"str({size}); assert deferred_sympy._CORE.begun"
    run(LATE.format(begun=True) + code)


@known
@pytest.mark.slow  # a process of its own imports torch; quick: test_quick_sizes.py, with all of sympy
def test_quotients_are_simplified_once_also_where_sympy_comes_meanwhile() -> None:
    code = """
from trtdiag.frontend.quick_sizes import quick_sizes
with quick_sizes():
    pass
with quick_sizes():
    assert deferred_sympy._CORE.begun
    within = sympy.simplify
    assert not deferred_sympy._CORE.begun
    module = sys.modules["sympy.simplify.simplify"]
    assert module.simplify is within
print(sympy.simplify is module.simplify, sympy.simplify is not within, sympy.simplify.__module__)
"""
    assert run(LATE.format(begun=True) + code) == "True True sympy.simplify.simplify\n"
