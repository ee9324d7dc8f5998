"""Which dims give the value of a size expression."""

from __future__ import annotations

from trtdiag.graph.segment import DimSource
from trtdiag.graph.values import NumberValue, TensorValue, Value
from trtdiag.symbolic import Condition, Expr, Num, Sym, free_symbols, is_condition, linear_terms
from trtdiag.symbolic.float_factors import rounds


class Extents:
    """The dims and numbers at hand, by what they say about symbols; of equals the first added is taken."""

    def __init__(self) -> None:
        self._whole: dict[Expr, DimSource] = {}
        self._plain: dict[str, DimSource] = {}
        self._affine: dict[str, DimSource] = {}

    def add(self, name: str, value: Value | None) -> None:
        """Add every dim of a tensor, or a number."""
        if isinstance(value, TensorValue):
            for dim, extent in enumerate(value.dims):
                self._add(name, dim, extent)
        elif isinstance(value, NumberValue) and value.expr is not None and not is_condition(value.expr):
            self._add(name, None, value.expr)  # type: ignore[arg-type]

    def _add(self, name: str, dim: int | None, extent: Expr) -> None:
        if isinstance(extent, Num) or extent in self._whole:
            return
        source = DimSource(name, dim, extent)
        self._whole[extent] = source
        if isinstance(extent, Sym):
            self._plain[extent.name] = source
            return
        terms, _ = linear_terms(extent)
        if len(terms) == 1 and isinstance(terms[0][1], Sym):
            self._affine.setdefault(terms[0][1].name, source)

    def solve(self, expr: Expr | Condition) -> tuple[DimSource, ...] | None:
        """Return what gives every symbol of ``expr``, or the size whole; ``None`` where something is missing.

        Also ``None`` where ``expr`` as fractions is not what the program computes in floating point.
        """
        if not is_condition(expr) and expr in self._whole:
            return (self._whole[expr],)
        if rounds(expr):
            return None
        found = []
        for symbol in sorted(free_symbols(expr)):
            source = self._plain.get(symbol) or self._affine.get(symbol)
            if source is None:
                return None
            found.append(source)
        return tuple(found)

    def missing(self, expr: Expr | Condition) -> tuple[str, ...]:
        """Return the symbols of ``expr`` that nothing at hand gives."""
        return tuple(s for s in sorted(free_symbols(expr)) if s not in self._plain and s not in self._affine)
