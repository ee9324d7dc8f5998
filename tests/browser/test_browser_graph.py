"""What one does with the graph besides opening groups: colours, shapes, source, full screen, history, links into it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from chromium import needs_browser, page_of
from large_program import large_program
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from trtdiag.analysis.registry import rules
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.report import Report
from trtdiag.report.saved import read_report

pytestmark = needs_browser

FIRST_VERSION = Path(__file__).resolve().parent.parent / "report" / "saved-page-1.json"
FITS = """() => {
  const stage = document.querySelector(".explorer .stage").getBoundingClientRect();
  return [...document.querySelectorAll(".explorer .box")].every((box) => {
    const { left, top, right, bottom } = box.getBoundingClientRect();
    return left >= stage.left && top >= stage.top && right <= stage.right && bottom <= stage.bottom;
  });
}"""

# Shapes that are whole, marks in the place of others, and what any of them lies over, beyond half a pixel.
OVERLAPS = """() => {
  const shapes = [...document.querySelectorAll(".explorer text.shape")];
  const others = document.querySelectorAll(".explorer .box:not(.open) > rect:first-of-type, .explorer .box > text");
  const hit = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > .5
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > .5;
  const words = (one) => one.firstChild?.data ?? one.tagName;
  const over = shapes.flatMap((one, at) => [...shapes.slice(at + 1), ...others]
    .filter((other) => hit(one.getBoundingClientRect(), other.getBoundingClientRect()))
    .map((other) => `${words(one)} over ${words(other)}`));
  const marks = shapes.filter((one) => words(one) === "⋯").length;
  return [shapes.length - marks, marks, over];
}"""


@pytest.fixture(scope="module")
def report() -> Report:
    return replace(trtdiag.analyze(large_program(1, blocks=6), target="11.4"), layout="builtin")


@pytest.fixture(scope="module")
def html(report: Report) -> str:
    return report.to_html()


def panel(page: Any) -> str:
    return str(page.locator(".explorer .panel").inner_text())


def chosen(page: Any) -> str:
    return str(page.locator(".explorer .panel h3").text_content())


def pressed(page: Any, name: str) -> Any:
    return page.locator(".explorer .bar").get_by_role("button", name=name, exact=True)


def tags(page: Any) -> list[str]:
    return list(page.locator(".explorer text.tag").all_text_contents())


def test_arguments_of_ops_stand_in_the_panel(html: str) -> None:
    with page_of(html, "#node=softmax") as (page, _):
        assert "dim = -1\ndtype = None (default)" in panel(page)
        page.goto(page.url.partition("#")[0] + "#node=unflatten")
        assert "sizes = [2, -1]" in panel(page)


def test_shapes_stand_on_edges_where_they_can_be_read(html: str) -> None:
    with page_of(html, "#node=softmax") as (page, seen):
        shapes = page.locator(".explorer text.shape")
        assert shapes.count() == 0
        pressed(page, "Shapes").click()
        assert shapes.first.is_visible()
        assert any("input.shape[0]" in text for text in shapes.all_text_contents())
        for _ in range(8):
            pressed(page, "Zoom out").click()
        assert not shapes.first.is_visible()
        pressed(page, "Shapes").click()
        assert shapes.count() == 0
        assert seen.console == []


class Crossing(nn.Module):
    """Each of some values meets each of the others, of many shapes: edges cross where there is least room."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        near = [x.relu() for x in inputs]
        far = [torch.cat([x.expand(-1, at + 2, -1) for x in near[at:] + near[:at]], 1) for at in range(len(near))]
        return tuple(a + b for a in far for b in [near[0].sum(1, keepdim=True)])


