"""Pages drawn from a JSON report that an attacker wrote: every string of it stays text, and no word decides unseen."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sample_analysis import HOSTILE_NAMES, analysis, clean_analysis

from tests.harness.rows import thinned
from trtdiag.analysis.registry import rules
from trtdiag.errors import UserError
from trtdiag.report.report import Report
from trtdiag.report.saved import read_report
from trtdiag.report.saved_page import read_page
from trtdiag.report.terminal import page_summary

ATTACKS = (
    *(name for name in HOSTILE_NAMES if len(name) < 100 and "\ud800" not in name),
    "x' onload='alert(1)",
    '1" onmouseover="alert(1)" x="',
    "javascript:alert(1)",
    "M0 0\"/><script>alert(1)</script><path d=\"",
    "]]></svg><foreignObject><iframe src=javascript:alert(1)>",
    "url(javascript:alert(1))",
    "--><script>alert(1)</script><!--",
    "</title><script>alert(1)</script>",
    "\\u003c/script\\u003e<!--<script>",
)  # fmt: skip
WORDS = ("status", "state", "severity", "verdict", "applicability", "kind", "kinds")


@cache
def body() -> dict[str, Any]:
    """A report with everything in its page: findings, guards, a comparison."""
    report = Report(analysis(), rules(), layout="builtin").compare(Report(clean_analysis()))
    return json.loads(report.to_json())


class _Tags(HTMLParser):
    """Elements with the names of their attributes, and the attributes that could do something."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self._script: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "wbr" and not attrs:  # where a long word may break: names may have many such places
            return
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "action", "data")]
        if tag == "script":
            self._script = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self._script is not None:
            self.scripts.append(self._script)
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self._script += data


def tags(page: str) -> _Tags:
    found = _Tags()
    found.feed(page)
    found.close()
    return found


def attacked(value: Any, attack: str, key: str = "") -> Any:
    """The value with each string but the words that are checked, and the empty ones, in the hands of an attacker."""
    if isinstance(value, dict):
        return {name: attacked(item, attack, name) for name, item in value.items()}
    if isinstance(value, list):
        return [attacked(item, attack, key) for item in value]
    return attack if isinstance(value, str) and value and key not in WORDS else value


def drawn(page: Any, folder: Path, **others: Any) -> str:
    place = folder / "saved.json"
    place.write_text(json.dumps({**body(), "page": page, **others}), encoding="utf-8")
    return read_report(place, rules()).rendering.text("html")


def attacked_page(text: str, folder: Path) -> _Tags:
    view = {"format": body()["page"]["format"], "view": attacked(body()["page"]["view"], text)}
    label = {"program": {**body()["program"], "label": text}, "not_checked": [text]}
    return tags(drawn(view, folder, **label))


@pytest.fixture(scope="module")
def benign(tmp_path_factory: pytest.TempPathFactory) -> _Tags:
    return attacked_page("benign", tmp_path_factory.mktemp("benign"))


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_no_string_of_a_saved_report_becomes_markup(attack: str, benign: _Tags, tmp_path: Path) -> None:
    plain, hostile = benign, attacked_page(attack, tmp_path)
    assert hostile.elements == plain.elements
    assert all(link.startswith("#") for link in hostile.links), hostile.links
    assert not any(name.startswith("on") for _, names in hostile.elements for name in names)
    # Of the scripts only those differ that hold data: the report, its SARIF, and the graph.
    assert len(hostile.scripts) == len(plain.scripts)
    assert hostile.scripts[-1] == plain.scripts[-1]


