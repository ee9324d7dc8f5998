"""Writes sizes as tensors: what no attribute can hold because it is known only when the network runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import groupby

import torch

from trtdiag.convert.refusal import Refused
from trtdiag.convert.size_arithmetic import SizeArithmetic
from trtdiag.network import DType, NetworkBuilder, Value
from trtdiag.network.layers import Cast, Concatenation, ElementWiseOperation as Op, Gather, Shape, Shuffle
from trtdiag.symbolic import Condition, Expr, Num, Sym, free_symbols, linear_terms, mul, sub
from trtdiag.symbolic.expr import Add, FloorDiv, Mul

Ask = Callable[[Expr], Value | None]


class ShapeTensorWriter:
    """Writes expressions as vectors of one element, each expression once.

    A size that a tensor of the network has is read off its shape; another one is computed from such sizes.

    Args:
        builder: Where the layers go.
        index: The dtype of sizes in the network.
        ask: Called for a symbol that no tensor of the network gives; a value that holds it, or ``None``.
    """

    def __init__(self, builder: NetworkBuilder, index: DType, ask: Ask | None = None) -> None:
        self.index = index
        self._builder = builder
        self._arithmetic = SizeArithmetic(builder, index, self.element)
        self._ask = ask
        self._dims: dict[Expr, tuple[Value, int]] = {}
        self._written: dict[Expr | Condition, Value] = {}
        self._shapes: dict[int, Value] = {}
        self._vector = cache(self._joined)
        self._sought: set[Expr] = set()

    def note(self, value: Value) -> None:
        """Remember the sizes that a tensor has; of equal ones the first counts, which is nearest to the inputs."""
        for axis, size in enumerate(value.shape):
            if not isinstance(size, Num):
                self._dims.setdefault(size, (value, axis))
                self._dims.setdefault(self._builder.facts.expanded(size), (value, axis))

    def at_hand(self, size: Expr) -> bool:
        """Whether some tensor of the network has the size, or holds it."""
        return size in self._dims or size in self._written

    def note_number(self, expr: Expr, value: Value) -> None:
        """Remember that a tensor without dims holds ``expr``."""
        vector = self._builder.add_single(Shuffle(reshape=(1,)), value)
        self._written.setdefault(expr, vector)

    def shape_of(self, value: Value) -> Value:
        """The sizes of a tensor as a vector."""
        if value.id not in self._shapes:
            self._shapes[value.id] = self._builder.add_single(Shape(self.index), value)
        return self._shapes[value.id]

    def vector(self, sizes: Sequence[Expr]) -> Value:
        """The sizes as a vector; the same sizes are one vector."""
        return self._vector(tuple(sizes))

    def _joined(self, sizes: Sequence[Expr]) -> Value:
        # Neighbouring numbers are one constant.
        parts: list[Value] = []
        for is_number, group in groupby(sizes, lambda size: isinstance(size, Num)):
            if is_number:
                parts.append(self._arithmetic.numbers([int(size.value) for size in group if isinstance(size, Num)]))
            else:
                parts.extend(map(self.element, group))
        if not parts:
            return self._arithmetic.numbers([])
        return parts[0] if len(parts) == 1 else self._builder.add_single(Concatenation(0), *parts)

    def scalar(self, size: Expr) -> Value:
        """A size as a tensor without dims."""
        return self._builder.add_single(Shuffle(reshape=()), self.element(size))

    def element(self, size: Expr | Condition) -> Value:
        """A size as a vector of one element; a condition over sizes as one of a bool."""
        if size not in self._written:
            self._written[size] = self._found(size)
        return self._written[size]

    def real(self, expr: Expr, dtype: DType) -> Value:
        """An expression that need not be whole as a vector of one float, computed in float32."""
        value = self._arithmetic.real(expr)
        return value if dtype is DType.FLOAT32 else self._builder.add_single(Cast(dtype), value)

    def _found(self, expr: Expr | Condition) -> Value:
        at = self._dims.get(expr)  # type: ignore[arg-type]
        if at is not None:
            value, axis = at
            where = self._builder.constant(torch.tensor([axis], dtype=self.index.torch))
            return self._builder.add_single(Gather(axis=0), self.shape_of(value), where)
        solved = self._solved(expr) if isinstance(expr, (Sym, Add, Mul)) else None
        solved = self._quotient_of_quotient(expr) if isinstance(expr, FloorDiv) else solved
        return solved if solved is not None else self._arithmetic.computed(expr)

    def _solved(self, expr: Expr) -> Value | None:
        """``(size * factor + offset) // divisor`` of one size that a tensor has; a symbol also from who was asked."""
        wanted, constant = linear_terms(expr)
        if not isinstance(constant, int):
            return None
        for size in self._dims:
            terms, offset = linear_terms(size)
            if len(terms) != len(wanted) or not isinstance(offset, int):
                continue
            ratio = Fraction(wanted[0][0]) / Fraction(terms[0][0])
            scaled = mul(ratio.numerator, sub(size, offset))
            if scaled == mul(ratio.denominator, sub(expr, constant)):
                return self._arithmetic.line(self.element(size), offset, ratio, constant)
        if not isinstance(expr, Sym):
            return None
        apart = self._apart(expr)
        if apart is not None or self._ask is None:
            return apart
        found = self._ask(expr)
        return None if found is None else self._builder.add_single(Shuffle(reshape=(1,)), found)

    def _apart(self, symbol: Sym) -> Value | None:
        """A symbol out of a sum whose other terms are at hand: ``a`` where tensors have ``a + b`` and ``b``."""
        self._sought.add(symbol)
        try:
            for size in list(self._dims):
                terms, _ = linear_terms(size)
                factors = [factor for factor, term in terms if term == symbol]
                rest = sub(size, mul(factors[0], symbol)) if factors else size
                if not factors or not isinstance(factors[0], int) or symbol.name in free_symbols(rest):
                    continue
                if any(Sym(name) in self._sought for name in free_symbols(rest)):
                    continue
                try:
                    others = self.element(rest)
                except Refused:
                    continue
                return self._arithmetic.line(
                    self._arithmetic.two(Op.SUB, self.element(size), others), 0, 1 / Fraction(factors[0]), 0
                )
        finally:
            self._sought.discard(symbol)
        return None

    def _quotient_of_quotient(self, expr: FloorDiv) -> Value | None:
        """``(h + 47)//16`` as ``(d + 5)//2`` where a tensor has ``d = (h + 7)//8``."""
        for size in self._dims:
            terms, offset = linear_terms(size)
            inner = terms[0][1] if terms else size
            if len(terms) != 1 or terms[0][0] != 1 or not isinstance(inner, FloorDiv) or not isinstance(offset, int):
                continue
            match expr.right, inner.right, sub(expr.left, inner.left):
                case Num(int() as whole), Num(int() as part), Num(int() as more) if part and not more % part:
                    if whole % part == 0:
                        below = self._arithmetic.line(self.element(size), offset, Fraction(1), more // part)
                        return self._arithmetic.two(Op.FLOOR_DIV, below, self._arithmetic.numbers([whole // part]))
        return None
