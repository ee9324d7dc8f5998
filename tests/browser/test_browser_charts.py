"""The page around the graph in a real browser: pictures are saved, folds open, nothing stands in anyone's way."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from chromium import SCREENS, needs_browser, page_of
from sample_analysis import analysis, finding
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from trtdiag.analysis.finding import Place, Severity
from trtdiag.benchmark.facts import Benchmark, SizeResult, Spread, WayResult
from trtdiag.engine.built_layers import LayerInfo, LayerTensor
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.report import Report
from trtdiag.report.view_speed import speed_view
from trtdiag.runtime.engine_layers import ToldLayers

pytestmark = needs_browser

AXE = Path(__file__).parent / "axe" / "axe.min.js"


class Odd(nn.Module):
    """Half of its rows, in two dtypes."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.view(x.shape[0] // 2, 2, 5).sum(1).relu(), y.abs().sum(0)


@pytest.fixture(scope="module")
def refused() -> Report:
    rows, others = Dim("rows", min=2, max=31), Dim("others", min=3, max=17)
    inputs = torch.randn(6, 5), torch.arange(7)
    return trtdiag.analyze((Odd(), inputs, {}, {"x": {0: rows}, "y": {0: others}}), target="11.4", min_segment_ops=1)


@pytest.fixture(scope="module")
def compiled() -> Report:
    program = torch.export.export(
        nn.Sequential(nn.Linear(5, 7), nn.ReLU()), (torch.randn(3, 5),), dynamic_shapes={"input": {0: Dim("n", max=9)}}
    )
    return compile_in_stages(program, CompileOptions("11.4", "reference")).report


@pytest.fixture(scope="module")
def measured(compiled: Report) -> str:
    """A page with what needs a GPU, too: times of ways and layers, engines for several generations."""
    facts = compiled.analysis.compilation
    assert facts is not None
    (engine,) = facts.engines
    tensor = LayerTensor("t", "float16", "", (1,))
    layers = tuple(LayerInfo(f"layer {at}", "kind", (), True, (tensor,), (tensor,), "", at + 1.0) for at in range(3))
    built = replace(engine, gpu_bytes={"sm89": 300, "sm120": 200}, built=ToldLayers(layers))
    analysed = replace(compiled.analysis, compilation=replace(facts, engines=(built,)))
    rendering = replace(compiled, analysis=analysed).rendering
    ways = tuple(WayResult(name, ms=Spread(ms, ms, ms, 8)) for name, ms in (("trtdiag", 1.5), ("eager", 2.0)))
    result = SizeResult("opt", {"n": 3}, (), ways)
    times = Benchmark("cpu", "reference", None, "2.13.0", "keep", 8, (), (result,)).as_json()
    return replace(rendering, view={**rendering.view, "speed": speed_view(times)}).text("html")


