"""The explorer on a partitioned program: random walks keep it whole, links lead into it, and the keyboard is enough."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chromium import SCREENS, needs_browser, page_of
from large_program import large_program
from sample_analysis import HOSTILE_NAMES

import trtdiag
from trtdiag.frontend.program import OpOrigin
from trtdiag.report.report import Report

pytestmark = needs_browser

AXE = Path(__file__).parent / "axe" / "axe.min.js"
LAYOUTS = [
    pytest.param("dot", marks=pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")),
    "builtin",
]
# Every text within its box, no box over another unless it is inside an open one, every edge from border to border.
CHECK = """
const faults = () => {
  const found = [];
  const frames = [...document.querySelectorAll(".explorer .box")].map((element) => {
    const rect = element.querySelector("rect");
    const value = (name) => Number(rect.getAttribute(name));
    const [x, y, w, h] = ["x", "y", "width", "height"].map(value);
    for (const text of element.querySelectorAll("text:not(.badge-text, .chip)")) {
      const end = Number(text.getAttribute("x")) + text.getComputedTextLength();
      if (end > x + w) found.push(`text: ${text.textContent}`);
    }
    return { x, y, w, h, open: element.classList.contains("open"), name: element.textContent };
  });
  const within = (a, b) => b.open && a.x >= b.x && a.y >= b.y && a.x + a.w <= b.x + b.w && a.y + a.h <= b.y + b.h;
  frames.forEach((a, at) => frames.slice(at + 1).forEach((b) => {
    const across = Math.max(a.x, b.x) - Math.min(a.x + a.w, b.x + b.w);
    const along = Math.max(a.y, b.y) - Math.min(a.y + a.h, b.y + b.h);
    if (Math.max(across, along) < -0.2 && !within(a, b) && !within(b, a)) found.push(`boxes: ${a.name} ${b.name}`);
  }));
  const touches = (px, py) => frames.some(({ x, y, w, h }) => (
    Math.abs(Math.max(x - px, px - x - w, y - py, py - y - h)) <= 0.5));  // coordinates have one decimal
  for (const path of document.querySelectorAll(".explorer path.edge")) {
    const numbers = path.getAttribute("d").match(/-?[\\d.]+/g).map(Number);
    const ends = [numbers.slice(0, 2), numbers.slice(-2)];
    if (!ends.every(([px, py]) => touches(px, py))) found.push(`edge: ${path.getAttribute("d")}`);
  }
  return [found.slice(0, 5), frames.length, document.querySelectorAll(".explorer path.edge").length];
};
"""
WALK = """([seed, steps]) => {
  const random = () => { seed = (seed * 48271) % 2147483647; return seed / 2147483647; };
  const select = document.querySelector(".explorer select");
  const seen = [];
  for (let step = 0; step < steps; step++) {
    if (step % 9 === 8) {
      select.value = select.value === "module" ? "partition" : "module";
      select.dispatchEvent(new Event("change"));
    }
    const groups = [...document.querySelectorAll(".explorer .box.group")];
    groups[Math.floor(random() * groups.length)].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    seen.push(faults());
  }
  return seen;
}"""


@pytest.fixture(scope="module")
def report() -> Report:
    return trtdiag.analyze(large_program(1, blocks=6), target="11.4")


@pytest.fixture(scope="module")
def html(report: Report) -> str:
    return replace(report, layout="builtin").to_html()


def chosen(page: Any) -> str:
    return str(page.locator(".explorer .box.selected title").first.text_content())


def panel(page: Any) -> str:
    return str(page.locator(".explorer .panel").text_content())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_walks_keep_boxes_apart_edges_attached_and_texts_inside(report: Report, layout: str) -> None:
    html = replace(report, layout=layout).to_html()
    assert html == replace(report, layout=layout).to_html()
    with page_of(html) as (page, seen):
        for seed in (7, 2026):
            steps = page.evaluate(f"(asked) => {{ {CHECK} return ({WALK})(asked); }}", [seed, 24])
            assert [faults for faults, _, _ in steps if faults] == []
            assert max(boxes for _, boxes, _ in steps) > 20
            assert max(edges for _, _, edges in steps) > 20
        assert seen.console == []


def test_engines_come_first_and_modules_on_demand(html: str) -> None:
    labels = (
        "() => [...document.querySelectorAll('.explorer .box')].map((box) => box.querySelector('text').textContent)"
    )
    with page_of(html) as (page, _):
        assert page.evaluate(labels) == ["input", "+ engine 0", "cummax 3", "+ engine 1", "output"]
        page.locator(".explorer .box.engine").first.click()
        assert "\u2212 engine 0" in page.evaluate(labels)
        assert "runs inengines: " in panel(page)
        page.get_by_label("Group by").select_option("module")
        assert not [label for label in page.evaluate(labels) if "engine" in label]
        # One of its blocks holds the scan: it runs on both sides.
        assert page.locator(".explorer .box rect.share.torch").count() == 1


@pytest.mark.parametrize(
    ("fragment", "title", "said"),
    [
        ("#node=cummax", "cummax 3 f32", "PyTorch: aten.cummax.default has no converter"),
        ("#engine=1", "\u2212 engine 1", "engines: "),
        ("#module=3.feed", "\u2212 feed", "module"),
        ("#node=p_3_feed_first_weight", "", "p_3_feed_first_weight"),
    ],
)
def test_a_link_leads_into_the_graph(html: str, fragment: str, title: str, said: str) -> None:
    with page_of(html, fragment) as (page, seen):
        if title:
            assert chosen(page).startswith(title)
        assert said in panel(page)
        assert page.evaluate("location.hash") == fragment
        assert page.locator("#graph").evaluate("(section) => section.getBoundingClientRect().top < innerHeight")
        page.evaluate("location.hash = 'node=add'")
        page.wait_for_function("() => document.querySelector('.explorer .panel h3').textContent === 'add'")
        assert seen.console == []


@pytest.mark.parametrize("fragment", ["#node=%E0%A4%A", "#node=absent", "#engine=99", "#%", "#nothing"])
def test_a_link_to_nothing_does_no_harm(html: str, fragment: str) -> None:
    with page_of(html, fragment) as (page, seen):
        assert page.locator(".explorer .box").count() == 5
        assert seen.console == []


def test_a_link_to_a_finding_shows_it_and_its_button_the_node(html: str) -> None:
    with page_of(html, "#OPS501-1") as (page, _):
        assert page.locator("#OPS501-1").evaluate("(found) => found.getBoundingClientRect().top < innerHeight")
        page.locator('button.show[data-finding="OPS501-1"]').click()
        assert chosen(page).startswith("cummax")


def test_the_keyboard_is_enough(html: str) -> None:
    with page_of(html) as (page, seen):
        page.get_by_role("searchbox").focus()
        page.keyboard.type("softmax_1")
        page.keyboard.press("Enter")
        assert chosen(page).startswith("softmax")
        assert page.evaluate("document.activeElement.matches('.box.selected')")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert not chosen(page).startswith("softmax")
        opened = page.locator('.explorer .box[aria-expanded="true"]').count()
        page.keyboard.press("Escape")
        assert page.locator('.explorer .box[aria-expanded="true"]').count() < opened
        page.get_by_role("button", name="Close all groups").focus()
        assert page.evaluate("document.activeElement.textContent") == "Close all"
        page.keyboard.press("Enter")
        assert page.locator('.explorer .box[aria-expanded="true"]').count() == 0
        page.get_by_label("Group by").focus()
        page.keyboard.press("ArrowDown")
        assert page.get_by_label("Group by").input_value() == "module"
        assert seen.console == []


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_nothing_stands_in_the_way_of_anyone(html: str, scheme: str, width: int) -> None:
    with page_of(html, "#node=cummax", color_scheme=scheme, viewport={"width": width, "height": 900}) as (page, _):
        page.get_by_role("searchbox").fill("relu")
        page.get_by_label("Colour by").select_option("memory")
        source = page.get_by_role("button", name="Source")
        if source.get_attribute("aria-pressed") == "false":  # on wide screens it is open
            source.click()
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
        told = [(each["impact"], each["id"], each["nodes"][0]["html"]) for each in found]
        assert [each for each in told if each[0] in ("moderate", "serious", "critical")] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_javascript_the_verdict_the_findings_and_the_overview_stand(html: str, report: Report) -> None:
    with page_of(html, java_script_enabled=False) as (page, _):
        assert page.locator("#verdict").is_visible()
        assert [page.locator(f"#{found.id}").is_visible() for found in report.findings] == [True] * len(report.findings)
        assert page.locator("#picture svg").is_visible()
        assert not page.locator("#explorer").is_visible()


def test_hostile_names_stay_names(report: Report) -> None:
    analysis = report.analysis
    origins = {
        name: OpOrigin(f"{HOSTILE_NAMES[at % len(HOSTILE_NAMES)]}.{at % 3}", "net.M")
        for at, name in enumerate(analysis.program.origins)
    }
    names = dict(zip(analysis.program.names, HOSTILE_NAMES[:2], strict=False))
    program = replace(analysis.program, origins=origins, names=names, label=HOSTILE_NAMES[1])
    hostile = Report(replace(analysis, program=program), layout="builtin").to_html()
    with page_of(hostile) as (page, seen):
        plain = page.evaluate("document.scripts.length")
        steps = page.evaluate(f"(asked) => {{ {CHECK} return ({WALK})(asked); }}", [3, 12])
        assert [faults for faults, _, _ in steps if faults] == []
        page.get_by_role("searchbox").fill("alert")
        page.keyboard.press("Enter")
        assert "alert(1)" in panel(page)
        assert page.evaluate("[document.images.length, document.scripts.length]") == [0, plain]
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        assert seen.console == []
