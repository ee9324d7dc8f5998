"""What a comparison may cost, a set of sizes by itself and all of them together, and how far it has come, in words."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from trtdiag.arguments import instance, keep_checked, optional, seconds, whole
from trtdiag.verification.facts import Point, Verification
from trtdiag.verification.points import point_sizes
from trtdiag.wording import amount

LEAST_TOTAL_S = 30.0
"""Own choice: who waits for an export and a build of a few seconds waits this long to know whether they are right."""
MOST_FIXED_S = 1.0
"""Own choice: more than that no call costs whatever its sizes are, the first one, which loads kernels, included."""
USUAL_ELEMENTS = 1 << 32
"""Own choice: 16 GiB of float32 over a whole run, most of which is freed on the way."""
HELD_BYTES = 4
"""Of an element that is held, as float32 has them; each of both sides may have as many at once."""
UNTIMED = 16
"""Own choice: how much more than usual the cheapest point may have, whose time nothing tells."""
FEW_POINTS = 3
"""Own choice: where fewer points are within the limits, nearer ones are compared in the place of those beyond."""

Clock = Callable[[], float]
"""Seconds that have gone by since some moment."""


@dataclass(frozen=True)
class VerifyLimits:
    """What a comparison may cost.

    Attributes:
        seconds: Of one point, estimated from the time of the example and the elements of all tensors.
        elements: Of all tensors that the program computes at one point; weights do not count.  ``None``: 2^32, and in a
            program of which fewer than ``held`` are there at once, a deep one, as many as ``seconds`` are enough for.
        held: Of all tensors at one point where it is searched for the op that a difference begins with, which holds
            every tensor of both sides until it ends: 8 GiB of float32.
        total_s: Of all points together, in seconds; 0: no limit.  ``None``: as long as the export and the build took,
            at least 30 s.  A point that is not expected to fit is left out; one that has begun is finished.
    """

    seconds: float = 120.0
    elements: int | None = None
    held: int = 1 << 30
    total_s: float | None = None

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UserError: ``wrong-option``.
        """
        checks = {
            "seconds": instance(float, int),
            "elements": optional(whole(0)),
            "held": whole(0),
            "total_s": optional(seconds),
        }
        keep_checked(self, **checks)

    def beyond(self, elements: int, live: Callable[[], int | None], pace: float | None, *, first: bool) -> str:
        """Why a point is not run, empty where it is.

        Args:
            elements: Of all tensors there.
            live: Tells the bytes of those that are there at once; ``None`` where that is not known.
            pace: What an element takes, in seconds, where a point before told.
            first: Whether nothing is compared without this one.
        """
        most = USUAL_ELEMENTS if self.elements is None else self.elements
        if elements > most:
            at_once = live() if self.elements is None else None
            fits = at_once is not None and at_once <= HELD_BYTES * self.held
            if fits and first and pace is None:
                most *= UNTIMED
            if elements > most and not (fits and pace is not None):
                return f"its tensors have {elements:,} elements there, more than {most:,}"
        seconds = 0.0 if pace is None else pace * elements
        return f"the original alone would take about {seconds:.0f} s there" if seconds > self.seconds else ""


def usual_total_s(made_s: float) -> float:
    """What comparing at all sets of sizes may take where nothing is asked for, in seconds.

    Args:
        made_s: What the export and the build took.
    """
    return max(LEAST_TOTAL_S, math.ceil(made_s))


class TimeBudget:
    """The time that all points together may take, and what a further one is expected to take.

    A point costs what every call costs, and beyond that as much as its tensors have elements.  What every call costs is
    at most what the quickest point took; what an element costs, the point with the most elements tells best, unless
    it is the first, which pays for what is prepared: then another may have been quicker for its elements.

    Args:
        total_s: In seconds; 0 or ``None``: no limit.
        clock: Tells how long it takes.

    Attributes:
        total_s: As given, infinite where there is no limit.
    """

    def __init__(self, total_s: float | None, clock: Clock = time.perf_counter) -> None:
        self.total_s = total_s or math.inf
        self._clock, self._began = clock, clock()
        self._seen: list[tuple[int, float]] = []

    @property
    def left(self) -> float:
        """The seconds that are left; negative where they were too few."""
        return self.total_s - (self._clock() - self._began)

    def note(self, elements: int | None, took_s: float) -> None:
        """Learn from a point that has been compared."""
        self._seen.append((elements or 0, took_s))

    def expected(self, elements: int | None) -> float:
        """The seconds that a point is expected to take, rather too few than too many; 0 where nothing is known."""
        if not self._seen:
            return 0.0
        most, took_s = max(self._seen)
        if not elements or not most:
            return took_s
        fixed = min(MOST_FIXED_S, *(each for _, each in self._seen))
        quickest = min(each / count for count, each in self._seen if count)
        return min(fixed + (took_s - fixed) * elements / most, quickest * elements)

    def fits(self, elements: int | None) -> bool:
        """Whether a point is expected to end within the time that is left."""
        left = self.left
        return left > 0 and self.expected(elements) <= left

    def rest(self, elements: Iterable[int | None]) -> float:
        """The seconds that these points are expected to take, in this order, without those that would not fit."""
        total, left = 0.0, self.left
        for each in elements:
            expected = self.expected(each)
            if expected <= left - total:
                total += expected
        return total


def left_out_words(found: Verification, names: Mapping[str, str]) -> str:
    """What was not compared since there was no time for it; empty where there was.

    Args:
        found: The comparison.
        names: The user's for symbols.
    """
    if not found.left_out:
        return ""
    sizes = point_sizes(found.left_out[0].sizes, names)
    largest = f"{'the largest ' if len(found.left_out) > 1 else ''}{sizes}"
    return f"{amount(len(found.left_out), 'set')} of sizes, {largest}, {left_out_why(found.total_s)}"


def left_out_why(total_s: float | None) -> str:
    """``for the limit of 30 s for all; --verify-limit 0 compares all``."""
    return f"for the limit of {total_s or 0:g} s for all; --verify-limit 0 compares all"


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
