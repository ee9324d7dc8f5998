"""How far the original itself moves when its inputs change by what rounding changes, where a compiled program differs.

A threshold, a choice between two that are nearly alike or a difference of nearly equal numbers turns the last digit of
an input into a visible part of an output.  Two right programs that sum in another order then differ by as much.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from trtdiag.frontend.sized_inputs import SEED
from trtdiag.options import Precision
from trtdiag.verification.columns import Largest, columns_of, largest_of
from trtdiag.verification.facts import OutputError, PointResult, Tolerance

FACTOR = 4.0
"""How many times its movement an output may be off.

By backward error the rounding of an op is like a change of what enters it by half a unit in the last place.  Own
choice: 2, since the original is rounded as well and the two may part to either side, times 2, since a program rounds
after every op, while here the inputs alone are changed, and in a few ways only.
"""
RANDOM_RUNS = 6
"""With each element in a random direction, as rounding goes; all up and all down come after them.

Whether a mask passes its threshold is luck: of 10 such runs of Mask2Former at 4 images 6 moved it by 6e-5 or
more, the other 4, all up and all down by 2e-6.  Where a run shows it in 6 of 10 cases, six show it in 99.6 %.
"""
RUNS = RANDOM_RUNS + 2

_UNITS: Mapping[Precision, float] = {Precision.FP16: 2.0**-11, Precision.BF16: 2.0**-8, Precision.INT8: 2.0**-11}
"""By how much rounding to it changes a value, relative to it: half a step of 11 and of 8 significant bits."""
_BITS: Mapping[torch.dtype, torch.dtype] = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}


def most_relative(tolerance: Tolerance) -> float:
    """The most that an output may be off, of its magnitude, however far the original moves.

    Own choice: at least half of the digits that the tolerance asks for must agree (1e-2 where it asks for 1e-4).  Where
    the original keeps fewer, no number tells a right program from a wrong one, and none passes for right.
    """
    return math.sqrt(tolerance.relative)


def nudged(flat: Sequence[Any], precision: Precision) -> Iterator[list[Any]]:
    """The flat inputs ``RUNS`` times, each time with every float changed by one unit in the last place.

    ``RANDOM_RUNS`` times each element goes in a direction of its own, then all go up, then all down.

    Args:
        flat: Flat inputs, which stay as they are.
        precision: What the compiled program computes in.  For a half precision a value changes by what rounding to it
            would change, unless the input's own dtype has the greater steps.

    Integers, bools and complex numbers stay, and of floats those that are infinite, NaN or whole numbers: every dtype
    holds 0 and 1 as they are, and a mask that is compared with them is not ill-conditioned.  Nothing is given where
    nothing changes.
    """
    floats = [index for index, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor) and leaf.dtype in _BITS]
    if not any(_changes(flat[index]).any() for index in floats):
        return
    generator = torch.Generator().manual_seed(SEED)
    for run in range(RUNS):
        changed = list(flat)
        for index in floats:
            changed[index] = _moved(flat[index], _directions(flat[index], run, generator), precision)
        yield changed


def _changes(x: torch.Tensor) -> torch.Tensor:
    return torch.isfinite(x) & (x != x.round())


def _directions(x: torch.Tensor, run: int, generator: torch.Generator) -> torch.Tensor:
    """1 for each element that goes up, -1 for each that goes down."""
    if run >= RANDOM_RUNS:
        return torch.full(x.shape, 1 if run == RANDOM_RUNS else -1, dtype=torch.int16, device=x.device)
    return (torch.randint(0, 2, x.shape, generator=generator, dtype=torch.int16) * 2 - 1).to(x.device)


def _moved(x: torch.Tensor, directions: torch.Tensor, precision: Precision) -> torch.Tensor:
    away = directions * torch.where(x < 0, -1, 1).to(directions.dtype)  # 1 where the magnitude grows
    unit = _UNITS.get(precision, 0.0)
    if unit > torch.finfo(x.dtype).eps / 2:
        moved = x * (1 + away.to(x.dtype) * unit)
    else:
        # The integer of the same bits plus one is the next float away from 0, of every dtype and on every device.
        moved = (x.contiguous().view(_BITS[x.dtype]) + away).view(x.dtype)
    return torch.where(_changes(x) & torch.isfinite(moved), moved, x)


class Movement:
    """How far the original moves at one point, beside how far a compiled program is off there.

    Args:
        outputs: How the compiled program's outputs differ.
        expected: The original's flat outputs.
        actual: The compiled program's.
        tolerance: What it was compared with.

    Only outputs that differ in their numbers are looked at: where dtype or shape are others, or one side alone is not
    finite, nothing is let off.
    """

    def __init__(
        self,
        outputs: Sequence[OutputError],
        expected: Sequence[Any],
        actual: Sequence[Any],
        tolerance: Tolerance,
        fixed: Sequence[Collection[int]] = (),
    ) -> None:
        self._outputs, self._tolerance = tuple(outputs), tolerance
        off = [index for index, output in enumerate(outputs) if not output.passed and not output.why]
        # Copies: an output may be a buffer, which the runs to come write into.
        self._expected = {index: expected[index].detach().cpu().clone() for index in off}
        here = {index: actual[index].detach().cpu() for index in off}
        self._exact = {index: here[index].clone() for index in off if _exact(expected[index])}
        self._unknown = {index: found != self._expected[index] for index, found in self._exact.items()}
        dims = fixed if len(fixed) == len(outputs) else [()] * len(outputs)
        self._columns = {index: columns_of(_sizes(self._expected[index], dims[index])) for index in off}
        self._off = {index: self._apart(index, here[index]) for index in off}
        self._moved = {index: torch.zeros_like(self._off[index]) for index in off}

    @property
    def explains(self) -> bool:
        """Whether what was seen so far lets every output pass, so that no further run is needed."""
        return all(output.passed for output in self.judged())

    @property
    def settled(self) -> bool:
        """Whether no further run changes the verdict: all pass, or one is off by more than any movement lets off."""
        return self.explains or any(map(self._beyond, self._off))

    def _beyond(self, index: int) -> bool:
        if index not in self._expected:  # it has another shape then
            return True
        columns = self._columns[index]
        most = torch.maximum(columns.allowed(self._tolerance), most_relative(self._tolerance) * columns.sizes)
        return index not in self._exact and not bool((self._off[index] <= most).all())

    def add(self, result: Sequence[Any]) -> None:
        """The original's flat outputs for nudged inputs."""
        for index, expected in list(self._expected.items()):
            here = result[index].detach().cpu()
            if here.shape != expected.shape:
                del self._expected[index], self._moved[index]  # how far it moves has no number then
                continue
            self._moved[index] = torch.maximum(self._moved[index], self._apart(index, here))
            if index in self._exact:
                self._unknown[index] &= here != self._exact[index]

    def _apart(self, index: int, other: torch.Tensor) -> torch.Tensor:
        """How far an output of another run is off, the largest difference of each column."""
        expected, dim = self._expected[index], self._columns[index].dim
        fixed = () if dim is None else (dim,)
        return largest_of(expected.shape, fixed, lambda at: _apart(expected[at], other[at])).along(dim)

    def judged(self) -> tuple[OutputError, ...]:
        """The outputs, of which those pass now that are off by no more than the original's movement explains.

        A float may be off by ``FACTOR`` times its movement, at most by ``most_relative``.  Every element of an integer
        or bool output must be one that the original gave there in one of its runs: how large the difference of two
        indices is says nothing.
        """
        return tuple(self._judged(index, output) for index, output in enumerate(self._outputs))

    def _judged(self, index: int, output: OutputError) -> OutputError:
        if index not in self._expected:
            return output
        moved, columns = self._moved[index], self._columns[index]
        if index in self._exact:
            known, most = not bool(self._unknown[index].any()), float(moved.max())
            return replace(output, moved=most, passed=known, allowed=most if known else output.allowed)
        explained = torch.minimum(FACTOR * moved, most_relative(self._tolerance) * columns.sizes)
        allowed = torch.maximum(columns.allowed(self._tolerance), explained)
        off = self._off[index]
        worst = int((off / allowed).argmax())
        return replace(
            output,
            max_abs=float(off[worst]),
            moved=float(moved[worst]),
            passed=bool((off <= allowed).all()),
            allowed=float(allowed[worst]),
            column=columns.name(worst, len(output.shape)),
        )


