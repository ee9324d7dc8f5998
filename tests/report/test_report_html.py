"""The HTML page: order, self-containment, escaping, source context."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from sample_analysis import (
    EMPTY_DIMS,
    HOSTILE_NAMES,
    analysis,
    clean_analysis,
    constraint,
    exported_net,
    finding,
    graph_analysis,
    program,
)

import trtdiag
from tests.harness.packed_pages import unpacked as unpack
from trtdiag.analysis.finding import Applicability, Evidence, Fix, Place, Severity
from trtdiag.analysis.result import Analysis
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.dims.facts import DimRow, UnparsedGuard, Verdict
from trtdiag.frontend.program import ExportFailure, OpOrigin
from trtdiag.graph.source import Frame, Stack
from trtdiag.report.html import packed, script_safe
from trtdiag.report.report import Report
from trtdiag.report.terminal import print_summary
from trtdiag.report.view_findings import finding_views, fix_view
from trtdiag.symbolic.ranges import Range
from trtdiag.wording import one_line

DRAWN = {"g", "title", "rect", "text", "circle", "path"}
VOID = {"meta", "input", "br", "img", "link", "hr"}


class Page(HTMLParser):
    """The elements, ids, scripts and visible text of a page, as a browser's parser would take it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._inside: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "wbr" and not attrs:  # where a long word may break: names may have many such places
            return
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        kind = self._inside[-1] if self._inside else ""
        {"script": self.scripts, "style": self.styles}.get(kind, self.texts).append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    def attributes(self, name: str) -> list[str]:
        return [value or "" for _, attributes in self.tags for key, value in attributes.items() if key == name]


def page_of(made: Analysis) -> Page:
    return Page(Report(made, layout="builtin").to_html())


@pytest.fixture(scope="module")
def graph_page() -> Page:
    return page_of(graph_analysis(exported_net()))


def test_sections_come_in_the_order_of_a_search_for_the_cause(graph_page: Page) -> None:
    sections = [attributes["id"] for tag, attributes in graph_page.tags if tag == "section"]
    assert sections == [
        "stages",
        "findings",
        "dims",
        "types",
        "graph",
        "no-work",
        "memory",
        "metadata",
        "environment",
        "not-checked",
    ]
    heading = next(i for i, (tag, _) in enumerate(graph_page.tags) if tag == "h1")
    assert heading < next(i for i, (tag, _) in enumerate(graph_page.tags) if tag == "section")


def test_a_page_has_no_empty_sections() -> None:
    page = page_of(clean_analysis(symbols=None, memory=None, dtypes=None))
    sections = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert sections == ["stages", "findings", "dims", "environment", "not-checked"]
    assert "Symbols are not available: there is no graph." in page.text
    ids = page.attributes("id")
    assert all(link.removeprefix("#") in ids for link in page.attributes("href") if link.startswith("#"))


def test_a_planned_page_has_every_section_in_its_order() -> None:
    made = trtdiag.analyze(exported_net(2), target="11.4")
    page = Page(made.to_html())
    sections = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert sections == [
        "stages",
        "findings",
        "splits",
        "dims",
        "types",
        "partition",
        "graph",
        "coverage",
        "no-work",
        "memory",
        "metadata",
        "environment",
        "not-checked",
    ]
    assert made.to_html() == Report(made.analysis, made.rules).to_html()


def test_every_finding_is_there_once_by_its_id(graph_page: Page) -> None:
    ids = graph_page.attributes("id")
    for found in analysis().findings:
        assert ids.count(found.id) == 1
        assert f"#{found.id}" in graph_page.attributes("href")
    assert len(ids) == len(set(ids))


def test_places_are_folded(graph_page: Page) -> None:
    assert "28 more" in graph_page.text
    nodes = [attributes for tag, attributes in graph_page.tags if tag == "code" and attributes.get("class") == "node"]
    assert len(nodes) == 32 + 1 + 1


def test_dims_guards_and_proofs_are_said(graph_page: Page) -> None:
    for text in (
        "x.shape[2]",
        "refuses declared values",
        '_h = Dim("_h", min=17, max=270)',
        "h = 137 fails; h = 136 works",
        "proven: exhaustive, 2,026 values",
        "torch.foo(L['x'])",
        "a call to torch.foo",
        "arange(0, seq) with seq <= 256",
        "12.3 MiB",
        "no maximum",
        "draws random numbers",
        "trtdiag analyze model.pt2 --target 8.6",
        "values of user inputs: int64 indices may lie outside their tables",
    ):
        assert text in graph_page.text, text


def test_page_asks_for_nothing_from_outside(graph_page: Page) -> None:
    outside = [value for name in ("src", "href", "action", "data", "srcset") for value in graph_page.attributes(name)]
    assert all(value.startswith("#") for value in outside), outside
    loading = {"link", "img", "iframe", "object", "embed", "base", "form"}
    assert not loading & {tag for tag, _ in graph_page.tags}
    styles = "".join(graph_page.styles)
    assert "url(" not in styles
    assert "@import" not in styles


