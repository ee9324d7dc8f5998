"""The report in a real browser: it shows its findings, its script runs clean, nothing else runs, the explorer works."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape

import pytest
from chromium import drive, needs_browser, open_page
from sample_analysis import FINDINGS, analysis, exported_net, finding, graph_analysis

from trtdiag.analysis.finding import Evidence, Place, Severity
from trtdiag.analysis.result import Analysis
from trtdiag.frontend.program import OpOrigin
from trtdiag.report.report import Report

pytestmark = needs_browser

ATTACK = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"
CLICK = """
const boxes = () => [...document.querySelectorAll(".explorer .box")];
const words = (element) => element.querySelector("title").textContent.replace(/^[+\\u2212] /, "");
const box = (start) => boxes().find((element) => words(element).startsWith(start));
const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const key = (element, name) => element.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
const status = () => document.querySelector(".explorer [role=status]").textContent;
const panel = () => document.querySelector(".explorer .panel").textContent;
"""


def marked_analysis() -> Analysis:
    on_node = finding(7, "TYP402", Severity.WARNING, "a float64 tensor", places=(Place("relu_3"), Place("relu_4")))
    on_shape = finding(8, "SYM203", Severity.ERROR, "a symbol without a range", places=(Place("sym_size_int_2"),))
    return graph_analysis(exported_net(), findings=(*FINDINGS, on_node, on_shape))


@pytest.fixture(scope="module")
def html() -> str:
    return Report(marked_analysis(), layout="builtin").to_html()


def test_findings_are_shown_and_the_script_runs_clean(html: str) -> None:
    opened = open_page(html)
    assert opened.console == ()
    assert '<html lang="en" class="js explored">' in opened.dom
    for found in marked_analysis().findings:
        assert opened.dom.count(f'id="{found.id}"') == 1
    explorer = opened.dom.split('id="explorer"')[1]
    assert len(re.findall(r'<g class="box group', explorer)) == 6
    assert "a guard breaks the declared range of h" in opened.dom


def test_page_reads_without_javascript(html: str) -> None:
    # A sandboxed frame runs no script; the page around it looks inside.
    wrapper = f"""<!doctype html><title>wrapper</title><pre id="seen"></pre>
    <iframe sandbox="allow-same-origin" srcdoc="{escape(html)}" width="1200" height="800"></iframe>
    <script>
    document.querySelector("iframe").addEventListener("load", (event) => {{
      const inside = event.target.contentDocument;
      const isShown = (selector) => inside.querySelector(selector).getClientRects().length > 0;
      document.getElementById("seen").textContent = [inside.documentElement.className, isShown("#picture svg"),
        isShown("#GRD301-1"), isShown("#explorer"), isShown("button.copy"), isShown("#GRD301-1 pre")].join();
    }});
    </script>"""
    opened = open_page(wrapper)
    assert '<pre id="seen">,true,true,false,false,true</pre>' in opened.dom


def test_foreign_script_does_not_run(html: str) -> None:
    planted = html.replace("</body>", "<script>document.title = 'ran'</script><p onclick='x()'>p</p></body>")
    opened = open_page(planted)
    assert "<title>ran</title>" not in opened.dom
    assert any("Content Security Policy" in line for line in opened.console)


def test_hostile_names_run_nothing() -> None:
    plain = graph_analysis(exported_net())
    origins = {name: OpOrigin(f"m.{ATTACK}.{at % 4}", ATTACK) for at, name in enumerate(plain.program.origins)}
    hostile = finding(
        1,
        "MET101",
        Severity.ERROR,
        ATTACK,
        evidence=(Evidence(ATTACK, ATTACK),),
        places=(Place("relu", ATTACK, None, ATTACK),),
    )
    made = replace(
        plain,
        findings=(hostile,),
        program=replace(plain.program, origins=origins, names={"s77": ATTACK, "s27": ATTACK}, label=ATTACK),
    )
    result = drive(
        Report(made, layout="builtin").to_html(),
        CLICK
        + """
        for (let at = 0; at < 3; at++) for (const element of boxes()) if (element.dataset.group !== undefined
          && element.getAttribute("aria-expanded") === "false") click(document.querySelector(
          `.explorer .box[data-group="${element.dataset.group}"]`));
        for (const element of boxes().filter((e) => e.dataset.node !== undefined).slice(0, 40)) click(element);
        const search = document.querySelector(".explorer input");
        search.value = "onerror"; search.dispatchEvent(new Event("input"));
        return { title: document.title, images: document.images.length, scripts: document.scripts.length,
                 panel: panel(), boxes: boxes().length };
    """,
    )
    assert result["title"].startswith("1 error: MET101 <img src=x")
    assert result["images"] == 0
    assert result["scripts"] == 5
    assert "onerror" in result["panel"]
    assert result["boxes"] > 20


def test_groups_open_in_place_and_nothing_overlaps(html: str) -> None:
    result = drive(
        html,
        CLICK
        + """
        click(box("layers.1")); click(box("layers.4")); click(box("layers.0"));
        const frames = boxes().map((element) => {
          const rect = element.querySelector("rect"); const value = (name) => Number(rect.getAttribute(name));
          return { words: words(element), open: element.classList.contains("open"),
                   x: value("x"), y: value("y"), w: value("width"), h: value("height") };
        });
        const ends = [...document.querySelectorAll(".explorer path.edge")].map((path) => {
          const last = path.getPointAtLength(path.getTotalLength()); const first = path.getPointAtLength(0);
          return [[first.x, first.y], [last.x, last.y]];
        });
        return { frames, ends };
    """,
    )
    frames = result["frames"]
    assert sum(frame["open"] for frame in frames) == 3
    assert len(frames) == len(analysis_boxes(html)) + 3 * 7
    for at, a in enumerate(frames):
        for b in frames[at + 1 :]:
            apart = max(
                max(a["x"], b["x"]) - min(a["x"] + a["w"], b["x"] + b["w"]),
                max(a["y"], b["y"]) - min(a["y"] + a["h"], b["y"] + b["h"]),
            )
            assert apart >= -0.2 or within(a, b) or within(b, a), (a, b)
    for point in (end for ends in result["ends"] for end in ends):
        assert any(touches(point, frame) for frame in frames), point


def analysis_boxes(html: str) -> list[str]:
    picture = html.split('id="picture"')[1].split("</figure>")[0]
    return re.findall(r'<g class="box', picture)


def within(inner: dict[str, float], outer: dict[str, float]) -> bool:
    return (
        bool(outer["open"])
        and inner["x"] >= outer["x"]
        and inner["y"] >= outer["y"]
        and inner["x"] + inner["w"] <= outer["x"] + outer["w"]
        and inner["y"] + inner["h"] <= outer["y"] + outer["h"]
    )


def touches(point: list[float], frame: dict[str, float]) -> bool:
    # Path coordinates are written with one decimal, box coordinates of the payload too.
    x, y = point
    across = max(frame["x"] - x, x - frame["x"] - frame["w"])
    along = max(frame["y"] - y, y - frame["y"] - frame["h"])
    return abs(max(across, along)) <= 0.5


def test_stretch_never_overlaps_boxes(html: str) -> None:
    """Random levels: boxes in a loose grid, some of them opened to random sizes."""
    overlaps = drive(
        html,
        """
        let seed = 7;
        const random = () => { seed = (seed * 48271) % 2147483647; return seed / 2147483647; };
        let worst = 0;
        for (let round = 0; round < 300; round++) {
          const closed = [];
          for (let row = 0; row < 5; row++) for (let column = 0; column < 4; column++) {
            if (random() < 0.3) continue;
            const shift = random() * 90;
            closed.push(60 + 210 * column + shift, 30 + 70 * row, 60 + random() * 50, 38);
          }
          const layout = [900, 400, closed, []];
          const inside = () => (random() < 0.4 ? { width: 20 + random() * 900, height: random() * 700 } : null);
          const level = placeLevel(layout, inside);
          level.boxes.forEach((a, at) => level.boxes.slice(at + 1).forEach((b) => {
            const across = Math.abs(a.x - b.x) - (a.width + b.width) / 2;
            const along = Math.abs(a.y - b.y) - (a.height + b.height) / 2;
            worst = Math.min(worst, Math.max(across, along));
          }));
          for (const box of level.boxes) {
            worst = Math.min(worst, level.width - box.x - box.width / 2, level.height - box.y - box.height / 2);
          }
        }
        return worst;
    """,
    )
    assert overlaps >= -1e-6


def test_search_leads_to_a_node_and_its_details(html: str) -> None:
    result = drive(
        html,
        CLICK
        + """
        const search = document.querySelector(".explorer input");
        search.value = "relu_3 aten"; search.dispatchEvent(new Event("input"));
        const found = document.querySelectorAll(".explorer .results li").length;
        key(search, "Enter");
        const chosen = document.querySelector(".explorer .box.selected");
        const links = [...document.querySelectorAll(".explorer .panel a")].map((link) => link.getAttribute("href"));
        const focused = document.activeElement === chosen;
        return { found, panel: panel(), chosen: words(chosen), focused, links };
    """,
    )
    assert result["found"] == 1
    assert result["chosen"].endswith("], relu_3, 1 finding, worst warning")
    assert result["focused"]
    assert result["links"] == ["#TYP402-7"]
    for words in ("aten.relu.default", "layers.3", "read by", "y = self.second(torch.relu(self.first(x)) * 2 + 1)"):
        assert words in result["panel"]


def test_finding_is_shown_in_the_graph_even_where_its_node_is_not_drawn(html: str) -> None:
    result = drive(
        html,
        CLICK
        + """
        const show = (id) => { click(document.querySelector(`button.show[data-finding="${id}"]`)); return panel(); };
        return [show("TYP402-7"), status(), show("SYM203-8"), show("GRD301-1"), status()];
    """,
    )
    assert result[0].startswith("relu_3")
    assert result[1] == "1 of 2 marked nodes"
    assert result[2].startswith("sym_size_int_2")
    assert result[4] == "GRD301-1 names no box of the graph"


def test_keyboard_alone_opens_walks_and_closes(html: str) -> None:
    result = drive(
        html,
        CLICK
        + """
        const steps = []; const here = () => words(document.activeElement);
        document.querySelector('.explorer .box[tabindex="0"]').focus(); steps.push(here());
        const press = (name) => { key(document.activeElement, name); steps.push(here()); };
        ["ArrowDown", "ArrowLeft", "Enter"].forEach(press);
        steps.push(document.activeElement.getAttribute("aria-expanded"));
        key(document.activeElement, "ArrowDown"); steps.push(here());
        key(document.activeElement, "Escape"); steps.push(here(), document.activeElement.getAttribute("aria-expanded"));
        return steps;
    """,
    )
    assert result[0].startswith("x f32[")
    group = result[3]
    assert group.startswith("layers.0")
    assert result[4] == "true"
    assert result[5].startswith("linear")
    assert result[6].startswith("layers.0 7 ops")
    assert result[7] == "false"


def test_too_many_boxes_are_not_opened_at_once() -> None:
    big = graph_analysis(exported_net(), findings=())
    origins = {name: OpOrigin(f"m.{at // 4}", "net.M") for at, name in enumerate(big.program.origins)}
    page = Report(replace(big, program=replace(big.program, origins=origins)), layout="builtin").to_html()
    status = drive(
        page,
        CLICK + "Explorer.mostBoxes = 20; click(boxes().find((e) => e.dataset.group !== undefined)); return status();",
    )
    assert status == "More than 20 boxes: close a group first"


def test_json_report_can_be_unpacked_in_the_page(html: str) -> None:
    text = drive(html, "return machineTexts().then((texts) => texts[1]);")
    assert json.loads(text)["schema"] == "trtdiag-report/1"


def test_page_without_a_graph_runs_clean() -> None:
    opened = open_page(Report(analysis()).to_html())
    assert opened.console == ()
    assert '<html lang="en" class="js">' in opened.dom
