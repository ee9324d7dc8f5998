"""What a notebook shows, under the style that JupyterLab's dark theme gives to tables and code."""

from __future__ import annotations

import pytest
from chromium import needs_browser, page_of
from sample_analysis import analysis
from sample_fixes import fix

from trtdiag.report.fix_notebook import fix_snippet
from trtdiag.report.report import Report

pytestmark = needs_browser

# Of @jupyterlab/rendermime's style: colours of its own for tables, every second row and code.
DARK = """
body { background: #111; color: #ddd; font-size: 13px; }
table { color: #ddd; }
tbody tr:nth-child(odd) { background: #111; }
tbody tr:nth-child(even) { background: #212121; }
pre, code { color: #ddd; background: #111; }
:not(pre) > code { background: #424242; }
"""
LEAST_CONTRAST = 4.5
"""Of text on its ground, by WCAG 2.1."""
WORST = """() => {
    const numbers = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
    const light = (colour) => numbers(colour).slice(0, 3).map((each) => each / 255)
      .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
      .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
    const ground = (element) => {
      const own = getComputedStyle(element).backgroundColor;
      return numbers(own)[3] === 0 ? ground(element.parentElement) : own;
    };
    const found = [];
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim()) continue;
      const sides = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
      found.push([(sides[0] + 0.05) / (sides[1] + 0.05), walker.currentNode.data.slice(0, 40)]);
    }
    return [found.length, ...found.sort((a, b) => a[0] - b[0])[0]];
}"""


@pytest.mark.parametrize("snippet", ["report", "fix"])
def test_text_can_be_read_in_a_dark_notebook(snippet: str) -> None:
    shown = Report(analysis())._repr_html_() if snippet == "report" else fix_snippet(fix())
    assert "<table" in shown
    html = f"<!doctype html><title>notebook</title><style>{DARK}</style><main>{shown}</main>"
    with page_of(html) as (page, _):
        texts, least, words = page.evaluate(WORST)
    assert texts > 5
    assert least >= LEAST_CONTRAST, words
