"""Sizes by factors that no float holds are rounded as PyTorch rounds them: as floats, not as fractions."""

from __future__ import annotations

import math

import numpy as np

from tests.harness.rows import each
from trtdiag.symbolic import Range, bounds, evaluate, evaluate_array, parse_condition, parse_expr, to_text

SIZES = np.arange(1, 2200)
# Where fractions differ: 10 * 1.7 is 17.0, 100 * 0.29 is 28.999999999999996, 30 * 0.35 is 10.5, halfway.
ROUNDED = {
    "math.floor(1.7*n)": lambda n: math.floor(1.7 * n),
    "math.trunc(2.3*torch.sym_float(n))": lambda n: math.trunc(2.3 * n),
    "math.ceil(0.7*n)": lambda n: math.ceil(0.7 * n),
    "math.floor(0.29*n)": lambda n: math.floor(0.29 * n),
    "math.trunc(-1.7*n)": lambda n: math.trunc(-1.7 * n),
    "math.floor(n / 0.3)": lambda n: math.floor(n / 0.3),
    "round(0.35*n)": lambda n: round(0.35 * n),
    "round(1.1*n)": lambda n: round(1.1 * n),
    "math.trunc(1.7*(5*math.ceil(n / 5)))": lambda n: math.trunc(1.7 * (5 * math.ceil(n / 5))),
}


@each("text", ROUNDED)
def test_one_value_many_values_and_bounds_are_those_of_python(text):
    expr = parse_expr(text)
    rounded = ROUNDED[text]
    expected = [rounded(n) for n in SIZES.tolist()]
    assert evaluate_array(expr, {"n": SIZES}).tolist() == expected
    assert [evaluate(expr, {"n": n}) for n in SIZES[:200].tolist()] == expected[:200]
    for high in (10, 20, 30, 50, 100):
        assert bounds(expr, {"n": Range(3, high)}).range == Range(*sorted((rounded(3), rounded(high))))


@each(
    "row",
    [
        ("math.trunc(1.7*torch.sym_float(5*math.ceil(n / 5))) % 4 != 0", "trunc(5*1.7*ceil(n / 5)) % 4 != 0"),
        ("math.floor(n / 0.3) == 4", "floor(n / 0.3) == 4"),
        ("math.floor(n*0.25) == 4", "n // 4 == 4"),
        ("math.ceil(n / 3145728) == 4", "ceil(n / 3145728) == 4"),
    ],
)
def test_such_a_factor_is_said_as_the_program_writes_it(row):
    text, said = row
    condition = parse_condition(text)
    assert to_text(condition) == said
    assert parse_condition(said) == condition
