"""The templates of pages, Markdown and notebooks: in an installed wheel beside this file, else in the checkout."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import lru_cache
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from trtdiag.errors import InternalError
from trtdiag.files.atomic_write import write_entry
from trtdiag.wording import visible

_HERE = Path(__file__).resolve().parent
_LONG_WORD = re.compile(r"\S{26,}")
_INSIDE = re.compile(r"(?<=[._/])(?=\w)")
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


class _Compiled(BytecodeCache):
    """Keeps templates compiled as Python keeps modules: in ``__pycache__`` beside them, where it may write there.

    To compile those of a page takes longer than to draw a small page.
    """

    def get_source_checksum(self, source: str) -> str:
        """Of the source, and of this file, which says how it is compiled."""
        return super().get_source_checksum(source + Path(__file__).read_text("utf-8"))

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket; it stays empty where nothing whole is kept, or what is kept is of another source."""
        with suppress(Exception):  # whatever is wrong with what is kept, it is made anew
            bucket.bytecode_from_string(Path(bucket.key).read_bytes())

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep it, unless Python is told to keep nothing."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                Path(bucket.key).parent.mkdir(parents=True, exist_ok=True)
                write_entry(Path(bucket.key), [bucket.bytecode_to_string()])

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Where it is kept."""
        return cache_from_source(str(templates_path() / name))


def breakable(text: str) -> Markup:
    """A text with places to break long words at, behind dots and lines: ``aten.native_layer_norm.default``."""
    return Markup(_LONG_WORD.sub(lambda word: _INSIDE.sub("<wbr>", word[0]), str(escape(visible(text)))))


@lru_cache(maxsize=1)
def html_templates() -> Environment:
    """The templates of pages and their pieces, which escape all that stands in them."""
    made = Environment(
        loader=FileSystemLoader(templates_path()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_Compiled(),
        # The last net: whatever a view forgot to make visible is made so here, before it is escaped.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    made.filters["breakable"] = breakable
    return made


def html_piece(name: str, **parts: object) -> str:
    """What a template makes of these parts."""
    return html_templates().get_template(name).render(**parts)


@lru_cache(maxsize=1)
def plain_templates() -> Environment:
    """The same for texts that are no HTML, whose filters escape."""
    return html_templates().overlay(autoescape=False, finalize=None, bytecode_cache=None)