def unstable_words(outputs: Sequence[OutputError], precision: Precision, *, exact: bool = False) -> str:
    """Why a point counts as agreeing where outputs are off by more than the tolerance; empty where none is.

    Args:
        outputs: As judged.
        precision: What the compiled program computes in.
        exact: Whether the original was also run with sums added up in float64.
    """
    let_off = [output for output in outputs if output.unstable]
    if not let_off:
        return ""
    worst = max(let_off, key=lambda output: output.max_abs / output.allowed)
    unit = _UNITS.get(precision)
    by = "one unit in the last place" if unit is None else f"2**{math.log2(unit):.0f} of themselves"
    also = " or its sums are added up in float64" if exact else ""
    return (
        f"the original itself moves by {worst.moved:.1e} there when its inputs change by {by}{also}; "
        f"the compiled program differs by {worst.max_abs:.1e}"
    )


def unstable_notes(results: Sequence[PointResult], tolerance: Tolerance) -> list[str]:
    """A note on the points that count as agreeing only so far; none where there are none."""
    found = [result for result in results if result.unstable]
    if not found:
        return []
    return [
        f"at {len(found)} set{'s' * (len(found) != 1)} of sizes the outputs agree only as far as the original itself "
        f"is stable, being off by at most {FACTOR:g} times its movement and {most_relative(tolerance):.0e} of their "
        f"magnitude: at {found[0].point.label} {found[0].unstable}"
    ]


def _exact(x: torch.Tensor) -> bool:
    return not (x.dtype.is_floating_point or x.dtype.is_complex)


def _apart(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """How far elements are apart that are finite on both sides, else 0."""
    wide = torch.complex128 if left.is_complex() else torch.float64
    difference = (left.to(wide) - right.to(wide)).abs()
    return torch.where(torch.isfinite(difference), difference, 0.0)


def _sizes(x: torch.Tensor, fixed: Collection[int]) -> Largest:
    """The largest magnitudes of its elements, 0 for those that are not finite."""
    return largest_of(x.shape, fixed, lambda at: _apart(x[at], torch.zeros_like(x[at])))
