"""Which texts count as arithmetic over sizes."""

from __future__ import annotations

import ast

import pytest
import sympy
from hypothesis import given, settings, strategies as st
from torch.utils._sympy.functions import CeilToInt, CleanDiv, FloorDiv, IntTrueDiv, Mod, PowByNatural, PythonMod, Where

from tests.harness.rows import each
from tests.harness.texts import texts
from tests.random_cases import cases
from trtdiag.frontend.archive.expressions import NotArithmeticError, check_guard, check_symbol_expression

S, T = sympy.symbols("s0 s77", positive=True, integer=True)
U = sympy.Symbol("u0", integer=True)

# What torch writes: srepr of expressions that exports were seen to have.
PRINTED = [
    S,
    2 * S,
    S + T - 1,
    S * T,
    S**2,
    FloorDiv(S, 8),
    FloorDiv(S - 1, 8) + 1,
    Mod(S, 7),
    PythonMod(S + U, 3),
    CleanDiv(S * T, 2),
    CeilToInt(IntTrueDiv(S, 3)),
    PowByNatural(S, 2),
    sympy.Max(1, S),
    sympy.Min(S, T),
    sympy.Eq(S, 3),
    sympy.Ne(Mod(S, 2), 0),
    sympy.And(S > 2, T <= 5),
    sympy.Or(S < 2, sympy.Not(sympy.Eq(U, 1))),
    Where(S > 2, S, T),
    sympy.Float(0.5) * S,
    sympy.Rational(1, 2) * S,
    sympy.sqrt(S),
    sympy.floor(S / 2),
    sympy.true,
    sympy.Integer(2**62),
    sympy.Float("1e300"),
    S**-1,
    sympy.oo,
    -sympy.oo,
    sympy.Piecewise((S, S > 2), (T, True)),
]


@each("expression", PRINTED, ids=str)
def test_what_torch_writes_passes(expression: sympy.Basic) -> None:
    check_symbol_expression(sympy.srepr(expression))


@pytest.mark.parametrize(
    "text",
    ["s0", "2*s0 + 1", "s0*s1//2", "(s0 - 1)//8", "Mod(s0, 2)", "Max(1, s0)", "s0**2", "u0 >= 2", "-s0", "Eq(s0, 3)"],
)
def test_what_older_versions_wrote_passes(text: str) -> None:
    check_symbol_expression(text)


REFUSED = [
    "__import__('os').system('true')",
    "open('x')",
    "().__class__",
    "s0.func",
    "[x for x in s0]",
    "lambda: 0",
    "Symbol('s0').func",
    'Symbol("a\'b")',
    "Symbol('a b')",
    "Symbol('s0', evil=True)",
    "Symbol('s0', integer=open('x'))",
    "Symbol('s0', **s0)",
    "Symbol(*s0)",
    "sympify('open(1)')",
    "lambdify(s0, s0)",
    "S('1')",
    "Function('f')(s0)",
    "'text'",
    "Add('s0', 1)",
    "f's0'",
    "s0 if s0 else s1",
    "s0[0]",
    "{1: 2}",
    "(s0 := 3)",
    "s0 in s1",
    "s0 is s1",
    "await s0",
    "Float(open('x'))",
    "Float('1', precision=s0)",
    "Float('open(1)')",
    "Float('1', evil=1)",
    "Integer(2, key=3)",
    "__builtins__",
    "s0\n",
    "s0 \\\n + 1",
    "s0 # comment",
    "s0;s1",
    "",
    "(",
    "1 +",
    "\u017f0",
    "e\u0301",
    "s0\x00",
    "*s0",
    "...",
    "None",
]


@each("text", REFUSED)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(NotArithmeticError):
        check_symbol_expression(text)
    with pytest.raises(NotArithmeticError):
        check_guard(text)


