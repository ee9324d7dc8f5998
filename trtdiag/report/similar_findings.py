"""Findings that say the same of other names or numbers, as one with a count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trtdiag.analysis.finding import Finding
from trtdiag.report.shown_paths import short_paths
from trtdiag.report.verdict import CauseTree

# Messages that differ in more of their words than this say different things.
_MOST_DIFFERING = 0.5
_PLACE = re.compile(r"\S*\.\w+:[0-9]+")  # model.py:9
_NAMES = re.compile(r"\w")
_MOST_KINDS = 50  # of messages of one rule that the next is compared with


@dataclass(frozen=True)
class SimilarFindings:
    """Findings of one rule and severity whose messages differ in names or numbers alone.

    Attributes:
        trees: The findings with what each causes, in the order of the report; the first stands for all.
        others: What stands in the messages of the others where the first has its own names (``y.shape[0]``).
    """

    trees: tuple[CauseTree, ...]
    others: tuple[str, ...]

    @property
    def finding(self) -> Finding:
        """The first of them."""
        return self.trees[0].finding

    @property
    def caused(self) -> tuple[CauseTree, ...]:
        """All that they cause."""
        return tuple(child for tree in self.trees for child in tree.caused)


def similar_findings(trees: Iterable[CauseTree]) -> list[SimilarFindings]:
    """Bring findings together that differ in names or numbers alone, each at the place of its first.

    Cost: linear in findings, times ``_MOST_KINDS``.
    """
    groups: list[list[CauseTree]] = []
    of_rule: dict[str, list[list[CauseTree]]] = {}
    for tree in trees:
        known = of_rule.setdefault(tree.finding.rule, [])
        alike = (group for group in known[:_MOST_KINDS] if _difference(group[0].finding, tree.finding) is not None)
        found = next(alike, None)
        if found is None:
            known.append([tree])
            groups.append(known[-1])
        else:
            found.append(tree)
    return [SimilarFindings(tuple(group), _others(group)) for group in groups]


def _others(group: Sequence[CauseTree]) -> tuple[str, ...]:
    differences = (_difference(group[0].finding, tree.finding) for tree in group[1:])
    return tuple(dict.fromkeys(short_paths(words) for words in differences if words))


def _difference(first: Finding, other: Finding) -> str | None:
    """What the other's message has in the place of the first's names; ``None`` where it says something else."""
    if (first.rule, first.severity) != (other.rule, other.severity):
        return None
    words = differing_words(first.message, other.message)
    fixes = differing_words(first.fix.title if first.fix else "", other.fix.title if other.fix else "")
    return None if words is None or fixes is None else _named_at(words)


def _named_at(words: Sequence[str]) -> str:
    """``item_1 at model.py:9``: a line of source is where the others are, and no other thing beside them."""
    places = [word for word in words if _PLACE.fullmatch(word)]
    names = [word for word in words if word not in places]
    return " at ".join(filter(None, (" and ".join(names), " and ".join(places))))


def differing_words(first: str, other: str) -> list[str] | None:
    """The words of one sentence that stand in the place of others; ``None`` where it is another sentence."""
    mine, theirs = first.split(), other.split()
    if len(mine) != len(theirs):
        return None
    pairs = [(before, word) for before, word in zip(mine, theirs, strict=True) if before != word]
    if any(not _NAMES.search(before) or not _NAMES.search(word) for before, word in pairs):
        return None  # other operators are another condition
    changed = [word.strip(",;:") for _, word in pairs]
    if len(changed) > len(mine) * _MOST_DIFFERING:
        return None
    # Counts tell nothing without the name that they stand beside.
    changed = [word for word in changed if re.search(r"[^\W\d_]", word)] or changed
    # Of h and 2*(h // 2) the name alone.
    return [word for word in dict.fromkeys(changed) if not any(one != word and one in word for one in changed)]
