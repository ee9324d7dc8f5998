"""Timing of calls, and the loop of a process of ``benchmarks/gpu/speed.py`` that times what it is asked to."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Call = Callable[[], Any]
WARM = 3


def queued_ms(call: Call, calls: int) -> list[float]:
    """Milliseconds of each of many calls in a row, on a GPU by its own clock: what a busy caller sees."""
    for _ in range(WARM):
        call()
    if not torch.cuda.is_available():
        return alone_ms(call, calls)
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(calls)]
    torch.cuda.synchronize()
    for before, after in pairs:
        before.record()
        call()
        after.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in pairs]


def alone_ms(call: Call, calls: int) -> list[float]:
    """Milliseconds from a call until its result is there, one after the other, on the caller's clock."""
    found = []
    for _ in range(calls):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        started = time.perf_counter()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        found.append((time.perf_counter() - started) * 1e3)
    return found


def summary(values: list[float]) -> dict[str, float]:
    """Median, tenth and ninetieth part in a hundred, and how many there are."""
    tenths = statistics.quantiles(values, n=10) if len(values) > 1 else [values[0]] * 9
    parts = {"median": statistics.median(values), "p10": tenths[0], "p90": tenths[8]}
    return {**{name: round(value, 4) for name, value in parts.items()}, "n": len(values)}


def told(error: BaseException) -> str:
    """An error in one line, ours with its cause."""
    text = f"{type(error).__name__}: {error}"
    because = getattr(error, "because", "")
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" [{os.path.basename(where[0].filename)}:{where[0].lineno}]" if where else ""
    return " ".join(f"{text}; {because}{place}".split())[:1500]


def done_file(folder: Path, name: str, kind: str) -> Path:
    """What is there when an ONNX file was written; it holds the error where it was not."""
    return folder / f"{name}-{kind}.done"


class Answers:
    """Lines of JSON to the process that started this one; what libraries print goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        sys.stdout = sys.stderr

    def say(self, **row: Any) -> None:
        """Write one line."""
        print(json.dumps(row), file=self._out, flush=True)


def serve(answers: Answers, runnable: dict[str, Call]) -> None:
    """Time what each line of standard input asks for: ``{"calls": 50}``; a call that fails is asked no more."""
    for line in sys.stdin:
        asked = json.loads(line)
        queued: dict[str, list[float]] = {}
        alone: dict[str, list[float]] = {}
        errors: dict[str, str] = {}
        with torch.no_grad():
            for name in list(runnable):
                try:
                    queued[name] = queued_ms(runnable[name], asked["calls"])
                    alone[name] = alone_ms(runnable[name], max(3, asked["calls"] // 5))
                except Exception as error:  # one way must not end the others
                    errors[name] = told(error)
                    del runnable[name]
        answers.say(event="round", queued=queued, alone=alone, errors=errors)
