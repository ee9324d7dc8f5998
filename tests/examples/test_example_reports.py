"""The reports that are checked in: small, whole, and linked from the README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.packed_pages import packed_texts, report_in

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "examples" / "reports"
MOST_BYTES = 150 * 1024


@pytest.mark.parametrize("name", ["captioner.html", "unet-compiled.html"])
def test_a_report_is_small_and_holds_what_it_shows(name: str) -> None:
    page = (FOLDER / name).read_text(encoding="utf-8")
    assert len(page.encode()) < MOST_BYTES
    findings = report_in(page)["findings"]
    assert findings
    assert all(page.count(f'id="{found["id"]}"') == 1 for found in findings)
    files = {place["source"]["file"] for found in findings for place in found["places"] if place["source"] is not None}
    assert all(file.startswith("examples/") for file in files)
    # The graph names lines of libraries, too: none of the machine that made the page.
    named = {path for text in (page, *packed_texts(page).values()) for path in re.findall(r'"([/~][^" ]+\.py)', text)}
    assert named == set()


def test_the_readme_links_them_with_a_picture() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("captioner.html", "captioner.png", "unet-compiled.html"):
        assert f"(examples/reports/{name})" in readme
        assert (FOLDER / name).is_file()
    assert (FOLDER / "captioner.png").stat().st_size < MOST_BYTES
