"""The section about compiling in a real browser: it is shown, nothing in it runs, nothing reaches out of the page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chromium import drive, needs_browser, open_page

from tests.compiling.programs import exported_mlp
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.report import Report

pytestmark = needs_browser

LONG = "the original does not run there: <b>" + "n" * 900
MEASURE = """
const section = document.getElementById("compiled");
return {
  rows: [...section.querySelectorAll("tr[class^=point-]")].map((row) => row.className),
  shown: section.querySelector("details.segment table").getClientRects().length > 0,
  bold: section.querySelectorAll("td b").length,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
};
"""


@pytest.fixture(scope="module")
def report() -> Report:
    return compile_in_stages(exported_mlp(), CompileOptions("11.4", "reference")).report


def test_the_engines_and_points_are_shown(report: Report) -> None:
    opened = open_page(report.to_html())
    assert opened.console == ()
    seen = drive(report.to_html(), MEASURE)
    facts = report.analysis.compilation
    assert facts is not None
    assert facts.verification is not None
    assert seen["rows"] == ["point-agrees"] * len(facts.verification.results)
    assert seen["shown"]
    assert seen["wide"] <= 0


def test_a_long_reason_stays_text_and_inside_the_page(report: Report) -> None:
    facts = report.analysis.compilation
    assert facts is not None
    assert facts.verification is not None
    skipped = tuple(replace(result, outputs=(), skipped=LONG) for result in facts.verification.results)
    facts = replace(facts, verification=replace(facts.verification, results=skipped))
    seen = drive(replace(report, analysis=replace(report.analysis, compilation=facts)).to_html(), MEASURE)
    assert seen["rows"] == ["point-skipped"] * len(skipped)
    assert seen["bold"] == 0
    assert seen["wide"] <= 0