ENDLESS = [
    "Pow(Integer(10), Pow(Integer(10), Integer(10)))",
    "10**10**10",
    "Pow(Integer(2), Integer(99999999))",
    "1 << 999999999",
    "LShift(Integer(1), Integer(1000000000))",
    "Pow(Pow(Pow(Integer(99), Integer(60)), Integer(60)), Integer(60))",
    "PowByNatural(Integer(7), Add(Integer(1000), Symbol('s0')))",
    "9" * 19_000,
    "(" * 90 + "s0" + ")" * 90,
    "-" * 5_000 + "s0",
    "s0" + "+s0" * 9_000,
    "Add(" * 300 + "s0" + ")" * 300,
    "not " * 1_000 + "s0",
    "Pow(Integer(2), Float('1e300'))",
    "Pow(Integer(2), Pow(Float('1e-300'), Integer(-1)))",
]


@pytest.mark.parametrize("text", ENDLESS, ids=lambda text: text[:40])
def test_numbers_and_depths_without_end(text: str) -> None:
    with pytest.raises(NotArithmeticError):
        check_symbol_expression(text)
    with pytest.raises(NotArithmeticError):
        check_guard(text)


GUARDS = [
    "L['x'].size()[1] % 2 == 0",
    "((4*L['x'].size()[1]*L['x'].size()[0]) % (8*L['x'].size()[0])) == 0",
    "L['args'][1].size()[0] == L['args'][0].size()[0]",
    "L['batch']['image-left'].size()[0] >= 2",
    "L['n'] != 3",
    "2 <= L['x'].size()[0] and L['x'].size()[0] <= 1024",
    "not (L['x'].size()[0] == 1 or L['x'].stride()[0] == 8)",
    "L['cache'].key_cache[0].size()[2] == 7",
    "math.ceil(L['x'].size()[0] / 2) < 9",
    "max(1, L['x'].size()[0]) > 1",
    "torch.sym_float(L['x'].size()[0]) * 0.5 >= 1.0",
    "(1 if L['x'].size()[0] > 2 else 3) == 1",
    "L['x'].storage_offset() == 0",
    "L['x'].size()[0]**2 < 10000",
    "-1 * L['n'] <= -2",
    "math.inf > L['n']",
    "math.pow(L['n'], 2) < 9.5",
    "torch._sym_sqrt(L['x'].size()[0]) > 2",
    "2**L['x'].size()[0] > 4",
]


@pytest.mark.parametrize("text", GUARDS)
def test_guards_that_torch_writes_pass(text: str) -> None:
    check_guard(text)


REFUSED_GUARDS = [
    "torch.hub.load('a', 'b')",
    "torch.load('x')",
    "math.__loader__",
    "torch.os.system('true')",
    "L['x'].__class__",
    "L['x'].numpy()",
    "L['x'].apply_(print)",
    "L['x'].size.__self__",
    "L['x'].size()[0].__class__",
    "exec('1')",
    "L[open('x')]",
    "L['a\"b'] == 1",
    "L['a\\'b'] == 1",
    "x.size()[0]",
    "M['x'].size()[0]",
    "L.size()",
    "L['x'][L['y']]",
    "L['x'][0:2].size()",
    "L['x'].size(dim=0)",
    "L['x'].size(*L)",
    "math.factorial(9)",
    "print(L['x'])",
    "L['x']._base.size()[0] == 1",
    "L['x'].size()[0] == 'a'",
    "[L['x'].size()[0]]",
    "L",
    "torch",
]


@each("text", REFUSED_GUARDS)
def test_guards_that_do_more_are_refused(text: str) -> None:
    with pytest.raises(NotArithmeticError):
        check_guard(text)


@settings(max_examples=cases(400), deadline=None)
@given(texts(max_size=60) | st.text(alphabet="Ls0'[]().,+-*/%<=> _xint\"\\{}:", max_size=60))
def test_nothing_but_the_refusal_is_raised(text: str) -> None:
    for check in (check_symbol_expression, check_guard):
        try:
            check(text)
        except NotArithmeticError:
            continue
        calls = [node for node in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(node, ast.Call)]
        assert all(isinstance(call.func, (ast.Name, ast.Attribute)) for call in calls)
