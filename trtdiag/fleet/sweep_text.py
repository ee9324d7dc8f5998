"""What a sweep found, for the terminal: what got worse, what did not come to its end, rules and ops by their weight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from trtdiag.fleet.outcome import Sweep
from trtdiag.fleet.rows import STATES, Row
from trtdiag.fleet.view import comparison_line, headline, variant_of, varied_in
from trtdiag.report.shown_paths import short_paths
from trtdiag.wording import amount, one_line

_MOST_ROWS = 10
_MOST_RULES = 5
_NAME_CHARS = 40
_BAD = STATES.index("incomplete")
_STYLES = {"warning": "yellow", "clean": "green", "incomplete": "yellow"}


def print_sweep(made: Sweep, console: Console, folder: Path) -> None:
    """Print it; each row is one line where it fits."""
    for line in _lines(made):
        console.print(line, soft_wrap=True)
    console.print(Text(f"page: {folder / made.page.name}"), soft_wrap=True)


def _lines(made: Sweep) -> Iterator[Text]:
    yield Text(headline(made.totals), style="bold")
    found = made.comparison
    if found is not None:
        yield Text(f"compared with {short_paths(found.earlier)}: {comparison_line(found)}")
        for change in found.regressions[:_MOST_ROWS]:
            yield Text(
                f"  worse: {one_line(short_paths(change.row), _NAME_CHARS)}: {one_line(short_paths(change.words[0]))}",
                style="red",
            )
        yield from _more(len(found.regressions))
    bad = sorted((row for row in made.rows if STATES.index(row.state) < _BAD), key=lambda row: STATES.index(row.state))
    if bad:
        yield Text("")
    varied = varied_in(made.rows)
    for row in bad[:_MOST_ROWS]:
        yield _row(row, variant_of(row, varied))
    yield from _more(len(bad))
    if made.totals.rules:
        yield Text("\nRules by programs:")
    for rule in made.totals.rules[:_MOST_RULES]:
        yield Text(f"  {rule.rule} {rule.name}: {amount(rule.programs, 'program')}, {amount(rule.findings, 'finding')}")
    costly = [op for op in made.totals.ops if op.engines]
    if costly:
        yield Text("\nOps that stay with PyTorch, by the engines that they cost:")
    for op in costly[:_MOST_RULES]:
        told = f"{amount(op.engines, 'engine')} in {amount(op.programs, 'program')}"
        yield Text(f"  {one_line(op.op)} ({op.reason}): {told}")
    yield Text("")


def _row(row: Row, variant: str) -> Text:
    line = Text(f"{row.state:<9} ", style=_STYLES.get(row.state, "red"))
    name = one_line(short_paths(row.program), _NAME_CHARS)
    return line.append(
        f"{name}{f' ({variant})' if variant else ''}: {one_line(short_paths(row.text))}", style="default"
    )


def _more(count: int) -> Iterator[Text]:
    if count > _MOST_ROWS:
        yield Text(f"  and {count - _MOST_ROWS:,} more", style="dim")
