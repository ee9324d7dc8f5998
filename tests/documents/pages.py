"""The code blocks of a Markdown page, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(?P<language>\w*)(?: +title=\"(?P<title>[^\"]+)\")?$")


@dataclass(frozen=True)
class Block:
    """A fenced block: ``title`` is the file that it is written to, ``line`` that of its first line of code, from 1."""

    language: str
    title: str | None
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """One command of a ``console`` block and the output that is shown below it."""

    words: str
    shown: tuple[str, ...]
    line: int


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page.

    Raises:
        ValueError: A fence that cannot be read or is not closed, or code that is indented instead of fenced.
    """
    found: list[Block] = []
    start: re.Match[str] | None = None
    code: list[str] = []
    for at, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if start is None and line.startswith("```"):
            start, code = _FENCE.match(line), []
            if start is None:
                raise ValueError(f"{page.name}:{at}: {line!r} is no fence that the tests can read")
        elif start is None and line.startswith("    "):
            raise ValueError(f"{page.name}:{at}: code is fenced here, so that it can be run")
        elif start is not None and line == "```":
            text = "".join(f"{each}\n" for each in code)
            found.append(Block(start["language"], start["title"], text, at - len(code)))
            start = None
        elif start is not None:
            code.append(line)
    if start is not None:
        raise ValueError(f"{page.name}: a fence is not closed")
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a ``console`` block: lines that begin with ``$``, each with what follows it."""
    found: list[Command] = []
    for at, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append(Command(line[2:], (), at))
        elif not found:
            raise ValueError(f"line {at}: output before the first command")
        else:
            found[-1] = Command(found[-1].words, (*found[-1].shown, line), found[-1].line)
    return found
