"""How long a page takes in the browser, by the browser's own clock, and what it may take.

Each number is the best of ``TURNS``: what a machine does beside it can make a page slower and never faster, so that the
least is the nearest to what the page itself costs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from chromium import page_of

from trtdiag.report.report import Report

TURNS = 5


@dataclass(frozen=True)
class PageTimes:
    """What a page weighs and takes; of a budget, the most that each may be.

    Attributes:
        kb: Of the file, 1,000 bytes each.
        generation_s: From the analysis to the page, ``dot`` included.
        paint_ms: From the address to the first content.
        expand_ms: From the press on the slowest group of the first picture until the frame that shows it open.
        search_ms: From the slowest letter until its results are laid out.
        reveal_ms: From the press on a result until the frame that shows its node, opened groups included.
    """

    kb: float
    generation_s: float
    paint_ms: float
    expand_ms: float
    search_ms: float
    reveal_ms: float


BUDGETS = {
    1_000: PageTimes(100, 1, 700, 100, 20, 100),
    5_000: PageTimes(300, 2, 1_000, 100, 30, 100),
    10_000: PageTimes(600, 4, 2_000, 150, 60, 150),
}
"""By the number of nodes."""


def page_times(report: Report, turns: int = TURNS) -> PageTimes:
    """What the page of an analysis takes on this machine, as the best of so many turns."""
    generation_s, html = min((_generated(report) for _ in range(min(turns, 2))), key=lambda each: each[0])
    with page_of(html, fresh=True) as (page, _):
        expand_ms, search_ms, reveal_ms = (_slowest(page, script, turns) for script in (_EXPAND, _SEARCH, _REVEAL))
    return PageTimes(len(html.encode()) / 1e3, generation_s, _painted(html, turns), expand_ms, search_ms, reveal_ms)


def _generated(report: Report) -> tuple[float, str]:
    begun = time.perf_counter()
    html = Report(report.analysis, report.rules, report.command).to_html()  # one that has drawn nothing yet
    return time.perf_counter() - begun, html


def _painted(html: str, turns: int) -> float:
    paints = []
    for _ in range(turns):
        with page_of(html, fresh=True) as (page, _):
            paints.append(page.evaluate(_PAINTED))
    return min(paints)


def _slowest(page: Any, script: str, turns: int) -> float:
    times = page.evaluate(f"async (turns) => {{{_CLOCK}{script}}}", turns)
    assert len(times) > 1, "there was one thing to do at most"
    return max(map(min, times))


_PAINTED = """() => new Promise((give) => {
  const seen = (list) => list.getEntriesByName("first-contentful-paint").forEach((entry) => give(entry.startTime));
  new PerformanceObserver(seen).observe({ type: "paint", buffered: true });
})"""

_CLOCK = """
  // Milliseconds until the frame with the change is out.
  const untilShown = async (action) => {
    const begun = performance.now();
    action();
    await new Promise(requestAnimationFrame);
    await new Promise((give) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = give;
      port2.postMessage(0);
    });
    return performance.now() - begun;
  };
  // Milliseconds until the change is laid out.  Waiting for a frame takes up to 17 ms, nearly all that a letter may.
  const untilLaidOut = (action) => {
    const begun = performance.now();
    action();
    document.body.getBoundingClientRect();
    return performance.now() - begun;
  };
  const explorer = document.querySelector(".explorer");
  const field = explorer.querySelector("input");
  const type = (text) => {
    field.value = text;
    field.dispatchEvent(new Event("input"));
  };
  const press = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const all = [];
"""
# Each group that the first picture shows, opened and closed in turn.
_EXPAND = """
  const names = [...explorer.querySelectorAll('.box.group[aria-expanded="false"]')].map((box) => box.dataset.group);
  const box = (group) => explorer.querySelector(`.box[data-group="${group}"]`);
  for (const group of names.slice(0, 6)) {
    const times = [];
    for (let turn = 0; turn < turns; turn++) {
      times.push(await untilShown(() => press(box(group))));
      if (box(group).getAttribute("aria-expanded") !== "true") throw new Error(`group ${group} did not open`);
      await untilShown(() => press(box(group)));
    }
    all.push(times);
  }
  return all;
"""
_SEARCH = """
  const words = "softmax 13.mixer";
  type("warm");
  for (let at = 1; at <= words.length; at++) {
    all.push(Array.from({ length: turns }, () => {
      type("");
      return untilLaidOut(() => type(words.slice(0, at)));
    }));
  }
  return all;
"""
# The first and the last result, from a graph whose groups are closed.
_REVEAL = """
  const close = explorer.querySelector('button[aria-label="Close all groups"]');
  for (const pick of [0, -1]) {
    const times = [];
    for (let turn = 0; turn < turns; turn++) {
      press(close);
      type("cummax");
      await untilShown(() => {});
      times.push(await untilShown(() => press([...explorer.querySelectorAll(".results button")].at(pick))));
      if (explorer.querySelectorAll(".box.selected").length !== 1) throw new Error("the result was not shown");
    }
    all.push(times);
  }
  return all;
"""
