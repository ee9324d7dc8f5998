"""Output that a page shows, beside that of a run.

A line ``...`` stands for any lines, ``...`` within a line for any text.  Numbers that differ from one machine to the
next need not be equal: times in seconds, sizes of files, and deviations in exponent notation, which must be of about
the size that is shown.  Where no target is named it is the TensorRT that is installed, or else the newest known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trtdiag.targets import get_target

_VARIES = re.compile(
    r"(?P<small>\b\d(?:\.\d+)?e-\d\d\b)|(?P<size>\b[\d,]+(?= bytes\b))|(?P<time>\b\d+\.\d+(?= s\b|(?= CPU seconds)))|"
    r"(?P<any>\.\.\.)|(?P<release>(?<=\bTensorRT )\d+\.\d+)"
)
_SMALL = r"\d(?:\.\d+)?e-{:02d}"


def missing(shown: Sequence[str], printed: str) -> str | None:
    """The first line that is shown and was not printed there; ``None`` where all was, and nothing beside it."""
    lines = [line.rstrip() for line in printed.rstrip("\n").split("\n")] if printed.strip() else []
    at, free = 0, False
    for line in shown:
        if line.strip() == "...":
            free = True
            continue
        pattern = re.compile(_pattern(line.rstrip()))
        found = next((i for i in range(at, len(lines)) if pattern.fullmatch(lines[i])), None)
        if found is None or (found != at and not free):
            return line
        at, free = found + 1, False
    return None if free or at >= len(lines) else f"nothing, where {lines[at]!r} was printed"


def _pattern(line: str) -> str:
    parts: list[str] = []
    end = 0
    for match in _VARIES.finditer(line):
        parts += [re.escape(line[end : match.start()]), _any_like(match)]
        end = match.end()
    return "".join([*parts, re.escape(line[end:])])


def _any_like(match: re.Match[str]) -> str:
    if match["any"]:
        return ".*"
    if match["small"]:
        power = int(match["small"].rpartition("-")[2])
        return "(?:" + "|".join(_SMALL.format(each) for each in (power - 1, power, power + 1)) + ")"
    if match["release"]:
        return f"(?:{re.escape(match['release'])}|{re.escape(get_target(None).version)})"
    return r"[\d,]+" if match["size"] else r"\d+\.\d+"
