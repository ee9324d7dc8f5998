"""The page around the explorer in a real browser: print, phones, downloads, folded findings."""

from __future__ import annotations

import json
from html import escape

import pytest
import torch
from chromium import drive, needs_browser, open_page, page_of
from sample_analysis import analysis, exported_net, finding, graph_analysis
from torch.export import Dim

import trtdiag
from trtdiag.analysis.finding import Fix, Severity
from trtdiag.report.drawing import segments
from trtdiag.report.report import Report

pytestmark = needs_browser

A4 = {"width": 794, "height": 1123}  # pixels at 96 per inch


@pytest.fixture(scope="module")
def report() -> Report:
    return trtdiag.analyze(exported_net(2), target="8.6", min_segment_ops=1, keep_in_torch=["aten.relu"])


def test_the_first_printed_page_holds_the_verdict_and_no_buttons(report: Report) -> None:
    script = """() => {
        const shown = (selector) => [...document.querySelectorAll(selector)]
          .filter((element) => element.getClientRects().length > 0).length;
        const bottom = (selector) => document.querySelector(selector).getBoundingClientRect().bottom + scrollY;
        return [bottom("#verdict"), bottom("#stages"), shown("nav"), shown("button"),
                shown("#explorer"), shown("#picture svg"), shown(".bar-drawing")];
    }"""
    with page_of(report.to_html(), viewport=A4) as (page, _):
        page.emulate_media(media="print")
        verdict, stages, *shown = page.evaluate(script)
        printed = page.pdf(format="A4")
    assert verdict < stages < A4["height"]
    assert shown == [0, 0, 0, 1, 1]
    assert printed.startswith(b"%PDF")


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_is_wider_than_the_window(report: Report, width: int) -> None:
    # In a frame the media queries see the frame's width; a window has a least one.
    wrapper = f"""<!doctype html><title>wrapper</title><pre id="seen"></pre>
    <iframe sandbox="allow-same-origin" srcdoc="{escape(report.to_html())}" width="{width}" height="800"></iframe>
    <script>
    document.querySelector("iframe").addEventListener("load", (event) => {{
      const inside = event.target.contentDocument;
      const room = inside.documentElement.clientWidth;
      const wide = [...inside.querySelectorAll("main > section, header, article, figure, p, li, h1, h3, .stack td")]
        .filter((element) => element.getBoundingClientRect().right > room + 0.5 && !element.closest(".scroll"));
      const names = wide.map((element) => `${{element.tagName}} ${{element.id || element.className}}`);
      document.getElementById("seen").textContent = [room > {width} - 20, inside.documentElement.scrollWidth <= room,
        ...names].join();
    }});
    </script>"""
    opened = open_page(wrapper)
    assert '<pre id="seen">true,true</pre>' in opened.dom


def test_on_phones_no_column_is_out_of_sight(report: Report) -> None:
    """Tables of words become blocks whose cells say their heads; those of numbers are narrow enough."""
    script = """() => {
      for (const details of document.querySelectorAll("main details")) details.open = true;
      const tables = [...document.querySelectorAll("main table")].filter((table) => table.getClientRects().length);
      const wide = tables.filter((table) => table.scrollWidth > table.parentElement.clientWidth + 1);
      const cells = [...document.querySelectorAll("#coverage td")];
      return [tables.length, wide.map((table) => table.parentElement.getAttribute("aria-label")),
              cells.map((cell) => cell.dataset.head ?? "").slice(0, 6), tables[0].tHead.getClientRects().length];
    }"""
    with page_of(report.to_html(), viewport={"width": 390, "height": 800}) as (page, _):
        count, wide, heads, shown_heads = page.evaluate(script)
    assert count > 5
    assert wide == []
    assert heads == ["", "calls", "engine", "PyTorch", "no work", "reason"]
    assert shown_heads == 0
    with page_of(report.to_html()) as (page, _):
        assert page.evaluate(script)[3] == 1


