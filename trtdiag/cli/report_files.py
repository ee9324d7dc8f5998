"""The options about reports: which formats, where, compared with what."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtdiag.cli.option_groups import Options, flag, path, several
from trtdiag.cli.streams import standard_output
from trtdiag.cli.value_checks import F, OutputFile, listed, told_at_the_end
from trtdiag.files.destination import is_written_through, open_descriptor
from trtdiag.files.same_file import STREAM, Named
from trtdiag.option_warnings import OptionWarning
from trtdiag.report.format_names import SUFFIXES, format_of, format_unknown
from trtdiag.report.save import write_atomically

if TYPE_CHECKING:
    from trtdiag.report.formats import Saveable


def _written(words: str) -> dict[str, Any]:
    return {"type": OutputFile(or_stream=True), "metavar": "PATH", "help": words}


REPORT_OPTIONS: Options = {
    "json": _written("Also write the report as JSON; - for standard output."),
    "sarif": _written("Also write SARIF 2.1.0; - for standard output."),
    "markdown": _written("Also write Markdown for a pull request; - for standard output."),
    "format": several("FORMATS", "What to write beside each other: html,json,sarif,markdown  [default: html]"),
    "no_html": flag("Write no HTML report."),
    "compare": path("JSON", "Say what changed since this earlier --json report."),
    "open": flag("Open the page in the browser."),
}


def json_option(words: str) -> Callable[[F], F]:
    """``--json`` alone, as the argument ``json_path``."""
    return click.option("--json", "json_path", **_written(words))


printed_json_option = click.option(
    "--json",
    "json_path",
    is_flag=False,
    flag_value=STREAM,
    **{**_written("Give it as JSON: in a file, or on standard output."), "metavar": "[PATH]"},
)
"""Of commands that print a list, which they print as JSON where no file is named."""


@dataclass(frozen=True)
class ReportFiles:
    """What to write.

    Attributes:
        places: Format and place of each; a place may be ``-``.
        compare: The earlier report, where one was named.
        opens: Whether to open the page.
    """

    places: tuple[tuple[str, Named], ...]
    compare: str | None = None
    opens: bool = False

    @property
    def to_stdout(self) -> bool:
        """Whether standard output belongs to a report."""
        return any(place.path == STREAM for _, place in self.places)

    def write(self, report: Saveable) -> list[str]:
        """Write all of them, and open the page where that was asked for; gives the places of those that were written.

        One that could not be makes the command fail at its end.
        """
        written = [place.path for name, place in self.places if _put(place.path, report.rendering.text(name), "report")]
        if self.opens:
            from trtdiag.report.formats import open_page  # torch takes seconds: --help should not wait for it

            pages = (place.path for name, place in self.places if name == "html")
            page = next((path for path in pages if path != STREAM and path in written), None)
            report.show() if page is None else open_page(Path(page))
        return written


def _put(place: str, text: str, what: str) -> bool:
    """Whether it was written."""
    if place == STREAM:
        standard_output().write_utf8(text)
        return True
    with told_at_the_end():
        write_atomically(Path(place), text, what=what)
        return True
    return False


def json_file(place: str | None) -> ReportFiles:
    """What ``--json`` alone asks for."""
    return ReportFiles(() if place is None else (("json", Named("--json", _place(place))),))


def write_json(files: ReportFiles, text: str, what: str) -> list[Path]:
    """Write the text of ``what`` to where ``--json`` says; gives the files that were written."""
    places = [place.path for _, place in files.places if _put(place.path, text, what)]
    return [Path(place) for place in places if place != STREAM]


def asked_files(
    given: Mapping[str, Any], output: Path | None, usual: Path, *, output_option: str = "-o"
) -> ReportFiles:
    """What a command's arguments ask for.

    Args:
        given: The command's arguments by name.
        output: Where the page goes; another format where the suffix says so.
        usual: Where it goes otherwise.  Files of other formats go beside it.
        output_option: What gives ``output``.

    Raises:
        UserError: ``report-format-unknown``.
    """
    page = output or usual
    names = listed(given.get("format") or ())
    for name in names:
        if name not in SUFFIXES:
            raise format_unknown(name)
    by, without = ("the report", output_option) if output is None else (output_option, None)
    places = {
        name: Named(f"{by} ({name})", str(page if name == "html" else page.with_suffix(SUFFIXES[name])), without)
        for name in names
    }
    if not names:
        # A device has no suffix that could say otherwise.
        plain = output is None or is_written_through(output)
        places = {"html" if plain else format_of(page): Named(by, str(page), without)}
    if given.get("no_html"):
        unmade = places.pop("html", None)
        if unmade is not None and output is not None:
            name = "output" if output_option == "-o" else "html"  # as the command's argument is called
            warnings.warn(OptionWarning(name, str(output), "--no-html writes no page"), stacklevel=2)
    for name in ("json", "sarif", "markdown"):
        place = given.get(name)
        if place is not None:
            places.pop(name, None)
            places[name] = Named(f"--{name}", place)
    return ReportFiles(
        tuple((name, replace(place, path=_place(place.path))) for name, place in places.items()),
        given.get("compare"),
        bool(given.get("open")),
    )


def _place(text: str) -> str:
    """A place to write to; ``/dev/stdout`` is what ``-`` is."""
    return STREAM if open_descriptor(text) == 1 else text
