"""The values of a manifest's symbols, read off what an engine is given: numbers, or SymInts of any trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trtdiag.engine.manifest import Manifest
from trtdiag.network.binding import solvable
from trtdiag.runtime.sizes_as_shapes import read_size
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


def readings(manifest: Manifest) -> Iterator[Reading]:
    """Every number that the engine is given, in order."""
    for index, port in enumerate(manifest.inputs):
        if port.value is not None:
            yield Reading(index, None, port.value)
        for dim, expr in enumerate(port.dims):
            yield Reading(index, dim, expr)


def number_of(manifest: Manifest, shapes: Sequence[Any], reading: Reading) -> Any:
    """What a reading gives for inputs of these shapes: an int, or a SymInt while tracing."""
    shape = shapes[reading.input]
    return read_size(manifest.inputs[reading.input], shape) if reading.dim is None else shape[reading.dim]


def symbol_values(manifest: Manifest, number: Callable[[Reading], Any]) -> dict[str, Any]:
    """The value of each symbol that some number gives, plain symbols preferred; ``number`` says what was read."""
    found: dict[str, Any] = {}
    for reading in sorted(readings(manifest), key=lambda reading: not isinstance(reading.expr, Sym)):
        solution = solvable(reading.expr)
        if solution is not None and solution[0] not in found:
            # n = a*s + b with a = p/q and b = u/v gives s = (n*v - u)*q / (p*v); a plain symbol costs no arithmetic.
            name, a, b = solution
            factor, offset = b.denominator * a.denominator, -b.numerator * a.denominator
            divisor = a.numerator * b.denominator
            whole = number(reading) if factor == 1 else number(reading) * factor
            whole = whole if offset == 0 else whole + offset
            found[name] = whole if divisor == 1 else whole // divisor
    return found
