"""A rule's page, read from the docstring of its check."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass

from trtdiag.errors import InternalError

SECTIONS = ("Why", "Example", "Fix safety", "Source")
_HEADING = re.compile(r"^([A-Z][A-Za-z ]*):$")


@dataclass(frozen=True)
class Page:
    """What ``trtdiag explain`` prints: ``title`` is one sentence, ``sections`` are heading and text in fixed order."""

    title: str
    sections: tuple[tuple[str, str], ...]


def parse_page(docstring: str | None, where: str) -> Page:
    """Read a page: the title on the first line, then the four sections, each with an indented text.

    Args:
        docstring: Of the check function.
        where: The rule's file, for the error.

    Raises:
        InternalError: A section is missing, empty, unknown or out of order.
    """
    if not docstring:
        raise _malformed(where, "it has no docstring")
    title, _, rest = inspect.cleandoc(docstring).partition("\n")
    found: list[tuple[str, list[str]]] = []
    for line in rest.splitlines():
        heading = _HEADING.match(line)
        if heading:
            found.append((heading[1], []))
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            raise _malformed(where, f"text before the first section: {line.strip()!r}")
    headings = tuple(name for name, _ in found)
    if headings != SECTIONS:
        raise _malformed(where, f"its sections are {', '.join(headings) or 'absent'}; wanted {', '.join(SECTIONS)}")
    sections = tuple((name, textwrap.dedent("\n".join(lines)).strip()) for name, lines in found)
    empty = [name for name, text in sections if not text]
    if empty:
        raise _malformed(where, f"section {empty[0]} is empty")
    return Page(title, sections)


def _malformed(where: str, because: str) -> InternalError:
    return InternalError(
        f"the page of the rule in {where} is malformed",
        because=because,
        fix=f"write the docstring of the check with the sections {', '.join(SECTIONS)}",
        reference="malformed-rule-page",
    )
