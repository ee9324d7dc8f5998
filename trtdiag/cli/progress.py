"""A bar for long work, on stderr and only where a person watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from trtdiag.pipeline.stages import ANALYZE, COMPILE
from trtdiag.wording import one_line

# Names that are not here (a factory's steps) show without moving the bar.
ANALYZE_STAGES = (*ANALYZE, "report")
COMPILE_STAGES = (*COMPILE, "save")


LOADING = "load torch"
"""The first step of every command: Ctrl-C then ends it at once."""


def _shown(*bars: BarColumn) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *bars, TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def progress_bar(stages: Sequence[str] = ANALYZE_STAGES) -> Iterator[Callable[[str], None]]:
    """Give a function to call with the name of each step; nothing is shown when stderr is no terminal.

    Args:
        stages: The names that move the bar, in order; a stage that runs again does not move it back.  Steps that say
            which ``share`` of the stage is done get a bar of their own below it.
    """
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    with _shown(BarColumn()) as bar:
        task = bar.add_task("start", total=len(stages))
        inside = bar.add_task("", total=1.0, visible=False)

        def step(name: str) -> None:
            share = getattr(name, "share", None)
            if share is not None:
                bar.update(inside, description=one_line(name), completed=share, visible=True)
                return
            done = stages.index(name) if name in stages else 0
            bar.update(inside, visible=False)
            bar.update(task, description=one_line(name), completed=max(done, bar.tasks[task].completed))

        yield step


@contextmanager
def step_line() -> Iterator[Callable[[str], None]]:
    """Give a function to call with a clause about each long step; for work whose number of steps is not known."""
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    with _shown() as line:
        task = line.add_task("start", total=None)
        yield lambda step: line.update(task, description=one_line(step))