# Quick: the layout that needs no program.
@pytest.mark.parametrize("layout", ["builtin", pytest.param("dot", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["runs", pytest.param("memory", marks=pytest.mark.slow)])
@pytest.mark.slow  # quick: arguments of ops stand in the panel
def test_shapes_lie_over_nothing_and_what_has_no_room_is_told(layout: str, kind: str) -> None:
    if layout == "dot" and shutil.which("dot") is None:
        pytest.skip("dot is not installed")
    batch = Dim("batch", min=2, max=31)
    inputs = tuple(torch.randn(5, 1, 7) for _ in range(6))
    exported = export(Crossing(), inputs, dynamic_shapes=(tuple({0: batch} for _ in inputs),))
    crossing = replace(trtdiag.analyze(exported, target="11.4", min_segment_ops=1), layout=layout).to_html()
    with page_of(crossing, viewport={"width": 1900, "height": 1000}) as (page, seen):
        page.get_by_label("Colour by").select_option(kind)
        while page.locator('.explorer .box[aria-expanded="false"]').count():
            page.locator('.explorer .box[aria-expanded="false"]').first.click()
        for _ in range(6):
            pressed(page, "Zoom in").click()
        pressed(page, "Shapes").click()
        whole, marks, over = page.evaluate(OVERLAPS)
        assert whole > 3
        assert over == []
        said = page.locator(".explorer [role=status]").inner_text()
        assert int(said.partition(" without room")[0]) >= max(marks, 1)
        assert page.locator(".explorer text.shape title").count() == whole + marks
        assert seen.console == []


def test_fit_shows_the_whole_drawing(html: str) -> None:
    with page_of(html, "#node=softmax_1") as (page, _):
        assert not page.evaluate(FITS)
        pressed(page, "Fit the graph into the frame").click()
        assert page.evaluate(FITS)


@pytest.mark.parametrize("native", [True, False])
def test_the_explorer_takes_the_whole_screen_and_escape_leaves(html: str, *, native: bool) -> None:
    full = "() => { const f = document.querySelector('.frame').getBoundingClientRect(); return f.width === innerWidth"
    full += " && f.height === innerHeight; }"
    with page_of(html) as (page, seen):
        if not native:
            page.evaluate("() => { Element.prototype.requestFullscreen = undefined; }")
        assert not page.evaluate(full)
        pressed(page, "Full screen").focus()
        page.keyboard.press("Enter")
        page.wait_for_function(full)
        assert page.evaluate("() => document.fullscreenElement !== null") == native
        if native:  # the browser's own Escape does not reach a page that is driven
            pressed(page, "Leave full screen").click()
        else:
            page.locator(".explorer .box").first.focus()
            page.keyboard.press("Escape")
        page.wait_for_function(f"() => !({full})()")
        pressed(page, "Full screen").wait_for(state="visible")  # an event after the page has its size again
        assert seen.console == []


def test_colours_say_the_same_in_words_and_what_is_missing_says_why(html: str) -> None:
    with page_of(html) as (page, seen):
        colours = page.get_by_label("Colour by")
        missing = colours.locator("option:disabled").all_text_contents()
        assert missing == ["time: no engine was built", "error: nothing was compared"]
        assert tags(page) == []
        for kind, words in (
            ("severity", ["warning"]),
            ("engine", ["engine 0", "PyTorch", "engine 1"]),
            ("precision", ["f32"]),
            ("memory", ["B"]),
        ):
            colours.select_option(kind)
            assert all(any(word in tag for tag in tags(page)) for word in words), (kind, tags(page))
            legend = page.locator(".explorer .legend").inner_text()
            assert legend
            assert page.locator(".explorer .legend .swatch").count() > 0
        colours.select_option("engine")
        page.get_by_label("Group by").select_option("module")
        assert {"engine 0", "mixed"} <= set(tags(page))
        assert seen.console == []


@pytest.mark.slow  # quick: what a compilation measured colours its graph
def test_times_and_differences_colour_where_they_were_measured(report: Report) -> None:
    rendering = report.rendering
    data = json.loads(rendering.view["graph"]["payload"])
    named = [at for at, role in enumerate(data["nodes"]["role"]) if data["roles"][role] == "op"]
    del data["lacks"]["time"], data["lacks"]["error"]
    data |= {"times": [[named[0], 0.5], [named[-1], 1.5]], "errors": [[named[3], 0.25], [named[-1], None]]}
    graph = {**rendering.view["graph"], "payload": json.dumps(data)}
    html = replace(rendering, view={**rendering.view, "graph": graph}).text("html")
    with page_of(html) as (page, seen):
        page.get_by_label("Colour by").select_option("time")
        assert {"0.5000 ms", "1.500 ms"} == set(tags(page))
        assert "the whole time, 2.000 ms" in page.locator(".explorer .legend").inner_text()
        page.get_by_label("Colour by").select_option("error")
        assert set(tags(page)) == {"2.5e-1", "no number"}
        assert seen.console == []


def test_what_a_compilation_measured_colours_its_graph() -> None:
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3), nn.Sigmoid())
    program = export(model, (torch.randn(3, 5),), dynamic_shapes={"input": {0: Dim("n", min=1, max=9)}})
    compiled = compile_in_stages(program, CompileOptions("11.4", "reference", profile_layers=True)).report
    with page_of(compiled.to_html()) as (page, seen):
        legend = page.locator(".explorer .legend")
        page.get_by_label("Colour by").select_option("time")
        assert len([tag for tag in tags(page) if tag.endswith(" ms")]) >= 4
        assert "of layers of engines on cpu, at the sizes to tune for" in legend.inner_text()
        page.get_by_label("Colour by").select_option("error")
        assert "of outputs at " in legend.inner_text()
        output = page.locator(".explorer .box.op", has_text="sigmoid")
        assert output.locator(".tag").count() == 1
        assert page.locator(".explorer .box.op", has_text="relu").locator(".tag").count() == 0  # nobody measured it
        output.click()
        assert "difference from PyTorch" in panel(page)
        assert seen.console == []


