"""Templates are compiled once and kept beside them, as Python keeps modules; whatever is wrong there is made anew."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment

from trtdiag.report import templates


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where templates of this test are kept: one ``greeting``."""
    (tmp_path / "greeting.html.j2").write_text("<p>Hello {{ who }}</p>")
    monkeypatch.setattr(templates, "templates_path", lambda: tmp_path)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    templates.html_templates.cache_clear()
    yield tmp_path / "__pycache__"
    templates.html_templates.cache_clear()


def drawn() -> str:
    """What a new process draws."""
    templates.html_templates.cache_clear()
    return templates.html_piece("greeting.html.j2", who="<you>")


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The names of templates that were compiled."""
    found: list[str | None] = []
    compiled = Environment._compile

    def noted(self: Environment, source: str, filename: str) -> object:
        found.append(Path(filename).name)
        return compiled(self, source, filename)

    monkeypatch.setattr(Environment, "_compile", noted)
    return found


def test_a_template_is_compiled_once(kept: Path, compilations: list[str]) -> None:
    assert [drawn(), drawn()] == ["<p>Hello &lt;you&gt;</p>"] * 2
    assert compilations == ["greeting.html.j2"]
    assert [path.suffix for path in kept.iterdir()] == [".pyc"]


def test_another_source_is_compiled_anew(kept: Path, compilations: list[str]) -> None:
    drawn()
    (kept.parent / "greeting.html.j2").write_text("<b>{{ who }}</b>")
    assert drawn() == "<b>&lt;you&gt;</b>"
    assert len(compilations) == 2


@pytest.mark.parametrize("damage", [b"", b"no such thing", None])
def test_what_is_damaged_is_made_anew(kept: Path, compilations: list[str], damage: bytes | None) -> None:
    drawn()
    (entry,) = kept.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert drawn() == "<p>Hello &lt;you&gt;</p>"
    assert len(compilations) == 2
    assert drawn() == "<p>Hello &lt;you&gt;</p>"
    assert len(compilations) == 2  # what was kept anew is taken


def test_pages_are_drawn_where_nothing_can_be_kept(
    kept: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.write_text("a file in the place of the folder")
    assert drawn() == drawn()
    kept.unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    drawn()
    assert len(compilations) == 3
    assert not kept.exists()
