"""A report that was saved as JSON: every format again, without the model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from trtdiag.analysis.rule import Rule
from trtdiag.errors import UserError
from trtdiag.files.bounded_read import read_whole, reason
from trtdiag.report.comparison import compared
from trtdiag.report.formats import Rendering, Saveable
from trtdiag.report.json_report import SCHEMA, SCHEMA_PATH
from trtdiag.report.page import named_page
from trtdiag.report.saved_page import page_json, read_page
from trtdiag.report.schema_check import Schema, fitted, read_schema
from trtdiag.report.shown_paths import with_short_paths
from trtdiag.report.strict_json import Json, JsonFault, parse_json
from trtdiag.report.view_comparison import comparison_view
from trtdiag.report.view_speed import speed_view

_LARGEST_BYTES = 1 << 28


@dataclass(frozen=True, repr=False)
class SavedReport(Saveable):
    """A report read from its JSON.

    Attributes:
        body: As plain lists and dicts that fit the schema, without its page.
        page: What its page shows, unread.
        rules: The rules of this version, for SARIF.
        file: Where it was read, for errors.
    """

    body: dict[str, Any]
    page: Json
    rules: tuple[Rule, ...] = ()
    file: str = ""

    @cached_property
    def rendering(self) -> Rendering:
        """The report in every format.

        Raises:
            UserError: ``report-without-page``.
        """
        return Rendering(self.body, read_page(self.page, self.file), self.rules)

    def compare(self, earlier: str | os.PathLike[str] | SavedReport) -> SavedReport:
        """The same report with what changed since an earlier one; see ``Report.compare``.

        Raises:
            UserError: ``report-not-readable``, ``report-without-page``.
        """
        before = earlier if isinstance(earlier, SavedReport) else read_report(earlier)
        name = f"the report on {before.label}" if isinstance(earlier, SavedReport) else os.fspath(earlier)
        found = compared(before.body, self.body, name)
        view = {**self.rendering.view, "comparison": named_page(comparison_view(found), {})}
        return replace(self, body={**self.body, "comparison": with_short_paths(found)}, page=page_json(view))

    def with_times(self, bench: Mapping[str, Json]) -> SavedReport:
        """The same report with what ``bench`` measured of the program that it is about.

        Args:
            bench: A benchmark in plain lists and dicts, as ``trtdiag bench --json`` writes it.

        Raises:
            UserError: ``bench-not-readable``, ``bench-of-another-program``, ``report-without-page``.
        """
        times = _checked_bench(bench)
        self.check_networks(times["networks"])
        view = {**self.rendering.view, "speed": named_page(speed_view(times), {})}
        return replace(self, body={**self.body, "bench": dict(bench)}, page=page_json(view))

    def check_networks(self, networks: Sequence[str]) -> None:
        """Make sure that the report is about the program whose engines have these networks.

        Raises:
            UserError: ``bench-of-another-program``.
        """
        own = [engine["network_hash"] for engine in (self.body["compiled"] or {"engines": ()})["engines"]]
        if sorted(own) != sorted(networks):  # it names those of an earlier compilation last
            raise UserError(
                f"the report on {self.label} is about another compiled program",
                because="its engines have other networks" if own else "it was made without compiling",
                fix="give the report that was written with the program: trtdiag compile -o model_trt.pt2 --json",
                reference="bench-of-another-program",
            )

    @property
    def label(self) -> str:
        """The program."""
        return str(self.body["program"]["label"])

    @property
    def verdict(self) -> str:
        """How the analysis ended, in one line."""
        return str(self.body["verdict"]["text"])

    def __repr__(self) -> str:
        return f"<saved trtdiag report on {self.label}: {self.verdict}>"


def read_report(path: str | os.PathLike[str], rules: tuple[Rule, ...] = ()) -> SavedReport:
    """Read a report that ``--json`` wrote; one of an earlier version, too.

    Raises:
        UserError: ``report-not-readable``: there is no such file, or it is something else; the error names the first
            place that does not fit the schema.
    """
    name = os.fspath(path)
    try:
        body = _checked(parse_json(read_whole(name, _LARGEST_BYTES)))
    except OSError as error:
        raise _not_readable(name, reason(error)) from error
    except JsonFault as fault:
        raise _not_readable(name, str(fault)) from fault
    return SavedReport(body, body.pop("page", None), rules, name)


def _checked(body: Json) -> dict[str, Json]:
    found = body.get("schema") if isinstance(body, dict) else None
    if found is None:
        raise JsonFault("", "is no report of trtdiag")
    if found != SCHEMA:
        raise JsonFault("", f"is another kind of file: its schema is {found!r}, not {SCHEMA!r}")
    try:
        return fitted(body, report_schema())  # type: ignore[no-any-return]
    except JsonFault as fault:
        raise JsonFault("", f"is damaged: a part of it is missing or of another form: {fault}") from fault


def _checked_bench(bench: Mapping[str, Json]) -> Mapping[str, Any]:
    try:
        whole = report_schema()
        found = parse_json(json.dumps(bench).encode())  # as strict as a file: no NaN, no surrogates
        return fitted(found, whole["properties"]["bench"]["anyOf"][0], whole)  # type: ignore[no-any-return]
    except (JsonFault, TypeError, ValueError) as fault:
        raise UserError(
            "the benchmark cannot be read",
            because=str(fault),
            fix="give what trtdiag bench --json wrote, or what Benchmark.as_json() gives",
            reference="bench-not-readable",
        ) from fault


def report_schema() -> Schema:
    """The schema of the JSON report, which every report that is read is held against."""
    return read_schema(SCHEMA_PATH)


def _not_readable(name: str, why: str) -> UserError:
    return UserError(
        f"cannot read the report {name}",
        because=why,
        fix="give a file that --json wrote",
        reference="report-not-readable",
    )
