"""How long calls take: on a GPU by its own clock, on a CPU by the process's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from trtdiag.benchmark.facts import Spread
from trtdiag.wording import first_line

Call = Callable[[], Any]
WARM_CALLS = 3
ROUND_S = 0.15
"""Own choice: long enough to be many calls of a small program, short enough that drift hits all ways alike."""
FEWEST, MOST = 3, 50
"""Own choice: calls of a way in one round."""
_ALONE_PART = 5
"""One in so many calls is also timed alone."""


@dataclass
class Timed:
    """What was measured of one way.

    Attributes:
        row: Milliseconds of calls in a row.
        alone: Milliseconds of single calls.
        wall_s: Of all calls in a row.
        failed: Why it stopped; empty where it did not.
    """

    row: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    wall_s: float = 0.0
    failed: str = ""


def take_turns(ways: Mapping[str, Call], rounds: int, device: torch.device) -> dict[str, Timed]:
    """Return what each way took, all of them in turn in each round, every other round backwards.

    A call may raise whatever it likes: that way is then left out of the rounds that follow.
    """
    found = {name: Timed() for name in ways}
    calls: dict[str, int] = {}
    order = list(ways)
    for turn in range(rounds):
        for name in order if turn % 2 == 0 else reversed(order):
            timed = found[name]
            if timed.failed:
                continue
            try:
                if name not in calls:
                    calls[name] = _how_many(ways[name], device)
                _measure(ways[name], calls[name], device, timed)
            except Exception as error:
                timed.failed = error_text(error)
    return found


def spread(values: list[float]) -> Spread | None:
    """Return median and tenths; ``None`` of nothing."""
    if not values:
        return None
    tenths = statistics.quantiles(values, n=10, method="inclusive") if len(values) > 1 else values * 9
    return Spread(statistics.median(values), tenths[0], tenths[8], len(values))


def wait(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_bytes(call: Call, device: torch.device) -> int | None:
    """Return the most that PyTorch held during a call beyond what it held before; ``None`` where nobody counts."""
    if device.type != "cuda":
        return None
    wait(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    call()
    wait(device)
    return torch.cuda.max_memory_allocated(device) - before


def error_text(error: BaseException) -> str:
    """Return an error in one line."""
    because = getattr(error, "because", "")
    return first_line(error) + (f": {because}" if because else "")


def _how_many(call: Call, device: torch.device) -> int:
    for _ in range(WARM_CALLS):
        call()
    wait(device)
    started = time.perf_counter()
    call()
    wait(device)
    return max(FEWEST, min(MOST, int(ROUND_S / max(time.perf_counter() - started, 1e-9))))


def _measure(call: Call, calls: int, device: torch.device, timed: Timed) -> None:
    call()  # what ran before has left other things in the caches
    wait(device)
    if device.type == "cuda":
        events = [(_event(), _event()) for _ in range(calls)]
        started = time.perf_counter()
        for before, after in events:
            before.record()
            call()
            after.record()
        wait(device)
        timed.wall_s += time.perf_counter() - started
        timed.row += [before.elapsed_time(after) for before, after in events]
    else:
        own = [_seconds(call, device) for _ in range(calls)]
        timed.wall_s += sum(own)
        timed.row += [1e3 * each for each in own]
    timed.alone += [1e3 * _seconds(call, device) for _ in range(max(FEWEST, calls // _ALONE_PART))]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch says no types here


def _seconds(call: Call, device: torch.device) -> float:
    started = time.perf_counter()
    call()
    wait(device)
    return time.perf_counter() - started
