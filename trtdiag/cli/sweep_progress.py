"""How far a sweep is, on standard error: a bar where a person watches, else a line from time to time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from trtdiag.fleet.sweep import Standing
from trtdiag.wording import amount, one_line

_EVERY_S = 60.0
"""Own choice: a log of a night has some hundred lines of it."""


@contextmanager
def sweep_progress(*, quiet: bool) -> Iterator[Callable[[Standing], None]]:
    """Give the function to call with how far it is; what ended early or waits is a line at once."""
    if quiet:
        yield lambda _standing: None
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    told, waits_for = 0, ""

    def tell_news(standing: Standing) -> None:
        nonlocal told, waits_for
        for label, why in standing.failed[told:]:
            console.print(f"{one_line(label)}: {one_line(why)}", markup=False)
        told = len(standing.failed)
        if standing.waits_for and standing.waits_for != waits_for:
            console.print(one_line(standing.waits_for), markup=False)
        waits_for = standing.waits_for

    if not console.is_terminal:
        last = time.monotonic()

        def line(standing: Standing) -> None:
            nonlocal last
            tell_news(standing)
            if time.monotonic() - last >= _EVERY_S:
                last = time.monotonic()
                print(_line(standing), file=sys.stderr, flush=True)

        yield line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("start Ray", total=None)

        def shown(standing: Standing) -> None:
            tell_news(standing)
            ended = f", {len(standing.failed):,} ended early" if standing.failed else ""
            bar.update(task, description=f"programs{ended}", completed=standing.done, total=standing.total)

        yield shown


def _line(standing: Standing) -> str:
    ended = f", {amount(len(standing.failed), 'case')} ended early" if standing.failed else ""
    return f"{standing.done:,} of {standing.total:,} done{ended}"
