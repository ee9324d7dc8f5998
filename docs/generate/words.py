"""Plain text as Markdown."""

from __future__ import annotations

import html
import re
import textwrap

_CODE = re.compile(r"(``.+?``|`.+?`)", re.DOTALL)
_SPECIAL = re.compile(r"([\\*_\[\]|#])")


def plain(text: str) -> str:
    """Text that means itself: what is no code in backticks is escaped."""
    parts = _CODE.split(text)
    return "".join(part if at % 2 else _escaped(part) for at, part in enumerate(parts))


def _escaped(text: str) -> str:
    # Markdown knows no backslash before "<".
    return _SPECIAL.sub(r"\\\1", text).replace("<", "&lt;")


def in_cell(text: str) -> str:
    """Text for a cell of a table of Markdown: one line."""
    return " ".join(plain(text).split())


def fenced(text: str, language: str = "text") -> str:
    """Text as a block of code."""
    return f"```{language}\n{textwrap.dedent(text).strip(chr(10))}\n```"


def cells(*texts: str) -> str:
    """A row of a table of HTML, which is read much faster than one of Markdown; backticks mark code."""
    return "<tr>" + "".join(f"<td>{_marked(text)}</td>" for text in texts) + "</tr>"


def table(heads: tuple[str, ...], rows: list[str]) -> str:
    """A table of HTML of such rows."""
    head = "".join(f"<th>{html.escape(each)}</th>" for each in heads)
    return "\n".join(["<table><thead><tr>" + head + "</tr></thead><tbody>", *rows, "</tbody></table>"])


def _marked(text: str) -> str:
    parts = _CODE.split(text)
    return "".join(
        f"<code>{html.escape(part.strip('`'))}</code>" if at % 2 else html.escape(part) for at, part in enumerate(parts)
    )
