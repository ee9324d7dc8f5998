"""What the site is made of: the drawing and the navigation are those of the tree, and nothing is fetched."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.documents.pages import ROOT
from tests.harness.forked_runs import run_forked
from tests.harness.rows import each

DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")
MADE = ("reference/", "adr/index.md")
"""Pages that docs/generate/ makes."""


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_generate_{name}", DOCS / "generate" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def rooms_of_the_tree() -> set[str]:
    package = ROOT / "trtdiag"
    folders = {path.name for path in package.iterdir() if (path / "__init__.py").is_file()}
    return folders | {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}


def test_the_drawing_has_every_room_and_is_the_one_in_the_page() -> None:
    house = module("house")
    assert house.rooms() == rooms_of_the_tree() - house.PARTS_OF_ROOMS
    assert (DOCS / "images" / "house.svg").read_text(encoding="utf-8") == house.drawing()


@each("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))], ids=str)
def test_links_lead_to_files(page: Path) -> None:
    for match in LINK.finditer(page.read_text(encoding="utf-8")):
        target = match["target"]
        if "://" not in target:
            place = (page.parent / target).resolve()
            made = place.is_relative_to(DOCS) and place.relative_to(DOCS).as_posix().startswith(MADE)
            assert place.exists() or made, f"{page.name} links to {target}"


def test_paths_in_the_pages_exist() -> None:
    """``trtdiag/dims/dims_table.py`` and the like, in the pages that say where things are."""
    for page in ("architecture.md", "proven.md", "files.md", "benchmarks.md", "limits.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        for path in re.findall(r"`((?:trtdiag|tests|benchmarks)/\w[\w/.-]+?)(?:::\w+)?`", text):
            assert (ROOT / path).exists(), f"{page} names {path}"


BUILD = """
import os, sys
os.environ["NO_MKDOCS_2_WARNING"] = "1"
from mkdocs.__main__ import cli
cli(["build", "--strict", "--quiet", "-d", sys.argv[1]])
"""


def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="the extra docs is not installed")
    built = run_forked(BUILD, str(tmp_path / "site"), cwd=ROOT)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        if "examples" not in page.relative_to(tmp_path / "site").parts:
            fetched = re.findall(
                r"<(?:script|link|img|iframe)[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]+", page.read_text()
            )
            assert not [each for each in fetched if 'rel="canonical"' not in each], f"{page.name} fetches {fetched}"
