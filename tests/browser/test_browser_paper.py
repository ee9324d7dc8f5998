"""The page on paper, read back from the PDF that the browser prints."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from io import BytesIO
from typing import Any

import pytest
import torch
from chromium import needs_browser, page_of
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from trtdiag.report.report import Report

pypdf = pytest.importorskip("pypdf", reason="pypdf, of the extra test, reads what the browser prints")
pytestmark = needs_browser


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 5)
        self.last = nn.Linear(5, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cummax(self.first(x), 0).values)


@lru_cache(maxsize=2)
def report(refused: bool) -> Report:
    dims = {0: Dim("batch", min=1, max=9)}
    if refused:  # the weights take one width, a range is declared
        dims[1] = Dim("width", min=2, max=31)
    return trtdiag.analyze((Net().eval(), (torch.randn(3, 12),), {}, (dims,)), target="8.6", min_segment_ops=1)


def words(text: str) -> str:
    """The text without line breaks, spaces and ligatures: a PDF has glyphs at places, and spaces are guessed."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def printed(html: str, scheme: str) -> list[str]:
    with page_of(html, color_scheme=scheme) as (page, _):
        pages = pypdf.PdfReader(BytesIO(page.pdf(format="A4"))).pages
        return [words(each.extract_text()) for each in pages]


# Quick: the light scheme; paper is light whatever the screen is.
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
@pytest.mark.parametrize("refused", [pytest.param(False, marks=pytest.mark.slow), True], ids=["planned", "refused"])
def test_page_1_holds_verdict_cause_and_fix(refused: bool, scheme: str) -> None:
    first, *others = printed(report(refused).to_html(), scheme)
    view = report(refused).rendering.view["verdict"]
    assert words(view["headline"]) in first
    assert words("First cause: {first_id} {first}".format_map(view)) in first
    assert view["fix"] is not None
    assert words("What to do: {title}".format_map(view["fix"])) in first
    assert ("torch.exportfailed" in first) is refused
    assert "stagesok" in first
    assert "Notchecked" in others[-1]  # the page goes on to its end, and no button is on it
    assert not any("Download" in each or "Copy" in each for each in (first, *others))


def test_paper_is_light_whatever_the_screen_is() -> None:
    looked_at = """() => ["body", "#verdict", ".finding .pill", ".source .line.current", "a"].flatMap((selector) => {
      const { color, backgroundColor } = getComputedStyle(document.querySelector(selector));
      return [color, backgroundColor];
    })"""

    def colours(scheme: str, media: str) -> Any:
        with page_of(report(True).to_html(), color_scheme=scheme) as (page, _):
            page.emulate_media(media=media)
            return page.evaluate(looked_at)

    assert colours("dark", "print") == colours("light", "print")
    assert colours("dark", "screen") != colours("light", "screen")
