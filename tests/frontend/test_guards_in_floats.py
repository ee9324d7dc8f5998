"""Guards that compute in floats are known without printing them: their text repeats what stands in them twice."""

from __future__ import annotations

import sys

import pytest
import sympy
from torch.utils._sympy import functions as of_torch

from trtdiag.frontend.read_guards import _FLOATS, _computes_in_floats
from trtdiag.symbolic import from_sympy, holds

from_sympy_module = sys.modules[from_sympy.__module__]  # the package has the function by the module's name
s = sympy.Symbol("s12", integer=True, positive=True)
t = sympy.Symbol("s5", integer=True, positive=True)


@pytest.mark.parametrize(
    "size",
    [
        s,
        2 * s - 3 * t,
        s**2 + 1,
        of_torch.FloorDiv(s, 2),
        of_torch.Mod(s, 7),
        of_torch.PythonMod(-s, 4),
        of_torch.Max(s, t),
        s / 2,
        s / t,
        sympy.Rational(1, 3) + s,
        0.5 * s,
        sympy.sqrt(s),
        2**s,
        of_torch.FloatTrueDiv(s, t),
        of_torch.IntTrueDiv(s, t),
        of_torch.FloatPow(s, 0.5),
        of_torch.ToFloat(s),
        of_torch.OpaqueUnaryFn_sqrt(s),
        of_torch.TruncToInt(0.5 * s),
        of_torch.CeilToInt(of_torch.IntTrueDiv(s, 2)),
    ],
    ids=str,
)
def test_as_their_text_says(size: sympy.Expr) -> None:
    for guard in (sympy.Eq(size, t + 11), sympy.Ne(size + 1, 5), size * t <= 640):
        assert _computes_in_floats(guard) == (_FLOATS.search(str(guard)) is not None), guard


def test_the_parts_of_a_size_of_padded_windows_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a tree it has some thousand parts, twice as many for each halving."""
    size = s
    for _ in range(8):
        size = of_torch.FloorDiv(size + 1, 2)
        size = size + of_torch.Mod(7 - of_torch.Mod(size, 7), 7)
    read, reading = [], from_sympy_module._Reader._read
    monkeypatch.setattr(from_sympy_module._Reader, "_read", lambda self, part: read.append(part) or reading(self, part))
    guard = sympy.Ne(size, 3)
    condition = from_sympy(guard)
    assert len(read) < 100
    for value in (2, 127, 640, 1021):
        expected = size.xreplace({s: sympy.Integer(value)})
        assert holds(condition, {"s12": value}) == (expected != 3)
        same = from_sympy(sympy.Eq(size, expected))
        assert holds(same, {"s12": value})
    assert not _computes_in_floats(guard)
