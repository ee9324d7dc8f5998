"""The answer of ``fix-dims`` in the terminal and in a log.

Names go in as rich `Text`, never as markup.  Prose is wrapped; code stands alone at the left edge, is never wrapped,
and can be copied as it is.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from trtdiag.dims.dynamic_shapes.spell import plan_diff
from trtdiag.fixdims.fix import ALLOWED, Alternative, Fix, Outcome, Reason
from trtdiag.fixdims.programs import Several, routing_code
from trtdiag.graph.source import Frame, Stack
from trtdiag.report.fix_programs_text import definitions, program_words, together_words, tried_words
from trtdiag.report.fix_words import (
    MOST_CHECKS,
    all_notes,
    allowed_words,
    example_words,
    extent_words,
    fix_verdict,
    joined_words,
    kept_words,
    many_checks,
    not_checked,
    proof_words,
    unread_conditions,
)
from trtdiag.report.shown_paths import place, short_paths
from trtdiag.report.similar_changes import ChangeGroup, change_groups
from trtdiag.symbolic.proof import ProofKind
from trtdiag.wording import listed, one_line, visible

_STYLES = {"good": "bold green", "changed": "bold yellow", "impossible": "bold red"}
_DIFF_STYLES = {"+": "green", "-": "red", "@": "dim"}
_LEAST_COLUMNS, _MOST_COLUMNS = 40, 120
_LABEL_COLUMNS = 10
_LEAST_CODE_COLUMNS = 24
_LONGEST_CHARS = 600
_MOST_REASONS, _MOST_ALTERNATIVES, _MOST_LISTED, _MOST_FAILURE_LINES, _MOST_SITES = 3, 3, 8, 12, 4


def print_fix(fix: Fix, console: Console, paths: Iterable[str] = (), files: Sequence[str] = ()) -> None:
    """Print the answer, and what was written where; ``files`` are the names of several programs."""
    for line in fix_lines(fix, paths, width=console.width, files=files):
        console.print(line, soft_wrap=True)


def fix_text(fix: Fix, paths: Iterable[str] = (), *, width: int = 80) -> str:
    """The same as plain text."""
    return "\n".join(line.plain for line in fix_lines(fix, paths, width=width)) + "\n"


def fix_lines(fix: Fix, paths: Iterable[str] = (), *, width: int = 80, files: Sequence[str] = ()) -> list[Text]:
    """Verdict, changes, code to paste, difference, then what else to know, one `Text` a line."""
    page = _Page(min(max(width, _LEAST_COLUMNS), _MOST_COLUMNS))
    verdict = fix_verdict(fix)
    page.prose(verdict.text, style=_STYLES[verdict.status])
    shown_code: set[str] = set()
    for group in change_groups(fix.changes):
        _change(page, group, fix, shown_code)
    if fix.outcome is Outcome.CHANGED:
        _declaration(page, fix)
    if fix.several is not None:
        _several(page, fix.several, files)
    _checks(page, fix)
    _conflicts(page, fix)
    said = " ".join(fix.failure.split()) in verdict.text  # a failure of one line is in the verdict
    if fix.outcome is Outcome.IMPOSSIBLE and not (said or fix.checks or fix.conflicts):
        page.heading("What torch says")
        for words in fix.failure.strip().splitlines()[:_MOST_FAILURE_LINES]:
            page.prose(words.strip(), hang=4)
    why = "Could not be read" if unread_conditions(fix) else "Not solved for"
    page.listing(f"{why}, so nothing is proven", [f"{u.text} ({u.why})" for u in fix.unread])
    page.listing("Note", [note for note in all_notes(fix) if note not in verdict.text])
    page.listing("Not checked", not_checked(fix))
    for other in fix.others:
        page.heading(f"{one_line(other.label)}, another error of this text")
        page.lines += fix_lines(other, width=width)
    if written := [Text(visible(path)) for path in paths]:
        page.blank()
        page.lines += written
    return page.lines


def _declaration(page: _Page, fix: Fix) -> None:
    if fix.code != fix.asked_code:  # else only a largest size is missing, which nobody but the user knows
        page.heading("Declare this")
        page.code(fix.code)
    if fix.plan.sizes:
        page.blank()
        page.prose(f"export with example inputs of other sizes: {example_words(fix.plan)}")
    difference = plan_diff(fix.asked_code, fix.code) if fix.asked_code else ""
    if difference:
        page.heading("Against what was asked")
        page.difference(difference)


def _several(page: _Page, several: Several, files: Sequence[str]) -> None:
    if len(several.programs) > 1:
        page.heading("Several programs" if several.searched else "Or several programs")
        page.prose(together_words(several))
        for number, program in enumerate(several.programs, 1):
            page.labelled(str(number), program_words(program, several))
            if program.plan.sizes and number > 1:
                page.labelled("", f"export with {example_words(program.plan)}", style="dim")
            if several.searched and number > 1:
                page.labelled("", tried_words(program), style="dim")
                page.code(definitions(program))
        if several.searched:
            page.heading("Which program takes which sizes")
            numbered = [f"program {number}" for number in range(1, len(several.programs) + 1)]
            page.code(routing_code(several, files or numbered))
    page.listing("Other ways", several.notes)


def _change(page: _Page, group: ChangeGroup, fix: Fix, shown_code: set[str]) -> None:
    change, several = group.changes[0], len(group.changes) > 1
    name, before = one_line(change.name), one_line(change.before)
    extent = extent_words(change, fix.plan) if fix.outcome is Outcome.CHANGED else ""
    asked = before if before.startswith((f"{name}:", f"{name} ")) or before == name else f"{name}: {before}"
    page.blank()
    if change.before == change.after:
        page.prose(f"{asked}, as asked{joined_words(change, fix.plan)}", style="bold", hang=4)
    for head in [] if change.before == change.after else group.heads:
        page.prose(f"{head}{f'  ({extent})' if extent else ''}", style="bold", hang=4)
    if several or change.sites != (change.name,):
        sites = [one_line(site) for site in group.sites]
        page.labelled("at", listed(sites, _MOST_SITES) if several else ", ".join(sites))
    why = group.why if several else change.why
    for reason in why[:_MOST_REASONS]:
        _reason(page, reason)
    hidden = max(0, len(why) - _MOST_REASONS) + (group.more if several else 0)
    if hidden:
        alike = "like it" if several and len(why) == 1 else f"more {'condition' if hidden == 1 else 'conditions'}"
        page.labelled("", f"and {hidden:,} {alike} (--json has all)")
    kept = kept_words(change.kept)
    page.labelled("keeps", f"{kept} of each" if several and kept else kept)
    page.labelled("loses", f"{change.lost}, and the like of the others" if several and change.lost else change.lost)
    page.labelled("guards", allowed_words(change, fix.plan))
    others = [other for other in change.alternatives if other.note != ALLOWED]  # told as what the guards allow
    for other in others[:_MOST_ALTERNATIVES]:
        page.labelled("or", _alternative(other))
    _model_change(page, change.model_change, shown_code)
    if change.proof.kind is not ProofKind.NONE or change.proof.detail:
        of_those_read = ", for the conditions that were read" if fix.unread and change.proof.proven else ""
        page.labelled("proof", f"{proof_words(change.proof)}{of_those_read}")


def _reason(page: _Page, reason: Reason) -> None:
    refused = f"  (refuses {reason.counterexample})" if reason.counterexample else ""
    page.labelled("because", f"{reason.text}{refused}")
    page.source("", reason.stack)
    if reason.stack.best is None and reason.by:
        page.labelled("", f"asked for by {reason.by}", style="dim")


def _alternative(other: Alternative) -> str:
    share = f", keeps {kept_words(other.kept)}" if other.kept else ""
    return f"{other.text}{share}{f' ({other.note})' if other.note else ''}"


def _model_change(page: _Page, other: Alternative | None, shown_code: set[str]) -> None:
    if other is None:
        return
    words, _, code = other.text.partition("\n")
    share = f": keeps {kept_words(other.kept)}" if other.kept else ""
    page.labelled("or model", f"{words.removesuffix(':')}{share}")
    repeated = bool(code) and code in shown_code
    for line in [] if repeated else code.splitlines():
        page.lines.append(Text(" " * (_LABEL_COLUMNS + 6) + visible(line)))
    shown_code.add(code)
    # Beside the same lines of code only what is particular to this dim is said again.
    page.labelled("", f"with the lines above; {other.note.partition(':')[0]}" if repeated else other.note, style="dim")


def _checks(page: _Page, fix: Fix) -> None:
    if not fix.checks:
        return
    if len(fix.checks) > MOST_CHECKS:
        page.heading("Change the model")
        page.prose(many_checks(fix.checks))
        return
    page.heading("Write into the model")
    for check in fix.checks:
        page.code(check.code)
        page.source("before", check.where)
        page.labelled("for", one_line(check.condition, _LONGEST_CHARS))
        page.labelled("assumes", check.note)
        page.labelled("tried", "the export passes with it" if check.confirmed else "not confirmed by an export")


def _conflicts(page: _Page, fix: Fix) -> None:
    for conflict in fix.conflicts:
        page.heading("Cannot hold together" if len(conflict.reasons) > 1 else "Cannot hold")
        for reason in conflict.reasons:
            _reason(page, reason)
        page.labelled("within", ", ".join(one_line(range_) for range_ in conflict.ranges))
        page.labelled("proof", proof_words(conflict.proof))


class _Page:
    """Lines of a text, prose wrapped to ``width`` columns and code left as it is."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[Text] = []

    def blank(self) -> None:
        """An empty line."""
        self.lines.append(Text(""))

    def heading(self, words: str) -> None:
        """A section's name between empty lines."""
        self.blank()
        self.lines.append(Text(f"{words}:", style="bold"))
        self.blank()

    def prose(self, words: str, *, style: str = "", first: str = "", hang: int = 0) -> None:
        """Wrapped words; lines after the first are set in by ``hang``."""
        flat = visible(short_paths(" ".join(words.splitlines())))
        if len(flat) > _LONGEST_CHARS:
            flat = one_line(flat, _LONGEST_CHARS)
        wrapped = textwrap.wrap(
            flat,
            self.width,
            initial_indent=first,
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        self.lines.extend(Text(line, style=style) for line in wrapped or [first])

    def labelled(self, label: str, words: str, *, style: str = "") -> None:
        """Words beside a label; nothing where there are none."""
        if words:
            self.prose(words, style=style, first=f"    {label:<{_LABEL_COLUMNS}}", hang=_LABEL_COLUMNS + 4)

    def source(self, label: str, stack: Stack) -> None:
        """A source line, and the line of a model library that it leads to, their code cut to what fits."""
        frame = stack.best
        if frame is None:
            return
        self._source_line(f"    {label:<{_LABEL_COLUMNS}}{place(frame)}", frame)
        if frame.inside is not None:
            self._source_line(f"    {'':<{_LABEL_COLUMNS}}in {one_line(frame.inside.short)}", frame.inside)

    def _source_line(self, head: str, frame: Frame) -> None:
        self.lines.append(Text(head, style="dim"))
        room = self.width - len(head) - 2
        if frame.code and room < _LEAST_CODE_COLUMNS:
            indent = " " * (_LABEL_COLUMNS + 6)
            self.lines.append(Text(indent + one_line(frame.code, self.width - len(indent)), style="dim"))
        elif frame.code:
            self.lines[-1].append(f"  {one_line(frame.code, room)}")

    def code(self, text: str) -> None:
        """Code at the left edge, so that it can be copied."""
        self.lines.extend(Text(visible(line)) for line in text.rstrip("\n").splitlines())

    def difference(self, text: str) -> None:
        """A unified difference without the names of its two sides."""
        for line in text.splitlines()[3:]:  # the names of the sides, and where the first part begins
            self.lines.append(Text(visible(line), style=_DIFF_STYLES.get(line[:1], "")))

    def listing(self, words: str, items: Iterable[str]) -> None:
        """A section of sentences, nothing where there are none."""
        sentences = list(items)
        hidden = len(sentences) - _MOST_LISTED
        if hidden > 0:
            sentences[_MOST_LISTED:] = [f"and {hidden:,} more (--json has all)"]
        if sentences:
            self.blank()
            self.lines.append(Text(f"{words}:", style="bold"))
        for sentence in sentences:
            self.prose(sentence, first="  - ", hang=4)
