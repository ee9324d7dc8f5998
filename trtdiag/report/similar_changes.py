"""Changes of dims that say the same but for the names, together: a decoder has one a layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trtdiag.fixdims.fix import Change, Reason
from trtdiag.grouping import grouped
from trtdiag.report.shown_paths import place
from trtdiag.wording import joined, one_line

_MOST_NAMES = 8


@dataclass(frozen=True)
class ChangeGroup:
    """Changes that are told once.

    Attributes:
        changes: In the order of the answer, one or more.
        why: Of all their conditions those that differ by more than names, the first of each kind.
        more: How many other conditions there are.
    """

    changes: tuple[Change, ...]
    why: tuple[Reason, ...]
    more: int

    @property
    def heads(self) -> list[str]:
        """``b0, b1 and b2: 1..8  ->  batch: 1..8``, one for each thing that dims become."""
        by_after = grouped(((change.after, _rest(change)), change) for change in self.changes)
        return [
            f"{_names([change.name for change in changes])}{rest}  ->  {one_line(after)}"
            for (after, rest), changes in by_after.items()
        ]

    @property
    def sites(self) -> tuple[str, ...]:
        """The input dims of all."""
        return tuple(site for change in self.changes for site in change.sites)


def change_groups(changes: Sequence[Change]) -> list[ChangeGroup]:
    """The changes in the order of the answer; those that stay as asked are told one by one."""
    names = {change.name: "*" for change in changes}
    names.update({site: "*" for change in changes for site in change.sites})
    # The Dims that dims become, too: p0 and p1 each become one of their own.
    names.update({root: "*" for change in changes if (root := change.after.partition(":")[0]).isidentifier()})
    word = re.compile("|".join(rf"(?<![\w.]){re.escape(name)}(?!\w)" for name in sorted(names, key=len, reverse=True)))
    found = []
    for alike in grouped((_key(change, word, at), change) for at, change in enumerate(changes)).values():
        kinds = grouped((_reason_key(reason, word), reason) for change in alike for reason in change.why)
        every = len({reason.text for change in alike for reason in change.why})
        firsts = tuple(reasons[0] for reasons in kinds.values())
        found.append(ChangeGroup(tuple(alike), firsts, max(0, every - len(firsts))))
    return found


def _key(change: Change, word: re.Pattern[str], at: int) -> object:
    if change.before == change.after:
        return at
    texts = (
        _rest(change),
        change.after,
        change.lost,
        change.allowed,
        *(f"{other.text} {other.kept} {other.note}" for other in change.alternatives),
        "" if change.model_change is None else f"{change.model_change.text} {change.model_change.note}",
    )
    proof = (change.proof.kind, change.proof.detail)
    reasons = frozenset(_reason_key(reason, word) for reason in change.why)
    return tuple(word.sub("*", text) for text in texts), change.kept, proof, reasons


def _reason_key(reason: Reason, word: re.Pattern[str]) -> tuple[str, str]:
    frame = reason.stack.best
    return word.sub("*", reason.text), "" if frame is None else place(frame)


def _rest(change: Change) -> str:
    """What was declared, after the name: ``: 1..8``."""
    name, before = one_line(change.name), one_line(change.before)
    if before == name:
        return ""
    return before[len(name) :] if before.startswith((f"{name}:", f"{name} ")) else f": {before}"


def _names(names: Sequence[str]) -> str:
    plain = [one_line(name) for name in names]
    if len(plain) > _MOST_NAMES:
        plain = [*plain[: _MOST_NAMES - 1], f"{len(plain) - _MOST_NAMES + 1} more"]
    return joined(plain)
