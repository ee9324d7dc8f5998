"""The answer of ``fix-dims`` in a notebook: a small piece of HTML, everything in it escaped.

Importing this file lets every `Fix` show itself this way.
"""

from __future__ import annotations

from markupsafe import Markup

from trtdiag.fixdims.fix import Fix, Outcome
from trtdiag.report.fix_programs_text import program_words, together_words
from trtdiag.report.fix_text import fix_text
from trtdiag.report.fix_words import MOST_CHECKS, all_notes, example_words, fix_verdict, kept_words, many_checks
from trtdiag.report.shown_paths import place, short_paths
from trtdiag.report.similar_changes import ChangeGroup, change_groups
from trtdiag.report.templates import html_piece
from trtdiag.wording import listed, one_line, visible

_LISTED = 20
_MOST_BECAME = 4


def fix_snippet(fix: Fix) -> str:
    """Verdict, changes with their first reason, the code to copy, and what else to know."""
    groups = change_groups(fix.changes)
    return html_piece(
        "fix.html.j2",
        verdict=fix_verdict(fix),
        label=one_line(fix.label),
        rows=[_row(group) for group in groups[:_LISTED]],
        hidden=sum(len(group.changes) for group in groups[_LISTED:]),
        code=visible(fix.code) if fix.outcome is Outcome.CHANGED else None,
        sentences=_sentences(fix),
        others=[Markup(fix_snippet(other)) for other in fix.others],
    )


def _row(group: ChangeGroup) -> tuple[str, ...]:
    change = group.changes[0]
    reason = change.why[0] if change.why else None
    frame = None if reason is None else reason.stack.best
    because = "" if reason is None else f"{one_line(reason.text)}{f' ({place(frame)})' if frame else ''}"
    before, kept = one_line(change.before), kept_words(change.kept)
    if len(group.changes) == 1:
        return before, f"→ {one_line(change.after)}", because, kept
    became = dict.fromkeys(one_line(each.after) for each in group.changes)
    return (
        f"{before}, and {len(group.changes) - 1:,} like it",
        f"→ {listed(list(became), _MOST_BECAME)}",
        because,
        f"{kept} of each" if kept else "",
    )


def _sentences(fix: Fix) -> list[str]:
    found = [
        f"{check.code} before {place(frame) if (frame := check.where.best) else 'its use'}" for check in fix.checks
    ]
    if len(fix.checks) > MOST_CHECKS:
        found = [many_checks(fix.checks)]
    if fix.plan.sizes and fix.outcome is Outcome.CHANGED:
        found.insert(0, f"Export with example inputs of other sizes: {example_words(fix.plan)}")
    if fix.several is not None and len(fix.programs) > 1:
        found.append(together_words(fix.several))
        found += [
            f"program {number}: {program_words(program, fix.several)}" for number, program in enumerate(fix.programs, 1)
        ]
    for conflict in fix.conflicts:
        found.append("cannot hold together: " + "; ".join(reason.text for reason in conflict.reasons))
    found += [f"not read: {unread.text} ({unread.why})" for unread in fix.unread]
    return [one_line(short_paths(sentence), 400) for sentence in (*found, *all_notes(fix))[:_LISTED]]


Fix.html_of = staticmethod(fix_snippet)
Fix.text_of = staticmethod(fix_text)
