"""The page of a sweep in a browser: size, access, search, sorting, links."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from chromium import SCREENS, needs_browser, page_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fleet"))
from sample_rows import TIMES, many

from trtdiag.fleet.comparison import compared
from trtdiag.fleet.options import SweepOptions
from trtdiag.fleet.rows import Row
from trtdiag.fleet.totals import totals_of
from trtdiag.fleet.view import sweep_page

AXE = Path(__file__).parent / "axe" / "axe.min.js"
MOST_BYTES = 700_000
"""For 1,000 rows: what a report of as many nodes may weigh, and no more."""


def page_html(rows: list[Row]) -> str:
    before = [replace(row, state="clean", text="No findings") if at % 9 == 0 else row for at, row in enumerate(rows)]
    found = compared(before[1:], rows[:-1], "the sweep before")
    steps = ("analyze", "fix-dims", "compile", "verify", "bench")
    return sweep_page(rows, [TIMES] * len(rows), totals_of(rows), found, SweepOptions(steps=steps), "sweep")


def test_a_thousand_rows_weigh_little_and_a_page_is_the_same_again() -> None:
    html = page_html(many(1000))
    assert len(html.encode()) <= MOST_BYTES
    assert html == page_html(many(1000))


def test_nothing_names_whose_home_folder_it_is() -> None:
    one, *others = many(3)
    home = "/home/ada/nets/unet.pt2"
    because = "it begins as a zip archive, and the table of contents is missing, which is written last; save it again"
    text = f"error: {home} is no program: {because}"
    rows = [replace(one, program=home, state="failed", text=text, diagnosis=None), *others]
    options = SweepOptions(options={"timing_cache": "/home/ada/timings"})
    found = compared(others, rows, "/home/ada/swept")
    html = sweep_page(rows, [TIMES] * 3, totals_of(rows), found, options, "/home/ada/now")
    assert "/home/" not in html
    assert f"error: ~/nets/unet.pt2 is no program: {because}" in html  # whole: there is no report that says it


@needs_browser
@pytest.mark.parametrize("count", [400, pytest.param(1000, marks=pytest.mark.slow)])
def test_rows_are_found_and_sorted(count: int) -> None:
    with page_of(page_html(many(count))) as (page, seen):
        page.wait_for_selector("th button.sort")
        shown = page.locator(".programs tbody tr:visible")
        status = page.locator("#shown")
        assert status.text_content() == f"{count:,} of {count:,} rows"
        page.fill("#find", "family_3/ GRD301")
        expected = sum("family_3/" in row.program and row.state == "error" for row in many(count))
        assert 0 < expected == shown.count()
        page.fill("#find", "")
        page.get_by_label("clean").uncheck()
        assert status.text_content() == f"{count * 9 // 10} of {count:,} rows"
        page.get_by_label("clean").check()
        first = page.locator(".programs tbody tr").first
        page.get_by_role("button", name="program", exact=True).click()
        assert "network_0000" in first.text_content()
        for _ in range(2):  # its name has an arrow from then on
            page.locator("button.sort", has_text="engines").click()
        assert page.locator(".programs th", has_text="engines").get_attribute("aria-sort") == "descending"
        assert page.locator(".programs tbody tr").last.locator("td").nth(3).text_content() == ""  # nothing comes last
        page.get_by_role("button", name="Show the programs with GRD301").click()
        assert page.input_value("#find") == "GRD301"
        assert shown.count() == count // 10
        page.get_by_role("button", name="Show the programs with SYM201").click()  # a note, which no cell shows
        assert shown.count() == sum(row.state in ("differs", "incomplete", "warning") for row in many(count))
        assert seen.console == []
        assert len(seen.requests) == 1


@needs_browser
@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_nobody_is_kept_out(scheme: str, width: int) -> None:
    with page_of(page_html(many(60)), color_scheme=scheme, viewport={"width": width, "height": 900}) as (page, _):
        page.wait_for_selector("th button.sort", state="attached")
        page.evaluate("() => { for (const each of document.querySelectorAll('main details')) each.open = true; }")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
        assert [(each["impact"], each["id"], each["nodes"][0]["html"]) for each in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@needs_browser
def test_without_scripts_every_row_is_there() -> None:
    with page_of(page_html(many(60)), java_script_enabled=False) as (page, _):
        assert page.locator(".programs tbody tr:visible").count() == 60
        assert page.locator(".finder").is_hidden()
        href = page.locator(".programs tbody a").first.get_attribute("href")
        assert href == f"steps/{'0' * 32}/report.html"
