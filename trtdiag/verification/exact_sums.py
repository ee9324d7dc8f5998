"""The original beside itself with sums into places added up in float64, where a compiled program differs from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trtdiag.frontend.exact_sums import ExactSums, adds_into_places
from trtdiag.graph.pytree import leaves_of
from trtdiag.verification.numeric_sensitivity import Movement
from trtdiag.verification.sides import Sides


def added_exactly(sides: Sides, movement: Movement, flat: Sequence[Any]) -> bool:
    """Look how far the original is off for the order in which it adds up; whether it adds up into places at all."""
    if not adds_into_places(sides.original.graph):
        return False
    sums = ExactSums()
    sides.restore()
    try:
        with sums:
            found = leaves_of(sides.call(sides.original, flat))
    except Exception:  # an op has no kernel for float64, or there is no memory for it: nothing is known then
        sides.look_for_gpu(flat, "the original with exact sums")
        return False
    sides.restore()
    if sums.used:
        movement.add(found)
    return sums.used
