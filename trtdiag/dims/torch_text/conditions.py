"""Reads the condition that lines of a sentence state: all of them, or as many as make sense where noise follows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from trtdiag.dims.torch_text.facts import TextGuard
from trtdiag.symbolic import ExpressionError, Range, free_symbols, parse_condition
from trtdiag.symbolic.expr import Condition

MOST_GUARD_CHARACTERS = 20_000
"""A longer guard is named as unread; the longest in the wild had 3,900 characters (own count over 137 texts)."""

FLOAT_WHY = "it is about a number with a fraction, no size"
_FLOAT = re.compile(r"z[su]?f\d+$")  # torch's symbol of a number with a fraction
MOST_ENDS = 12  # line ends at which a guard may end that are tried
_ANY = Range()


def condition_in(
    parts: Sequence[str],
    names: tuple[tuple[str, str], ...] = (),
    asked: Range = _ANY,
    *,
    kind: str = "guard",
) -> TextGuard:
    """The guard in the given lines; what else is known of it as of ``TextGuard``."""
    told = TextGuard("nothing", None, "its brackets do not match", names, kind, asked)
    if sum(map(len, parts)) + len(parts) > MOST_GUARD_CHARACTERS:
        why = f"it has more than {MOST_GUARD_CHARACTERS} characters"
        return replace(told, text=f"{' '.join(parts)[:200]} ...", why=why)
    first: tuple[str, str] | None = None
    for text in _readings(parts):
        read = _parsed(text)
        if not isinstance(read, str):
            of_fraction = any(map(_FLOAT.match, free_symbols(read)))  # nothing here computes with those
            return replace(
                told, text=text, condition=None if of_fraction else read, why=FLOAT_WHY if of_fraction else ""
            )
        first = first or (text, read)
    text, why = first or (trimmed(" ".join(parts)), told.why)
    return replace(told, text=text or told.text, why=why)


@lru_cache(maxsize=1 << 12)
def _parsed(text: str) -> Condition | str:
    """The condition of ``text``, else why it is none; logs state one thousands of times."""
    try:
        return parse_condition(text)
    except ExpressionError as error:
        return str(error)


def _readings(parts: Sequence[str]) -> list[str]:
    """Texts that may be the whole guard, the likeliest first: a sentence with a full stop, else the longest."""
    ends = closed_ends(parts)
    stopped = [end for end in ends if parts[end].rstrip().endswith(".")][:1]
    order = dict.fromkeys((*stopped, *reversed(ends)))
    spaced = [trimmed(" ".join(parts[: end + 1])) for end in order]
    # A terminal breaks a line in the middle of a word.
    return spaced + [trimmed("".join(parts[: end + 1])) for end in order if end]


def closed_ends(parts: Sequence[str]) -> list[int]:
    """The first lines behind which no bracket is open."""
    open_, ends = 0, []
    for index, part in enumerate(parts):
        open_ += part.count("(") + part.count("[") - part.count(")") - part.count("]")
        if open_ <= 0 and part.strip():
            ends.append(index)
    return ends[:MOST_ENDS]


def trimmed(text: str) -> str:
    """``text`` without the full stop and the quotes at its end."""
    text = " ".join(text.split())
    text = text.removesuffix(".") if not text.endswith("...") else text
    return text.rstrip("'\"").strip().strip("`")
