"""A bar for long work, on stderr and only where a person watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from trtdiag.report.text import one_line

# In order, as pipeline.py runs them; names that are not here (a factory's steps) show without moving the bar.
STAGES = ("capture", "metadata", "symbols", "shapes", "memory", "dims", "dtypes", "rules", "report")


@contextmanager
def progress_bar() -> Iterator[Callable[[str], None]]:
    """Give a function to call with the name of each step; nothing is shown when stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("start", total=len(STAGES))

        def step(name: str) -> None:
            done = STAGES.index(name) if name in STAGES else None
            bar.update(task, description=name, **({} if done is None else {"completed": done}))  # type: ignore[arg-type]

        yield step


@contextmanager
def step_line() -> Iterator[Callable[[str], None]]:
    """Give a function to call with a clause about each long step; for work whose number of steps is not known."""
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task("start", total=None)
        yield lambda step: line.update(task, description=one_line(step))
