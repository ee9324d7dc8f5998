"""How far a comparison has come, in words for people."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.verification.facts import Point
from trtdiag.verification.points import point_sizes


class VerifyStep(str):
    """At which sizes programs are compared; ``share`` of all sets of sizes is done, 0 to 1."""

    share: float = 0.0


def verify_step(point: Point, names: Mapping[str, str], done: int, count: int, rest_s: float) -> VerifyStep:
    """The step of a point that is compared next.

    Args:
        point: Which.
        names: The user's for symbols.
        done: How many points are done.
        count: How many there are.
        rest_s: What this one and those after it are expected to take, in seconds; under one it is not told.
    """
    sizes = point_sizes(point.sizes, names)
    left = f", about {rest_s:.0f} s left" if rest_s >= 1 else ""
    step = VerifyStep(f"comparing at {point.label} ({done + 1} of {count}{left}){f': {sizes}' if sizes else ''}")
    step.share = done / count
    return step