def test_on_phones_code_to_copy_keeps_its_lines_and_scrolls_by_keyboard() -> None:
    fix = Fix("declare it", code='long_name = Dim("long_name", min=17, max=270)  # a multiple of 8, as asked\nh = 8')
    found = finding(1, "GRD301", Severity.ERROR, "a guard breaks the declared range", fix=fix)
    script = """() => {
        const code = document.querySelector(".copyable pre");
        const lines = Math.round(code.querySelector("code").getBoundingClientRect().height /
          parseFloat(getComputedStyle(code).lineHeight));
        code.focus();
        return [document.activeElement === code, code.scrollWidth > code.clientWidth, lines,
                document.documentElement.scrollWidth];
    }"""
    with page_of(Report(analysis(findings=(found,))).to_html(), viewport={"width": 390, "height": 800}) as (page, _):
        assert page.evaluate(script) == [True, True, 2, 390]
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(300)  # scrolling is drawn over some frames
        assert page.evaluate("document.querySelector('.copyable pre').scrollLeft") > 0
        # On paper nothing scrolls.
        page.emulate_media(media="print")
        assert page.evaluate(script)[1] is False


def test_of_what_splits_no_column_is_out_of_sight_in_half_of_a_wide_screen(report: Report) -> None:
    """With words as long as a decoder's."""
    script = """() => {
      const put = (head, text) => { document.querySelector(`.causes td[data-head="${head}"]`).textContent = text; };
      document.querySelector(".causes tbody th code").textContent = "aten.scaled_dot_product_attention.default";
      put("ops in engines", "1,100 → 1,108");
      put("bytes that cross", "48.7 KiB, no maximum");
      put("because", "it sums over past_k[0].shape[2] + input_ids.shape[1] elements, not proven to be equally many");
      put("where", "layers.* (18 times) at decoder.py:18 and 1 more");
      const table = document.querySelector(".causes");
      return [table.scrollWidth, table.parentElement.clientWidth];
    }"""
    with page_of(report.to_html(), viewport={"width": 1920, "height": 900}) as (page, _):
        wide, room = page.evaluate(script)
    assert room < 1000  # it stands in one of two columns
    assert wide <= room


def test_the_longest_words_of_a_step_stand_inside_its_box(report: Report) -> None:
    """The text is of one width a character, and cut at a number of them."""
    script = """(words) => {
      const box = document.querySelector("#partition .canvas .box.torch");
      const texts = [...box.querySelectorAll("text")];
      texts.forEach((text) => { text.textContent = words; });
      const inside = box.querySelector("rect").getBBox();
      return texts.map((text) => inside.x + inside.width - text.getBBox().x - text.getBBox().width);
    }"""
    with page_of(report.to_html()) as (page, _):
        room = page.evaluate(script, "m" * segments._LONGEST)
    assert len(room) == 2
    assert min(room) >= 0


def test_downloads_give_the_reports_that_json_and_sarif_are(report: Report) -> None:
    as_json, as_sarif = drive(
        report.to_html(),
        "return Promise.all([wholeReport(), machineTexts().then((texts) => texts[0])]);",
    )
    assert json.loads(as_json) == json.loads(report.to_json())  # a browser writes 7e-06 as 0.000007
    results = json.loads(as_sarif)["runs"][0]
    assert results["results"] == json.loads(report.to_sarif())["runs"][0]["results"]
    assert {rule["id"] for rule in results["tool"]["driver"]["rules"]} == {found.rule for found in report.findings}


def test_a_folded_note_opens_when_a_link_leads_to_it() -> None:
    result = drive(
        Report(graph_analysis(exported_net(2)), layout="builtin").to_html(),
        """
        const note = document.getElementById("MET103-1");
        const before = note.querySelector("details").open;
        location.hash = "MET103-1";
        window.dispatchEvent(new HashChangeEvent("hashchange"));
        return [before, note.querySelector("details").open];
    """,
    )
    assert result == [False, True]


def test_every_finding_is_once_in_the_page_and_in_the_json() -> None:
    made = Report(analysis())
    opened = open_page(made.to_html())
    assert opened.console == ()
    listed = [found["id"] for found in json.loads(made.to_json())["findings"]]
    assert sorted(listed) == sorted(found.id for found in made.findings)
    assert all(opened.dom.count(f'id="{each}"') == 1 for each in listed)


