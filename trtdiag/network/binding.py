"""The values of a network's symbols, read off the sizes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from trtdiag.errors import InternalError, ShapeOutOfRangeError
from trtdiag.network.network import Network
from trtdiag.network.tensor import Shape
from trtdiag.symbolic import Condition, Expr, Num, Range, Sym, evaluate, free_symbols, holds, to_text
from trtdiag.symbolic.build import linear_terms


def solvable(expr: Expr) -> tuple[str, Fraction, Fraction] | None:
    """``(symbol, a, b)`` where ``expr`` is ``a * symbol + b``: its value gives the symbol's."""
    terms, constant = linear_terms(expr)
    if len(terms) != 1 or not isinstance(terms[0][1], Sym):
        return None
    return terms[0][1].name, Fraction(terms[0][0]), Fraction(constant)


def unbound(shapes: Sequence[Shape]) -> tuple[str, ...]:
    """The symbols of inputs of these ``shapes`` that no size gives a value."""
    sizes = [size for shape in shapes for size in shape]
    found = {solution[0] for size in sizes if (solution := solvable(size)) is not None}
    return tuple(sorted(frozenset().union(*(free_symbols(size) for size in sizes)) - found))


def bind(network: Network, sizes: Sequence[Sequence[int]]) -> dict[str, int]:
    """The value of each symbol for inputs of these sizes.

    Raises:
        ShapeOutOfRangeError: A size is not what the network was written for: another number of dims, another number,
            outside its range, or against a condition that shapes rest on.
    """
    values: dict[str, int] = {}
    for port, tensor, actual in zip(network.inputs, network.input_types, sizes, strict=True):
        if len(actual) != tensor.rank:
            raise _refused(port.name, f"it has {len(actual)} dims", f"{tensor.rank} dims, {tensor}")
        for expr, size in zip(tensor.shape, actual, strict=True):
            solution = solvable(expr)
            if solution is not None and solution[0] not in values:
                name, factor, offset = solution
                value = (size - offset) / factor
                if value.denominator != 1:
                    raise _refused(port.name, f"a dim has size {size}", to_text(expr))
                values[name] = value.numerator
    _check(network, sizes, values)
    return values


def _check(network: Network, sizes: Sequence[Sequence[int]], values: Mapping[str, int]) -> None:
    for port, tensor, actual in zip(network.inputs, network.input_types, sizes, strict=True):
        for axis, (expr, size) in enumerate(zip(tensor.shape, actual, strict=True)):
            expected = evaluate(expr, values)
            if expected != size:
                words = f"{to_text(expr)}, which is {expected} here" if free_symbols(expr) else f"{expected}"
                raise _refused(port.name, f"dim {axis} has size {size}", words)
            for name in free_symbols(expr):
                allowed = network.ranges.get(name, Range())
                if values[name] not in allowed:
                    raise _refused(
                        port.name, f"dim {axis} has size {size}", f"{to_text(expr)} with {name} in {allowed}"
                    )
    for condition in network.given:
        if not holds(condition, values):
            raise _refused(_input_of(network, condition), f"{to_text(condition)} does not hold", to_text(condition))


def _input_of(network: Network, condition: Condition) -> str:
    names = free_symbols(condition)
    pairs = zip(network.inputs, network.input_types, strict=True)
    return next(port.name for port, tensor in pairs if any(free_symbols(size) & names for size in tensor.shape))


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
