"""The pages of rules, found by what people call them."""

from __future__ import annotations

from trtdiag.analysis.registry import rules, unknown


def page(rule_id: str) -> str:
    """The page of a rule, by its id or its name.

    Raises:
        UserError: No rule has this id or name; the nearest ones are listed.
    """
    word = rule_id.strip()
    for entry in rules():
        if word.upper() == entry.id or word.lower() == entry.name:
            return entry.text
    raise unknown(rule_id, rules())
