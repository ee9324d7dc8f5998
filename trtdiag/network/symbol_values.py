"""The values of a network's symbols, read off the sizes of its inputs and off inputs that hold sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from trtdiag.errors import InternalError, ShapeOutOfRangeError
from trtdiag.network.network import Network
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import (
    Expr,
    Num,
    Range,
    Relation,
    Sym,
    compare,
    evaluate,
    free_symbols,
    holds,
    to_text,
)
from trtdiag.symbolic.build import linear_terms
from trtdiag.symbolic.float_factors import rounds


def solvable(expr: Expr) -> tuple[str, Fraction, Fraction] | None:
    """``(symbol, a, b)`` where ``expr`` is ``a * symbol + b``: its value gives the symbol's."""
    terms, constant = linear_terms(expr)
    if len(terms) != 1 or not isinstance(terms[0][1], Sym):
        return None
    return terms[0][1].name, Fraction(terms[0][0]), Fraction(constant)


_Read: TypeAlias = tuple[str, str, Expr, int]
"""One number that an input has: the input, what it is in words, the expression for it, and what it is now."""


def readable(inputs: Sequence[Tensor]) -> tuple[Expr, ...]:
    """The expressions whose numbers inputs of these types give: their sizes, then elements that are known."""
    sizes = [size for tensor in inputs for size in tensor.shape]
    return (*sizes, *(value for tensor in inputs for value in tensor.values or ()))


def unbound(inputs: Sequence[Tensor]) -> tuple[str, ...]:
    """The symbols of inputs of these types that no size and no element gives a value."""
    found = {solution[0] for expr in readable(inputs) if (solution := solvable(expr)) is not None}
    return tuple(sorted(frozenset().union(*(free_symbols(expr) for expr in readable(inputs))) - found))


def bind(
    network: Network, sizes: Sequence[Sequence[int]], values: Sequence[Sequence[int] | None] | None = None
) -> dict[str, int]:
    """The value of each symbol that can be read off these sizes and elements.

    Args:
        network: Whose symbols.
        sizes: Of each input.
        values: The elements of each input whose values are known expressions, ``None`` for the others.  Without them
            only sizes are read, and what hangs on the elements is not checked.

    Raises:
        ShapeOutOfRangeError: A size is not what the network was written for: another number of dims, another number,
            outside its range, or against a condition that shapes rest on.
    """
    found: dict[str, int] = {}
    reads = _reads(network, sizes, values)
    for port, seen, expr, actual in reads:
        solution = solvable(expr)
        if solution is not None and solution[0] not in found:
            name, factor, offset = solution
            value = (actual - offset) / factor
            if value.denominator != 1:
                raise _refused(port, seen, to_text(expr))
            found[name] = value.numerator
    _check(network, [read for read in reads if free_symbols(read[2]) <= found.keys()], found)
    return found


def _reads(
    network: Network, sizes: Sequence[Sequence[int]], values: Sequence[Sequence[int] | None] | None
) -> list[_Read]:
    reads: list[_Read] = []
    ports = list(zip(network.inputs, network.input_types, strict=True))
    for (port, tensor), actual in zip(ports, sizes, strict=True):
        if len(actual) != tensor.rank:
            raise _refused(port.name, f"it has {len(actual)} dims", f"{tensor.rank} dims, {tensor}")
        pairs = zip(tensor.shape, actual, strict=True)
        reads += [(port.name, f"dim {axis} has size {size}", expr, size) for axis, (expr, size) in enumerate(pairs)]
    for (port, tensor), elements in zip(ports, values or [None] * len(ports), strict=True):
        if elements is not None and tensor.values is not None:
            pairs = zip(tensor.values, elements, strict=True)
            reads += [(port.name, f"element {at} is {number}", expr, number) for at, (expr, number) in enumerate(pairs)]
    return reads


def _check(network: Network, reads: Sequence[_Read], values: Mapping[str, int]) -> None:
    for port, seen, expr, actual in reads:
        expected = evaluate(expr, values)
        if expected != actual:
            words = f"{to_text(expr)}, which is {expected} here" if free_symbols(expr) else f"{expected}"
            raise _refused(port, seen, words)
        for name in free_symbols(expr):
            allowed = network.ranges.get(name, Range())
            if values[name] not in allowed:
                raise _refused(port, seen, f"{to_text(expr)} with {name} in {allowed}")
    exact = [(name, expr) for name, expr in network.definitions.items() if not rounds(expr)]
    defined = [compare(Relation.EQ, Sym(name), expr) for name, expr in exact]
    for condition in (*network.given, *defined):
        names = free_symbols(condition)
        if names <= values.keys() and not holds(condition, values):
            port = next((port for port, _, expr, _ in reads if free_symbols(expr) & names), "of any name")
            raise _refused(port, f"{to_text(condition)} does not hold", to_text(condition))


def _refused(name: str, seen: str, allowed: str) -> ShapeOutOfRangeError:
    return ShapeOutOfRangeError(
        f"input {name!r} has a shape that the network was not written for",
        because=f"{seen}; allowed is {allowed}",
        fix="give an input inside the ranges, or compile with wider ones",
        reference="network-input-shape",
    )


def size_at(expr: Expr, values: Mapping[str, int]) -> int:
    """The number that a size is for these values."""
    number = evaluate(expr, values) if not isinstance(expr, Num) else expr.value
    if not isinstance(number, int):
        raise InternalError(
            f"the size {to_text(expr)} is no integer",
            because=f"it is {number} for {dict(values)}",
            fix="report it with the model",
            reference="size-no-integer",
        )
    return number
