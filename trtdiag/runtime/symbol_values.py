"""The values of a manifest's symbols, read off what an engine is given: numbers, or SymInts of any trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trtdiag.engine.manifest import Manifest
from trtdiag.engine.size_inputs import read_size
from trtdiag.network.symbol_values import solvable
from trtdiag.symbolic import Expr, Sym


@dataclass(frozen=True)
class Reading:
    """One number that an engine is given.

    Attributes:
        input: The index of the input.
        dim: Which dim of it; ``None`` for the value of a size.
        expr: What the number is.
    """

    input: int
    dim: int | None
    expr: Expr


def read_numbers(manifest: Manifest, shapes: Sequence[Any]) -> dict[Reading, Any]:
    """Every number that the engine is given by inputs of these shapes, in order: ints, or SymInts while tracing."""
    found: dict[Reading, Any] = {}
    for index, (port, shape) in enumerate(zip(manifest.inputs, shapes, strict=True)):
        if port.value is not None:
            found[Reading(index, None, port.value)] = read_size(port, shape)
        found.update((Reading(index, dim, expr), shape[dim]) for dim, expr in enumerate(port.dims))
    return found


def symbol_values(numbers: Mapping[Reading, Any]) -> dict[str, Any]:
    """The value of each symbol that some number gives, plain symbols preferred."""
    found: dict[str, Any] = {}
    for reading in sorted(numbers, key=lambda reading: not isinstance(reading.expr, Sym)):
        solution = solvable(reading.expr)
        if solution is not None and solution[0] not in found:
            # n = a*s + b with a = p/q and b = u/v gives s = (n*v - u)*q / (p*v); a plain symbol costs no arithmetic.
            name, a, b = solution
            factor, offset = b.denominator * a.denominator, -b.numerator * a.denominator
            divisor = a.numerator * b.denominator
            whole = numbers[reading] if factor == 1 else numbers[reading] * factor
            whole = whole if offset == 0 else whole + offset
            found[name] = whole if divisor == 1 else whole // divisor
    return found
