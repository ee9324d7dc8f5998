"""The rules for reading: their list and their pages."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from trtdiag.analysis.finding import Severity
from trtdiag.analysis.registry import rules, unknown
from trtdiag.analysis.rule import Rule


@dataclass(frozen=True)
class RuleMeta:
    """What a list of rules shows of one: ``page`` is its whole text."""

    id: str
    name: str
    title: str
    severity: Severity
    page: str


def catalogue() -> tuple[RuleMeta, ...]:
    """Every rule, ordered by id."""
    return tuple(RuleMeta(entry.id, entry.name, entry.title, entry.severity, _text(entry)) for entry in rules())


def page(rule_id: str) -> str:
    """The page of a rule, by its id or its name.

    Raises:
        UserError: No rule has this id or name; the nearest ones are listed.
    """
    word = rule_id.strip()
    for entry in rules():
        if word.upper() == entry.id or word.lower() == entry.name:
            return _text(entry)
    raise unknown(rule_id, rules())


def _text(entry: Rule) -> str:
    lines = [f"{entry.id} {entry.name} ({entry.severity.value})", "", entry.title]
    for heading, text in entry.page.sections:
        lines += ["", heading, textwrap.indent(text, "  ")]
    return "\n".join(lines) + "\n"
