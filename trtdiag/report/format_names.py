"""The formats of a report by name and by suffix; imports nothing heavy, the command line asks it for its options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trtdiag.errors import UserError
from trtdiag.wording import joined

SUFFIXES: Mapping[str, str] = {"html": ".html", "json": ".json", "sarif": ".sarif", "markdown": ".md"}


def format_of(place: Path) -> str:
    """The format of a file name.

    Raises:
        UserError: ``report-format-unknown``.
    """
    suffix = place.suffix.lower()
    found = next((name for name, usual in SUFFIXES.items() if suffix == usual), None)
    if found is None:
        raise UserError(
            f"no report format for {str(place)!r}",
            because=f"the suffix is {suffix!r}" if suffix else "the name has no suffix",
            fix=f"end the name in {joined(list(SUFFIXES.values()), 'or')}",
            reference="report-format-unknown",
        )
    return found


def format_unknown(name: str) -> UserError:
    """The error about a format that there is not."""
    return UserError(
        f"there is no report format {name!r}",
        because=f"the formats are {', '.join(SUFFIXES)}",
        fix="write one of them, or several with commas between",
        reference="report-format-unknown",
    )
