"""Texts as people paste them: lines cut at the width of a terminal or broken between words, under a log's prefixes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

WIDTHS = range(40, 201)

# What is put before a line, from its number.
PREFIXES: dict[str, Callable[[int], str]] = {
    "none": lambda line: "",
    "docker": lambda line: "web-1  | ",
    "kubernetes": lambda line: f"[pod/export-7d9f8b6c5d-x2x1z/app] 2024-11-22T19:00:{line % 60:02}.123456789Z ",
    "airflow": lambda line: f"[2024-11-22, 19:00:{line % 60:02} UTC] {{taskinstance.py:1937}} ERROR - ",
    "syslog": lambda line: f"Nov 22 19:00:{line % 60:02} gpu-07 export[4242]: ",
    "logging": lambda line: f"2024-11-22 19:00:{line % 60:02},{line % 1000:03} - app.export - ERROR - ",
    "pytest": lambda line: "E   ",
    "rank": lambda line: "[rank3]: ",
}


def hard(line: str, width: int) -> list[str]:
    """The line cut after every ``width`` characters, as a terminal does it."""
    return [line[at : at + width] for at in range(0, max(1, len(line)), width)]


def soft(line: str, width: int, indent: str = "") -> list[str]:
    """The line broken between words, as mail programs and loggers do it; words longer than the width are cut."""
    margin = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(line, width, subsequent_indent=margin + indent) or [""]


WRAPS: dict[str, Callable[[str, int], list[str]]] = {
    "hard": hard,
    "soft": soft,
    "soft, indented": lambda line, width: soft(line, width, "    "),
}


def pasted(text: str, wrap: str, width: int, prefix: str, *, every: bool) -> str:
    """The text with its lines wrapped, and a prefix before every line that comes out, or before the wrapped lines.

    Args:
        text: As torch wrote it.
        wrap: A key of ``WRAPS``.
        width: In characters.
        prefix: A key of ``PREFIXES``.
        every: The wrapped lines get prefixes; otherwise lines with prefixes are wrapped.
    """
    before, cut = PREFIXES[prefix], WRAPS[wrap]
    lines: list[str] = []
    for number, line in enumerate(text.splitlines()):
        if every:
            lines += [before(number) + piece for piece in cut(line, width)]
        else:
            lines += cut(before(number) + line, width)
    return "\n".join(lines)
