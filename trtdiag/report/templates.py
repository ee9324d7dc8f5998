"""The templates of pages, Markdown and notebooks: in an installed wheel beside this file, else in the checkout."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from trtdiag.errors import InternalError
from trtdiag.wording import visible

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


@lru_cache(maxsize=1)
def html_templates() -> Environment:
    """The templates of pages and their pieces, which escape all that stands in them."""
    return Environment(
        loader=FileSystemLoader(templates_path()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # The last net: whatever a view forgot to make visible is made so here, before it is escaped.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )


def html_piece(name: str, **parts: object) -> str:
    """What a template makes of these parts."""
    return html_templates().get_template(name).render(**parts)


@lru_cache(maxsize=1)
def plain_templates() -> Environment:
    """The same for texts that are no HTML, whose filters escape."""
    return html_templates().overlay(autoescape=False, finalize=None)
