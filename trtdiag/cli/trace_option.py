"""``--trace``: what a command spent its time on, as a trace that Perfetto and Chrome open."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from trtdiag.cli.value_checks import F, OutputFile, told_at_the_end
from trtdiag.files.destination import check_destination
from trtdiag.files.same_file import Named
from trtdiag.report.save import telling, write_atomically
from trtdiag.timed_steps import LOGGER, TimedStep

_KEY = "trtdiag.trace"


def _keep(context: click.Context, option: click.Parameter, value: Path | None) -> None:
    del option
    context.meta[_KEY] = value


def trace_option(command: F) -> F:
    """Add ``--trace`` to a command, whose work is within ``traced``."""
    return click.option(
        "--trace",
        type=OutputFile(path_type=Path),
        metavar="JSON",
        expose_value=False,
        callback=_keep,
        help="Write what took how long, for Perfetto or chrome://tracing.",
    )(command)


def trace_places() -> list[Named]:
    """The file that ``--trace`` names, if any."""
    context = click.get_current_context(silent=True)
    place = None if context is None else context.meta.get(_KEY)
    return [] if place is None else [Named("--trace", os.fspath(place))]


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.steps: list[TimedStep] = []

    def emit(self, record: logging.LogRecord) -> None:
        step = getattr(record, "step", None)
        if isinstance(step, TimedStep):
            self.steps.append(step)


@contextmanager
def traced() -> Iterator[None]:
    """Around the work of a command: writes the trace at its end, however it ends.

    Raises:
        UserError: ``report-not-writable``.
    """
    places = trace_places()
    if not places:
        yield
        return
    place = Path(places[0].path)
    with telling(place, "trace"):
        check_destination(place)
    collector, level, begun = _Collector(), LOGGER.level, time.perf_counter_ns()
    LOGGER.addHandler(collector)
    LOGGER.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        LOGGER.removeHandler(collector)
        LOGGER.setLevel(level)
        steps = collector.steps
        first = min((step.begun_ns for step in steps), default=time.perf_counter_ns())
        main = threading.current_thread().name
        events = trace_events(
            [TimedStep("stage", "imports", {}, main, begun, first - begun, failed=False), *steps], begun
        )
        with told_at_the_end():
            write_atomically(place, json.dumps(events, indent=1) + "\n", what="trace")


def trace_events(steps: list[TimedStep], begun_ns: int) -> dict[str, Any]:
    """The steps in Chrome's trace event format; times in microseconds from ``begun_ns`` on.

    Source: "Trace Event Format", complete events (X) and metadata events (M).
    """
    pid = os.getpid()
    # The main thread has the number of the process, as on Linux; 0 is a machine's idle thread to Perfetto.
    threads = {name: pid + number for number, name in enumerate(dict.fromkeys(step.thread for step in steps))}
    named = [{"ph": "M", "name": "process_name", "pid": pid, "tid": pid, "args": {"name": "trtdiag"}}]
    named += [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": number, "args": {"name": name}}
        for name, number in threads.items()
    ]
    ran = [
        {
            "ph": "X",
            "cat": step.kind,
            "name": step.name,
            "pid": pid,
            "tid": threads[step.thread],
            "ts": (step.begun_ns - begun_ns) / 1e3,
            "dur": step.took_ns / 1e3,
            "args": {**step.facts, "failed": step.failed},
        }
        for step in sorted(steps, key=lambda step: (step.begun_ns, -step.took_ns))
    ]
    return {"traceEvents": [*named, *ran], "displayTimeUnit": "ms"}
