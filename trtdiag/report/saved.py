"""A report that was saved as JSON: every format again, without the model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from trtdiag.errors import UserError
from trtdiag.report.comparison import compared
from trtdiag.report.comparison_json import comparison_json
from trtdiag.report.formats import Rendering
from trtdiag.report.json_parts import Json
from trtdiag.report.record import Record, read_record
from trtdiag.report.recorded_times import read_times
from trtdiag.report.sarif import RuleMeta
from trtdiag.report.view_comparison import comparison_view
from trtdiag.report.view_json import page_json, page_view
from trtdiag.report.view_speed import speed_view

_LARGEST_BYTES = 1 << 30


@dataclass(frozen=True, repr=False)
class SavedReport:
    """A report read from its JSON.

    Attributes:
        body: As plain lists and dicts, without its page.
        page: What its page shows, unread.
        rules: The rules of this version, for SARIF.
    """

    body: dict[str, Json]
    page: Json
    rules: tuple[RuleMeta, ...] = ()

    @cached_property
    def record(self) -> Record:
        """What SARIF and comparisons read."""
        return read_record(self.body)

    @cached_property
    def rendering(self) -> Rendering:
        """The report in every format.

        Raises:
            UserError: ``report-without-page``.
        """
        return Rendering(self.body, page_view(self.page), self.rules)

    def compare(self, earlier: str | os.PathLike[str] | SavedReport) -> SavedReport:
        """The same report with what changed since an earlier one; see ``Report.compare``.

        Raises:
            UserError: ``report-not-readable``, ``report-without-page``.
        """
        before = earlier if isinstance(earlier, SavedReport) else read_report(earlier)
        name = f"the report on {before.record.label}" if isinstance(earlier, SavedReport) else os.fspath(earlier)
        found = compared(before.record, self.record, name)
        view = replace(page_view(self.page), comparison=comparison_view(found))
        return replace(self, body={**self.body, "comparison": comparison_json(found)}, page=page_json(view))

    def with_times(self, bench: Mapping[str, Json]) -> SavedReport:
        """The same report with what ``bench`` measured of the program that it is about.

        Args:
            bench: A benchmark in plain lists and dicts, as ``trtdiag bench --json`` writes it.

        Raises:
            UserError: ``bench-of-another-program``, ``report-without-page``.
        """
        self.check_networks(read_times(bench).networks)
        view = replace(page_view(self.page), speed=speed_view(read_times(bench)))
        return replace(self, body={**self.body, "bench": dict(bench)}, page=page_json(view))

    def check_networks(self, networks: Sequence[str]) -> None:
        """Make sure that the report is about the program whose engines have these networks.

        Raises:
            UserError: ``bench-of-another-program``.
        """
        if sorted(self.record.networks) != sorted(networks):  # it names those of an earlier compilation last
            raise UserError(
                f"the report on {self.record.label} is about another compiled program",
                because="its engines have other networks" if self.record.networks else "it was made without compiling",
                fix="give the report that was written with the program: trtdiag compile -o model_trt.ep --json",
                reference="bench-of-another-program",
            )

    @property
    def verdict(self) -> str:
        """How the analysis ended, in one line."""
        return self.record.verdict

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the report whole or not at all, in the format of the suffix: ``.html``, ``.json``, ``.sarif``, ``.md``.

        Raises:
            UserError: The suffix is another, the place cannot be written, or the report holds no page.
        """
        return self.rendering.save(path)

    def show(self) -> Path:
        """Open the page in the browser; gives the file that it was written to."""
        return self.rendering.show()

    def __repr__(self) -> str:
        return f"<saved trtdiag report on {self.record.label}: {self.verdict}>"


def read_report(path: str | os.PathLike[str], rules: tuple[RuleMeta, ...] = ()) -> SavedReport:
    """Read a report that ``--json`` wrote.

    Raises:
        UserError: ``report-not-readable``: there is no such file, or it is something else.
    """
    place = Path(path)
    try:
        if place.stat().st_size > _LARGEST_BYTES:
            raise _not_readable(place, f"it has more than {_LARGEST_BYTES:,} bytes")
        body = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or f"it is no JSON ({error})"
        raise _not_readable(place, why) from error
    page = body.pop("page", None) if isinstance(body, dict) else None
    found = SavedReport(body, page, rules)
    try:
        _ = found.record
    except UserError as error:
        raise _not_readable(place, error.because) from error
    return found


def _not_readable(place: Path, why: str) -> UserError:
    return UserError(
        f"cannot read the report {place}",
        because=why,
        fix="give a file that --json wrote",
        reference="report-not-readable",
    )