def test_a_picture_is_saved_as_svg_and_as_png(refused: Report, tmp_path: Path) -> None:
    """With its inks, title and legend in it: the files stand alone."""
    with page_of(refused.to_html(), color_scheme="dark") as (page, seen):
        for name in ("svg", "png"):
            with page.expect_download() as caught:
                page.locator("#memory .chart").get_by_role("button", name=f"Save as {name.upper()}").click()
            assert caught.value.suggested_filename == f"memory-over-the-execution-order.{name}"
            caught.value.save_as(tmp_path / f"chart.{name}")
        keys = page.locator("#memory .chart .key").all_inner_texts()
        assert seen.console == []
    drawing = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    with page_of(f"<!doctype html><title>one</title>{drawing}") as (page, seen):
        inks = page.evaluate("[...document.querySelectorAll('path, rect')].map((e) => getComputedStyle(e).fill)")
        texts = page.locator("svg text").all_text_contents()
        size = page.locator("svg").bounding_box()
        over = page.evaluate(BEYOND)
        assert seen.console == []
    assert inks[0] == "rgb(13, 17, 23)"  # the ground of the dark scheme
    assert len(set(inks)) >= 4
    assert "class=" not in drawing
    assert texts[: 1 + len(keys)] == ["Memory over the execution order", *keys]
    assert over == []
    picture = (tmp_path / "chart.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture[16:24]) == (2 * size["width"], 2 * size["height"])
    assert size["height"] > 240


# Texts that stand beyond the edges of their picture.
BEYOND = """() => { const edge = document.querySelector("svg").getBoundingClientRect();
  return [...document.querySelectorAll("svg text")].filter((text) => { const { left, right, top, bottom } =
    text.getBoundingClientRect(); return left < edge.left || right > edge.right || top < edge.top ||
    bottom > edge.bottom; }).map((text) => text.textContent); }"""


@pytest.mark.slow  # quick: one picture is saved; in test_report_charts.py each is drawn
def test_each_picture_is_saved_with_its_title_and_its_legend(refused: Report, measured: str) -> None:
    saved = []
    for html in (refused.to_html(), measured):
        with page_of(html) as (page, seen):
            for figure in page.locator("figure.chart").all():
                with page.expect_download() as caught:
                    figure.get_by_role("button", name="Save as SVG").click()
                title, keys = figure.locator("b").inner_text(), figure.locator(".key").all_inner_texts()
                saved.append((title, keys, Path(caught.value.path()).read_text(encoding="utf-8")))
            assert seen.console == []
    assert {title for title, _, _ in saved} == {
        "Ranges",
        "Precision",
        "Memory over the execution order",
        "Difference by set of sizes",
        "Engine sizes by GPU generation",
        "Where time goes",
        "Time of a call at n=3",
    }
    for title, keys, drawing in saved:
        with page_of(f"<!doctype html><title>one</title>{drawing}") as (page, _):
            assert page.locator("svg text").all_text_contents()[: 1 + len(keys)] == [title, *keys]
            assert page.evaluate(BEYOND) == [], title


def test_each_picture_has_its_numbers_behind_it(refused: Report, measured: str) -> None:
    script = """() => [...document.querySelectorAll("figure.chart")].map((figure) => [
      figure.querySelector("figcaption b").textContent, figure.querySelector("svg").getAttribute("role"),
      figure.querySelector("svg").getAttribute("aria-label").length > 20, figure.querySelectorAll("td").length > 3])"""
    seen = []
    for html in (refused.to_html(), measured):
        with page_of(html) as (page, _):
            seen += page.evaluate(script)
    assert [name for name, *_ in seen] == [
        "Ranges",
        "Precision",
        "Memory over the execution order",
        "Precision",
        "Engine sizes by GPU generation",
        "Difference by set of sizes",
        "Where time goes",
        "Time of a call at n=3",
        "Memory over the execution order",
    ]
    assert all(rest == ["img", True, True] for _, *rest in seen)


def test_the_findings_stand_on_the_first_screen(refused: Report) -> None:
    with page_of(refused.to_html(), viewport={"width": 1280, "height": 800}) as (page, _):
        first = page.locator("article.finding").first.bounding_box()
        assert first is not None
        assert first["y"] < 600
        assert page.locator("#stages > ol").count() == 1  # of the export that failed


def test_wide_screens_have_two_columns(compiled: Report) -> None:
    for width, columns in ((1280, 1), (1920, 2)):
        with page_of(compiled.to_html(), viewport={"width": width, "height": 900}) as (page, _):
            lefts = page.evaluate(
                "['findings', 'types'].map((id) => document.getElementById(id).getBoundingClientRect().left)"
            )
            assert len(set(lefts)) == columns


@pytest.mark.parametrize("width", [1280, 1920])
def test_no_verdict_of_a_size_is_cut(refused: Report, width: int) -> None:
    with page_of(refused.to_html(), viewport={"width": width, "height": 900}) as (page, _):
        over = page.evaluate(
            "(() => { const table = document.querySelector('#dims table.sizes');"
            " return table.scrollWidth - table.parentElement.clientWidth; })()"
        )
        assert over <= 0


def test_a_link_to_a_finding_among_others_opens_its_card() -> None:
    alike = tuple(
        finding(at, "SYM201", Severity.ERROR, f"{name}.shape[0] has no upper bound", places=(Place(name),))
        for at, name in enumerate(("x", "y"), 1)
    )
    with page_of(Report(analysis(findings=alike)).to_html(), "#SYM201-2") as (page, _):
        assert page.locator("#SYM201-2").is_visible()
        assert page.locator("#SYM201-1 details.alike").get_attribute("open") is not None


def test_the_declaration_is_copied_whole(refused: Report) -> None:
    with page_of(refused.to_html(), permissions=["clipboard-read", "clipboard-write"]) as (page, _):
        page.get_by_role("link", name="what to declare").first.click()
        page.locator("#declare + .copyable button").click()
        page.get_by_role("button", name="Copied").wait_for()
        code = page.locator("#declare + .copyable code").text_content()
    names: dict[str, object] = {}
    exec(code, names)  # what is copied is Python
    assert isinstance(names["dynamic_shapes"], dict)


@pytest.mark.parametrize(("scheme", "width"), SCREENS)
# Quick: the page of a refused export has pictures of each shape.
@pytest.mark.parametrize("which", ["planned", pytest.param("measured", marks=pytest.mark.slow)])
def test_no_picture_stands_in_the_way_of_anyone(
    refused: Report, measured: str, which: str, scheme: str, width: int
) -> None:
    html = measured if which == "measured" else refused.to_html()
    with page_of(html, color_scheme=scheme, viewport={"width": width, "height": 900}) as (page, _):
        page.evaluate("() => { for (const each of document.querySelectorAll('main details')) each.open = true; }")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
        told = [(each["impact"], each["id"], each["nodes"][0]["html"]) for each in found]
        assert [each for each in told if each[0] in ("moderate", "serious", "critical")] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