# Quick: the ends and each fourth; no string of any of them becomes markup.
@thinned("attack", ATTACKS, ids=range(len(ATTACKS)), every=4)
def test_the_data_of_the_graph_stay_data(attack: str, tmp_path: Path) -> None:
    view = json.loads(json.dumps(body()["page"]["view"]))
    plain = {"summary": "s", "layout_note": "", "payload": "{}"}
    picture = {"width": "1", "height": "1", "boxes": [], "edges": ["M0 0"]}
    pages = []
    for text in ("benign", attack):
        payload = json.dumps({"nodes": [text]}, ensure_ascii=False)
        view["graph"] = {**plain, "payload": payload, "picture": {**picture, "edges": [text]}}
        pages.append(tags(drawn({"format": body()["page"]["format"], "view": view}, tmp_path)))
        (told,) = [script for script in pages[-1].scripts if '"nodes"' in script]
        assert json.loads(told) == {"nodes": [text]}
    assert pages[1].elements == pages[0].elements


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_the_terminal_shows_what_cannot_be_seen(attack: str, tmp_path: Path) -> None:
    view = read_page({"format": body()["page"]["format"], "view": attacked(body()["page"]["view"], attack)})
    shown = io.StringIO()
    Console(file=shown, width=90).print(page_summary(view, [attack]))
    assert not set(shown.getvalue()) & {"\x1b", "\x07", "\x00", "\u202e"}


def other_status(view: Any) -> None:
    view["verdict"]["status"] = "fine"


def other_change(view: Any) -> None:
    view["comparison"]["changes"][0]["state"] = "moved"


def other_severity(view: Any) -> None:
    view["findings"][0]["severity"] = "fatal"


def other_kind(view: Any) -> None:
    view["comparison"]["numbers"]["kinds"][1] = "money"


def another_column(view: Any) -> None:
    view["comparison"]["numbers"]["rows"][0].append("more")


def another_table(view: Any) -> None:
    view["comparison"]["numbers"] = {"heads": ["a"], "rows": [["b"]], "folded": [], "more": "", "kinds": []}


def a_number(view: Any) -> None:
    view["stages"]["rows"][0]["name"] = 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_status, 'page.verdict.status is "fine", expected one of "error", "warning"'),
        (other_change, 'page.comparison.changes[0].state is "moved", expected one of "new"'),
        (other_severity, 'page.findings[0].severity is "fatal"'),
        (other_kind, 'page.comparison.numbers.kinds[1] is "money"'),
        (another_column, "page.comparison.numbers has 3 heads and a row of another number of cells"),
        (another_table, "page.comparison has numbers in other columns"),
        (a_number, "page.stages.rows[0].name is no str"),
    ],
)
def test_a_page_with_another_word_is_refused_with_file_and_place(
    change: Callable[[Any], None], said: str, tmp_path: Path
) -> None:
    page = json.loads(json.dumps(body()["page"]))
    change(page["view"])
    with pytest.raises(UserError, match=r"the page of the report .*saved\.json cannot be drawn again") as caught:
        drawn(page, tmp_path)
    assert caught.value.because.startswith(said)


def test_reports_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """Without the keys that were added since the first version; the other version's page cannot be drawn."""
    late = ("settings", "no_work", "partition", "compiled", "bench", "comparison", "page")
    early = {key: value for key, value in body().items() if key not in late}
    for finding in (early := json.loads(json.dumps(early)))["findings"]:
        del finding["impact"]
    for symbol in early["symbols"]:
        del symbol["profile"]
    place = tmp_path / "early.json"
    place.write_text(json.dumps(early), encoding="utf-8")
    found = read_report(place)
    assert found.verdict == body()["verdict"]["text"]
    assert found.body["partition"] is None
    assert [each["impact"] for each in found.body["findings"]] == [None] * len(early["findings"])
    compared = Report(analysis()).compare(place)
    assert compared.comparison is not None
    assert not compared.comparison["new"]


def test_the_views_of_own_reports_have_the_words_that_are_expected() -> None:
    assert read_page(body()["page"]) == body()["page"]["view"]


def test_a_benchmark_that_is_none_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "saved.json"
    place.write_text(json.dumps(body()), encoding="utf-8")
    for bench, said in (
        ({}, 'has no key "schema"'),
        ({"schema": "trtdiag-bench/1", "device": float("nan")}, "device is NaN"),
        ({"schema": object()}, "is not JSON serializable"),
    ):
        with pytest.raises(UserError, match="the benchmark cannot be read") as caught:
            read_report(place).with_times(bench)
        assert said in caught.value.because
