"""What the site has beyond the files in docs/: the reference, made from the code, and files of the repository.

Called by mkdocs (``hooks`` in mkdocs.yml).  Nothing made here is committed, so that it cannot differ from the code.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import commands
import errors
import ops
import python_api
import rules
import schemas

_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)#\s]+)")
# Files of the repository that pages link to, and where they are on the site.
_COPIED = ("examples/reports", "trtdiag/report/schema")
_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put rules and decisions into the navigation, and pages that it does not name to its end."""
    decisions = ["adr/index.md", *(f"adr/{path.name}" for path in sorted((ROOT / "docs" / "adr").glob("0*.md")))]
    config.nav = _filled(config.nav, {"RULES": rules.navigation(), "DECISIONS": decisions})
    named = set(_named(config.nav))
    pages = (path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))
    if more := [page for page in pages if page not in named]:
        config.nav.append({"More": more})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code, and the files of the repository that pages link to."""
    made = {
        **commands.pages(),
        **python_api.pages(),
        **rules.pages(),
        **ops.pages(),
        **errors.pages(ROOT),
        **schemas.pages(ROOT),
        "adr/index.md": _decisions(),
    }
    for source, page in _PAGES.items():
        made[page] = _links_from(source, page, (ROOT / source).read_text(encoding="utf-8"))
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    for folder in _COPIED:
        for path in sorted((ROOT / folder).iterdir()):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to where they are on the site."""
    del config, files
    source = f"docs/{page.file.src_uri}"
    return _links_from(source, page.file.src_uri, markdown) if (ROOT / source).is_file() else markdown


def _links_from(source: str, page: str, markdown: str) -> str:
    """The text of a file of the repository with its links made those of a page of the site."""

    def moved(match: re.Match[str]) -> str:
        if "://" in match["target"]:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["target"]))
        place = _PAGES.get(target, target.removeprefix("docs/"))
        place = "adr/index.md" if place == "adr" else place
        return match["before"] + posixpath.relpath(place, posixpath.dirname(page) or ".")

    return _LINK.sub(moved, markdown)


def _filled(entry: Any, lists: dict[str, list[Any]]) -> Any:
    """The navigation with each placeholder replaced by its list."""
    if isinstance(entry, list):
        return [_filled(each, lists) for each in entry]
    if isinstance(entry, dict):
        return {title: _filled(each, lists) for title, each in entry.items()}
    return lists.get(entry, entry)


def _named(entry: Any) -> Iterator[str]:
    """Every page of the navigation."""
    if isinstance(entry, str):
        yield entry
    for each in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from _named(each)


def _decisions() -> str:
    lines = ["# Decisions", "", "What cost something was written down: context, choice, price.", ""]
    for path in sorted((ROOT / "docs" / "adr").glob("0*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        number, _, words = title.partition(". ")
        lines.append(f"- {number} [{words}]({path.name})")
    return "\n".join(lines) + "\n"
