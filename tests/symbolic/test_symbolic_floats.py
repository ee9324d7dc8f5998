"""Sizes by factors that no float holds are rounded as PyTorch rounds them: as floats, not as fractions."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from tests.harness.rows import each
from trtdiag.symbolic import (
    ExpressionError,
    Range,
    bounds,
    evaluate,
    evaluate_array,
    holds_array,
    negate,
    parse_condition,
    parse_expr,
    substitute,
    to_text,
)

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
    "math.trunc(torch.sym_float(n)**0.5)": lambda n: math.trunc(n**0.5),
    "math.trunc(torch.sym_float(n)**1.5)": lambda n: math.trunc(n**1.5),
    "math.ceil(100*torch.sym_float(n)**-0.5)": lambda n: math.ceil(100 * n**-0.5),
    "math.ceil(3*torch._sym_sqrt(torch.sym_float(n)))": lambda n: math.ceil(3 * math.sqrt(n)),
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


# A quotient is rounded before it is multiplied: 49 * (64 / 49) is below 64, 48 * (64 / 48) is not.
OF_QUOTIENTS = {
    "math.trunc(64 / max(n, m) * torch.sym_float(n))": lambda n, m: math.trunc(64 / max(n, m) * n),
    "math.ceil(n / (m / 7))": lambda n, m: math.ceil(n / (m / 7)),
    "math.floor(n * min(1 / (n / 30), 1 / (m / 40)))": lambda n, m: math.floor(n * min(1 / (n / 30), 1 / (m / 40))),
    "round(n / m * torch.sym_float(m))": lambda n, m: round(n / m * m),
}


@each("text", OF_QUOTIENTS)
def test_products_with_quotients_are_those_of_python(text):
    expr = parse_expr(text)
    n, m = (side.reshape(-1) for side in np.meshgrid(np.arange(1, 120), np.arange(1, 120)))
    expected = [OF_QUOTIENTS[text](*sizes) for sizes in zip(n.tolist(), m.tolist(), strict=True)]
    assert evaluate_array(expr, {"n": n, "m": m}).tolist() == expected
    assert [evaluate(expr, {"n": int(a), "m": int(b)}) for a, b in zip(n[::97], m[::97], strict=True)] == expected[::97]
    assert evaluate(substitute(expr, {"m": 49}), {"n": 49}) == OF_QUOTIENTS[text](49, 49)
    inside = bounds(expr, {"n": Range(40, 60), "m": Range(45, 50)}).range
    assert all(OF_QUOTIENTS[text](n, m) in inside for n in range(40, 61) for m in range(45, 51))


# 10 * 0.6 is 6.0; 40 * 1.1 is more than 44; 11 / 10 is 1.1; a quotient is said to be 20 / 13 by its float.
COMPARED = {
    "0.6*torch.sym_float(n) >= torch.sym_float(m)": lambda n, m: 0.6 * n >= m,
    "0.6*torch.sym_float(n) < torch.sym_float(m)": lambda n, m: 0.6 * n < m,
    "1.1*torch.sym_float(n) > torch.sym_float(m)": lambda n, m: 1.1 * n > m,
    "1.1*torch.sym_float(n) <= 2*m + 1": lambda n, m: 1.1 * n <= 2 * m + 1,
    "0.6*torch.sym_float(n) == torch.sym_float(m)": lambda n, m: 0.6 * n == m,
    "0.6*torch.sym_float(n) != torch.sym_float(m)": lambda n, m: 0.6 * n != m,
    "0.1*torch.sym_float(n) == 2.4000000000000004": lambda n, m: n * 0.1 == 2.4000000000000004,  # at 24
    "0.1*torch.sym_float(n) != 2.5": lambda n, m: n * 0.1 != 2.5,
    "0.1*torch.sym_float(n) >= 2.4000000000000004": lambda n, m: n * 0.1 >= 2.4000000000000004,
    "-0.3*torch.sym_float(n) > -0.8999999999999999": lambda n, m: -0.3 * n > -0.8999999999999999,
    "0.3*torch.sym_float(n // 4) <= 0.8999999999999999": lambda n, m: 0.3 * (n // 4) <= 0.8999999999999999,
    "n / m >= 1.1": lambda n, m: n / m >= 1.1,
    "n / m < 1.4": lambda n, m: n / m < 1.4,
    "n / m == 1.5384615384615385": lambda n, m: n / m == 20 / 13,
    "n / 3 == 13.333333333333334": lambda n, m: n / 3 == 40 / 3,
    "math.trunc(torch.sym_float(n)**0.5)**2 == n": lambda n, m: math.isqrt(n) ** 2 == n,
    "n < torch.sym_float(m)**0.5": lambda n, m: n < m**0.5,
    "(0.1 + torch.sym_float(n // 8)) / 4.0 == 1.275": lambda n, m: (0.1 + n // 8) / 4.0 == 1.275,
    "round(10.0*(n / m)) / 10 >= 1.3": lambda n, m: round(10.0 * (n / m)) / 10 >= 1.3,
    "torch.sym_float(n) + 0.1 == 5.1": lambda n, m: n + 0.1 == 5.1,
    "(0.1 + torch.sym_float(n)) / 37.0 < 0.3": lambda n, m: (0.1 + n) / 37.0 < 0.3,
    "64 / max(n, m) * torch.sym_float(n) >= 64": lambda n, m: 64 / max(n, m) * n >= 64,
}


@each("text", COMPARED)
def test_comparisons_of_floats_are_those_of_python(text):
    condition = parse_condition(text)
    n, m = (side.reshape(-1) for side in np.meshgrid(np.arange(1, 120), np.arange(1, 120)))
    expected = [COMPARED[text](*sizes) for sizes in zip(n.tolist(), m.tolist(), strict=True)]
    assert any(expected)
    assert not all(expected)
    assert holds_array(condition, {"n": n, "m": m}).tolist() == expected
    assert holds_array(negate(condition), {"n": n, "m": m}).tolist() == [not each for each in expected]
    assert parse_condition(to_text(condition)) == condition


@each("text", ["math.floor(1.1**n)", "math.ceil(1000*0.9**n)", "math.trunc(1.5**n)"])
def test_powers_of_a_fraction_are_those_of_python(text):
    sizes = np.arange(0, 61)
    expected = [eval(text, {"math": math, "n": n}) for n in sizes.tolist()]
    assert evaluate_array(parse_expr(text), {"n": sizes}).tolist() == expected
    assert [evaluate(parse_expr(text), {"n": n}) for n in sizes.tolist()] == expected


@pytest.mark.parametrize("text", ["n + 0.1", "0.3**n", "(-0.3)**n", "n - 1e-07", "(3 / 2)**n", "n + 0.4*m"])
def test_floats_are_written_as_they_were_read(text: str) -> None:
    read = parse_expr(text)
    assert parse_expr(to_text(read)) == read
    assert re.fullmatch(r"[^/]*(/ \d{1,2}\b[^/]*)?", to_text(read))  # no fraction of many digits


def test_a_power_that_is_not_read_is_named_as_it_was_written() -> None:
    with pytest.raises(ExpressionError, match=re.escape("the power 0.3 gives")):
        parse_expr("n**0.3")