class Cached(torch.nn.Module):
    """Attention over a cache whose keys and values are declared apart, in float64 on the way."""

    def forward(self, query: torch.Tensor, past_keys: torch.Tensor, past_values: torch.Tensor) -> torch.Tensor:
        found = torch.nn.functional.scaled_dot_product_attention(query, past_keys, past_values)
        return found.double().cumsum(-1).float().relu().sigmoid()


@pytest.fixture(scope="module")
def cached() -> str:
    sizes = (5, 7, 7)
    shapes = {name: {2: Dim.DYNAMIC} for name in ("query", "past_keys", "past_values")}
    args = tuple(torch.randn(1, 2, size, 8) for size in sizes)
    return trtdiag.analyze((Cached(), args, {}, shapes), min_segment_ops=1).to_html()


# The last character of each line of a text, where a word goes on in the next one.
BROKEN = """(selector) => [...document.querySelectorAll(selector)].flatMap((element) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const found = [];
    let before = null;
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      for (let at = 0; at < node.length; at++) {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        const { bottom, height } = range.getBoundingClientRect();
        if (height === 0) continue;
        const here = { text: node.data[at], bottom };
        const within = before && /[a-z0-9]/i.test(before.text) && /\\w/.test(here.text);
        if (within && bottom > before.bottom + 8) found.push(`${element.textContent}: ${before.text}|${here.text}`);
        before = here;
      }
    }
    return found;
  })"""


@pytest.mark.parametrize("width", [390, 1600, 1920])
def test_names_of_ops_break_between_their_words(cached: str, width: int) -> None:
    assert "scaled_dot_product_attention" in cached
    with page_of(cached, viewport={"width": width, "height": 900}) as (page, _):
        page.evaluate("() => { for (const each of document.querySelectorAll('main details')) each.open = true; }")
        where = "h3:not(.panel h3), td code, th code, .evidence li, .panel li, .outcomes li"
        assert page.evaluate(BROKEN, where) == []


def test_verdicts_of_sizes_are_one_line_and_stages_keep_off_the_line_above(cached: str) -> None:
    script = """() => {
        const height = (element) => element.getBoundingClientRect().height;
        const gap = document.querySelector("#stages summary").getBoundingClientRect().top
          - document.querySelector("nav").getBoundingClientRect().bottom;
        return [[...document.querySelectorAll(".sizes .pill")].map(height), gap];
    }"""
    for width in (1280, 1920):
        with page_of(cached, viewport={"width": width, "height": 900}) as (page, _):
            heights, gap = page.evaluate(script)
        assert len(heights) >= 3
        assert max(heights) < 25, width  # pixels; two lines are 35
        assert gap >= 4, width


def test_pictures_on_phones_can_be_read_and_show_that_they_go_on(cached: str) -> None:
    script = """() => [...document.querySelectorAll(".chart > .scroll")].map((holder) => {
        const svg = holder.querySelector("svg");
        const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        const layers = getComputedStyle(holder).backgroundImage.split("gradient").length - 1;
        return [11 * scale, holder.scrollWidth > holder.clientWidth, layers];
    })"""
    with page_of(cached, viewport={"width": 390, "height": 844}) as (page, _):
        pictures = page.evaluate(script)
    assert pictures
    assert min(size for size, _, _ in pictures) > 8  # pixels of the texts
    assert any(longer for _, longer, _ in pictures)
    assert all(layers == 4 for _, _, layers in pictures), "the shadow of what is beyond, and what hides it at the end"


@pytest.mark.slow  # quick: engines come first and modules on demand, in test_browser_explorer.py
def test_the_only_engine_is_opened_though_it_is_not_small() -> None:
    report = trtdiag.analyze(exported_net(30), target="11.4")
    with page_of(report.to_html(), viewport={"width": 1280, "height": 900}) as (page, _):
        page.wait_for_selector(".explorer .box")
        shown = page.evaluate("document.querySelectorAll('.explorer .box').length")
    assert shown > 40, "one closed box shows nothing"