def wait_for_choice(page: Any, title: str) -> None:
    """A link changes the address at once; the page hears of it a moment later."""
    page.wait_for_function("title => document.querySelector('.explorer .panel h3').textContent === title", arg=title)


def test_pieces_of_the_strips_lead_into_the_graph(html: str) -> None:
    with page_of(html) as (page, seen):
        page.locator(".bar-drawing a").nth(2).click()
        wait_for_choice(page, "engine 1")
        assert page.locator('.explorer .box.selected[aria-expanded="true"]').count() == 1
        page.locator(".strip a").nth(1).click()
        wait_for_choice(page, "cummax")
        stops = "(links) => links.filter((link) => link.tabIndex === 0).length"
        assert page.locator(".bar-drawing a").evaluate_all(stops) == 1
        page.locator(".bar-drawing a").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#step=2"
        wait_for_choice(page, "engine 1")
        assert seen.console == []


def test_source_and_nodes_lead_to_each_other(html: str) -> None:
    with page_of(html, "#node=softmax") as (page, seen):
        pressed(page, "Source").click()
        current = page.locator(".source-pane .line.current code")
        assert "softmax(-1)" in current.text_content()
        page.locator(".source-pane button.line", has_text="torch.relu(").click()
        assert page.locator(".explorer .box.lit").count() > 0
        assert "nodes come from this line" in panel(page)
        assert page.evaluate("location.hash").startswith("#line=")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert "torch.relu" not in current.text_content()
        page.locator(".explorer .panel").get_by_role("button").first.click()
        assert page.locator(".explorer .box.lit").count() == 0
        page.locator(".explorer .panel button.link", has_text="large_program.py").first.click()
        assert page.locator(".explorer .box.lit").count() > 0
        assert seen.console == []


def test_what_was_chosen_is_in_the_history(html: str) -> None:
    with page_of(html) as (page, _):
        page.locator(".explorer .box.input").click()
        node = chosen(page)
        assert page.evaluate("location.hash") == f"#node={node}"
        page.locator(".explorer .box.engine").first.click()
        shows = "(name) => document.querySelector('.explorer .panel h3').textContent === name"
        for way, expected in (("back()", node), ("back()", "The whole graph"), ("go(2)", "engine 0")):
            page.evaluate(f"history.{way}")
            page.wait_for_function(shows, arg=expected)


def test_search_finds_ops_by_their_name_before_all_else_and_modules_last(html: str) -> None:
    def found(page: Any, words: str) -> list[str]:
        page.get_by_role("searchbox").fill(words)
        return list(page.locator(".explorer .results li").all_text_contents())

    with page_of(html) as (page, _):
        assert found(page, "softmax")[0].startswith("softmax ")
        assert [text for text in found(page, "mixer") if text.endswith("(module)")]
        everything = found(page, "mixer")
        modules = [at for at, text in enumerate(everything) if text.endswith("(module)")]
        assert modules == list(range(len(everything) - len(modules), len(everything)))
        ops = found(page, "add")
        assert ops[0].startswith("add ")
        assert found(page, "no such thing") == ["nothing found"]


def test_a_graph_of_a_page_of_version_1_is_still_explored() -> None:
    html = read_report(FIRST_VERSION, rules()).rendering.text("html")
    with page_of(html) as (page, seen):
        assert page.locator(".explorer .box").count() > 1
        page.locator(".explorer .box.op").first.click()
        missing = page.get_by_label("Colour by").locator("option:disabled").all_text_contents()
        assert "memory of outputs: not in this report" in missing
        assert pressed(page, "Source").is_disabled()
        assert seen.console == []