def test_policy_allows_the_page_own_script_and_style_only(graph_page: Page) -> None:
    policy = next(a["content"] for tag, a in graph_page.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    runnable = [a for tag, a in graph_page.tags if tag == "script" and "type" not in a]
    assert len(runnable) == 1
    digests = {
        "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (*graph_page.scripts, *graph_page.styles, script_of(graph_page))
    }
    assert len(allowed := re.findall(r"sha256-[A-Za-z0-9+/=]+", policy)) == 3
    assert set(allowed) <= digests
    assert not [a for _, a in graph_page.tags if any(key.startswith("on") or key == "style" for key in a)]


def script_of(page: Page) -> str:
    """The script that the page unpacks."""
    return next(text for text in unpacked(page) if "class Explorer" in text)


def unpacked(page: Page) -> list[str]:
    return [unpack(text) for text in page.scripts if text.startswith(packed("")[:5])]


def test_json_report_is_in_the_page(graph_page: Page) -> None:
    assert any('"schema":"trtdiag-report/1"' in text for text in unpacked(graph_page))


def test_two_builds_are_equal() -> None:
    made = graph_analysis(exported_net(2))
    assert Report(made, layout="builtin").to_html() == Report(made, layout="builtin").to_html()


def test_clean_page_claims_nothing() -> None:
    text = page_of(clean_analysis()).text
    assert text.startswith("No findings · ")
    assert "This covers only what was checked" in text
    for word in ("all good", "success", "compatible", "passed"):
        assert word not in text.lower()


@cache
def harmless_page() -> Page:
    return page_of(hostile_analysis("harmless"))


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_hostile_names_stay_text(name: str) -> None:
    plain = harmless_page()
    page = page_of(hostile_analysis(name))
    # A name that became markup would add elements or attributes.  Boxes depend on the dots in module names.
    assert elements(page, drawn=False) == elements(plain, drawn=False)
    assert set(elements(page, drawn=True)) <= set(elements(plain, drawn=True))
    assert one_line(name)[:40].strip() in page.text
    assert "alert" not in "".join(page.scripts[-1:])


def elements(page: Page, *, drawn: bool) -> list[tuple[str, ...]]:
    return [(tag, *sorted(a)) for tag, a in page.tags if (tag in DRAWN) == drawn]


def hostile_finding(name: str) -> object:
    return finding(
        1,
        "MET101",
        Severity.ERROR,
        name,
        name=name,
        title=name,
        evidence=(Evidence(name, name),),
        places=(Place(name, name, Frame(f"/x/{name}", 2, name, name), name), Place("relu", None, None, None)),
        fix=Fix(name, Applicability.SAFE, name),
    )


def hostile_analysis(name: str) -> Analysis:
    plain = graph_analysis(
        exported_net(2),
        findings=(hostile_finding(name),),
        not_checked=(name,),
        stages=(StageTiming(name, "ok", 0.1, name),),
    )
    origins = {
        node: OpOrigin(f"layers.{name}" if at % 2 else name, name, Stack((Frame(name, at, name, name),)))
        for at, node in enumerate(plain.program.origins)
    }
    names = {"s77": name, "s27": name}
    return replace(plain, program=replace(plain.program, origins=origins, names=names, label=name, notes=(name,)))


def test_data_cannot_end_its_script() -> None:
    text = json.dumps({"a": "</script><!--<script>"})
    safe = script_safe(text)
    assert "<" not in safe
    assert json.loads(safe) == json.loads(text)


def source_of(frame: Frame) -> str:
    found = finding(1, "A", Severity.ERROR, "a", places=(Place("n", None, frame, None),))
    return page_of(clean_analysis(findings=(found,))).text


def test_source_has_three_lines_around_while_the_file_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("\n".join(f"line_{i} = {i}" for i in range(1, 21)))
    text = source_of(Frame(str(file), 10, "forward", "line_10 = 10"))
    assert "7 line_7 = 7" in text
    assert "13 line_13 = 13" in text
    assert "line_6" not in text
    assert "line_14" not in text


def test_source_is_the_recorded_line_once_the_file_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("a = 1\nb = 2\nc = 3\n")
    text = source_of(Frame(str(file), 2, "forward", "b = 20"))
    assert "2 b = 20" in text
    assert "a = 1" not in text
    file.write_text("a = 1\nb = 20\nc = 3\n")
    assert "1 a = 1" in source_of(Frame(str(file), 2, "forward", "b = 20"))


def test_source_reads_no_other_kind_of_file(tmp_path: Path) -> None:
    secret = tmp_path / "secrets.txt"
    secret.write_text("before\nHost *\nafter\n")
    assert "before" not in source_of(Frame(str(secret), 2, "forward", "Host *"))
    for odd in ("/dev/zero", "/dev/zero.py", "nul\x00.py", str(tmp_path)):
        assert "Host *" in source_of(Frame(odd, 2, "forward", "Host *"))


def test_one_size_of_many_inputs_is_one_row_and_static_dims_are_folded() -> None:
    rows = [DimRow(f"x{at}.shape[0]", "s0", "batch", Range(1, 8), "1..8", "", "ok") for at in range(27)]
    rows += [DimRow(f"x{at}.shape[1]", None, "", Range(4, 4), "4", "", "static") for at in range(80)]
    page = page_of(clean_analysis(dims=replace(EMPTY_DIMS, rows=tuple(rows))))
    assert "x0.shape[0], x1.shape[0], x2.shape[0] and 24 more" in page.text
    assert "80 static dims" in page.text
    assert sum(attributes.get("class") == "dim-ok" for _, attributes in page.tags) == 1


@pytest.mark.parametrize(
    ("state", "words"), [("unread", "a guard was not read"), ("undecided", "a guard is undecided")]
)
def test_the_row_of_a_size_says_that_a_guard_on_it_is_not_known(state: str, words: str) -> None:
    rows = (DimRow("x.shape[0]", "s0", "n", Range(1, 8), "1..8", "", state),)
    unread = (UnparsedGuard("f(s0)", "a call", "_guards_code"),)
    made = clean_analysis(dims=replace(EMPTY_DIMS, rows=rows, unparsed=unread))
    page = page_of(made)
    assert words in page.text
    assert "1 guard could not be read" in page.text
    assert "No guard was recorded" not in page.text
    assert not any(attributes.get("class") == "dim-ok" for _, attributes in page.tags)
    for width in (80, 140):
        shown = Console(file=StringIO(), width=width, record=True)
        print_summary(made, shown, source=["net.pt2"])
        told = shown.export_text()
        assert words in told
        assert "next: trtdiag compile net.pt2" in told, "no other dims are known to be better"


def test_failed_export_is_told_in_torch_own_words() -> None:
    failure = ExportFailure("UserError", "Constraints violated (h)!\n  - Not all values of h are valid", None)
    made = clean_analysis(program=program(failure=failure), stages=(StageTiming("capture", "failed", 0.1, "no"),))
    page = page_of(made)
    assert "torch.export refused the program as asked, with UserError. There is no graph." in page.text
    assert "Constraints violated (h)!\n  - Not all values of h are valid" in "".join(page.texts)
    assert "Analysis incomplete: capture failed" in page.text


def test_hundreds_of_guards_make_a_page_of_bounded_size() -> None:
    many = [constraint(Verdict.BREAKS, f"h % {at} == 0") for at in range(2, 1002)]
    many += [constraint(Verdict.HOLDS, f"w <= {at}") for at in range(1000)]
    unread = tuple(UnparsedGuard(f"f({at})", "a call", "_guards_code") for at in range(1000))
    made = clean_analysis(dims=replace(EMPTY_DIMS, constraints=tuple(many), unparsed=unread))
    html = Report(made, layout="builtin").to_html()
    assert len(html) < 300_000
    for text in ("2,000 guards: 1,000 break, 1,000 hold; 1,000 could not be read", "940 more are in the JSON report"):
        assert text in Page(html).text


def test_findings_that_are_alike_are_one_card_with_its_places() -> None:
    names = ("x", "y", "z")
    alike = tuple(
        finding(at, "SYM201", Severity.ERROR, f"{name}.shape[0] has no upper bound", places=(Place(name),))
        for at, name in enumerate(names, 1)
    )
    view = finding_views(alike)
    assert [(card["id"], card["count"], card["also"]) for card in view] == [
        ("SYM201-1", "x3", "y.shape[0], z.shape[0]")
    ]
    assert [each["id"] for each in view[0]["alike"]] == ["SYM201-2", "SYM201-3"]
    assert [place["node"] for place in view[0]["places"]] == ["x", "y", "z"]
    page = page_of(analysis(findings=alike))
    assert {f"SYM201-{at}" for at in (1, 2, 3)} <= set(page.attributes("id"))
    assert "SYM201-1 x3 x.shape[0] has no upper bound Also: y.shape[0], z.shape[0]." in page.text


def test_the_code_of_all_dims_stands_once() -> None:
    """A fix whose code is the merged declaration leads there."""
    fix = Fix("declare both with one Dim", Applicability.SAFE, "dynamic_shapes = {}\n")
    view = fix_view(fix, "dynamic_shapes = {}")
    assert view is not None
    assert (view["code"], view["see"]) == ("", True)
    assert fix_view(fix, "dynamic_shapes = None") == {**view, "code": "dynamic_shapes = {}\n", "see": False}
