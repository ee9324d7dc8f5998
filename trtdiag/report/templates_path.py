"""Where the templates of the HTML report are: in an installed wheel beside this file, else in the checkout."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from trtdiag.errors import InternalError

_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE / "templates", _HERE.parents[1] / "reports" / "templates")


@lru_cache(maxsize=1)
def templates_path() -> Path:
    """The folder with the templates, style sheet and scripts.

    Raises:
        InternalError: Neither an installed nor a checked-out copy is there.
    """
    for place in _PLACES:
        if (place / "report.html.j2").is_file():
            return place
    raise InternalError(
        "the templates of the HTML report are missing",
        because=f"none of {', '.join(str(place) for place in _PLACES)} holds report.html.j2",
        fix="install trtdiag again; in a checkout, restore reports/templates",
        reference="report-templates-missing",
    )
