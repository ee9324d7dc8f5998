"""Bounds of sizes that data decides as they are asked for: from Python, and as words of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trtdiag.arguments import optional, whole, wrong
from trtdiag.errors import ArgumentError, UserError

AskedBound = tuple[str, "int | None", "int | None"]
"""The name of a size, the least and the greatest that it is taken to be; ``None`` where that end is not said."""

_WANTED = "bounds by the names of sizes, for example {'nonzero': 4096} or {'item': (1, 4096)}"
_NOTHING_LEFT = "its least value is greater than its greatest"
_LONG_NUMBER = re.compile(r"[0-9]{19}")
_RELATION = re.compile(
    r"(?:(?P<least>-?[0-9]{1,18})\s*<=)?\s*(?P<name>[^<>=\s][^<>=]*?)\s*(?:(?P<side>[<>]=)\s*(?P<end>-?[0-9]{1,18}))?"
)
_SPAN = re.compile(r"(?P<name>[^<>=\s][^<>=]*?)\s*=\s*(?P<least>-?[0-9]{1,18})?\.\.(?P<most>-?[0-9]{1,18})?")


def bounds_by_name(name: str, value: Any) -> tuple[AskedBound, ...]:
    """Bounds: a dict, in which a number is the greatest and a pair ``(least, greatest)``; or as they are kept.

    Raises:
        ArgumentError: ``wrong-option``.
    """
    if isinstance(value, Mapping):
        rows = [(size, *_ends(f"{name}[{size!r}]", ends)) for size, ends in value.items()]
    elif isinstance(value, (list, tuple)) and all(isinstance(row, (list, tuple)) and len(row) == 3 for row in value):
        rows = [(row[0], *_ends(f"{name}[{row[0]!r}]", tuple(row[1:]))) for row in value]
    else:
        raise wrong(name, value, _WANTED, "wrong-option")
    for size, _, _ in rows:
        if not isinstance(size, str) or not size.strip():
            raise wrong(f"a name in {name}", size, _WANTED, "wrong-option")
    return tuple((size.strip(), least, most) for size, least, most in rows)


def _ends(place: str, value: Any) -> tuple[int | None, int | None]:
    wanted = "the greatest size, or (least, greatest) in this order, None where one is not said"
    ends = value if isinstance(value, (list, tuple)) else (None, value)
    if len(ends) != 2:
        raise wrong(place, value, wanted, "wrong-option")
    least, most = (optional(whole())(place, end) for end in ends)
    if (least is None and most is None) or (least is not None and most is not None and least > most):
        raise wrong(place, value, wanted, "wrong-option")
    return least, most


def read_bounds(words: tuple[str, ...]) -> tuple[AskedBound, ...]:
    """``u0<=4096``, ``1<=u0<=4096``, ``u0>=1`` and ``u0=1..4096`` as bounds.

    Raises:
        UserError: ``wrong-assumption``.
    """
    found: list[AskedBound] = []
    for word in words:
        bound = _bound(word.strip())
        why = "" if bound else "it is none of NAME<=MAX, NAME>=MIN, MIN<=NAME<=MAX and NAME=MIN..MAX, in whole numbers"
        why = f"{why} of at most 18 digits" if why and _LONG_NUMBER.search(word) else why
        try:
            found += bounds_by_name("assume", [] if bound is None else [bound])
        except ArgumentError:
            why = "it says neither end" if bound is None or bound[1:] == (None, None) else _NOTHING_LEFT
        if why:
            raise UserError(
                f"--assume: {word[:80]!r} is no assumption",
                because=why,
                fix="write for example --assume 'nonzero<=4096', with the quotes: a shell reads < as a file",
                reference="wrong-assumption",
            )
    return tuple(found)


def _bound(word: str) -> AskedBound | None:
    span = _SPAN.fullmatch(word)
    if span is not None:
        return span["name"], _number(span["least"]), _number(span["most"])
    read = _RELATION.fullmatch(word)
    if read is None or (read["least"] is not None and read["side"] == ">="):
        return None
    least, end = _number(read["least"]), _number(read["end"])
    return (read["name"], end, None) if read["side"] == ">=" else (read["name"], least, end)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def bound_word(bound: AskedBound) -> str:
    """A bound as the command line takes it."""
    name, least, most = bound
    if least is None or most is None:
        return f"{name}>={least}" if most is None else f"{name}<={most}"
    return f"{least}<={name}<={most}"
