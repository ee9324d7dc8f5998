"""Pages in the system's Chromium, driven by Playwright: one browser for each test process, one tab for what is alike.

A tab begins with a process, which takes as long as ten pages.  Nothing outside the page can be reached (the tab is
offline), and each page comes from a file, as a user opens it.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

try:
    from playwright import sync_api as playwright
except ImportError:  # the system may have a browser and not what drives it
    playwright = None

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
WINDOW = {"width": 1280, "height": 900}
SCREENS = [
    pytest.param(scheme, width, marks=() if (scheme, width) in {("light", 390), ("dark", 1920)} else pytest.mark.slow)
    for scheme in ("light", "dark")
    for width in (390, 1280, 1920)
]
"""Colour schemes and widths; the quick tests take each scheme, and the narrowest and the widest."""
_WHY_NOT = (
    "no Chromium or Chrome is installed on this machine"
    if CHROMIUM is None
    else "playwright is not installed"
    if playwright is None
    else ""
)
needs_browser = pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)


@dataclass
class Seen:
    """What a page did while it was open: its warnings and errors, and what it asked the network for."""

    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Opened:
    """What became of a page: its DOM as text, what it wrote to the console, what it requested."""

    dom: str
    console: tuple[str, ...]
    requests: tuple[str, ...]


@lru_cache(maxsize=1)
def _browser() -> Any:
    started = playwright.sync_playwright().start()
    browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
    atexit.register(started.stop)
    return browser


@contextmanager
def page_of(html: str, fragment: str = "", fresh: bool = False, **context: Any) -> Iterator[tuple[Any, Seen]]:
    """The page, open and with its explorer drawn (where it has one and may run it), and what it does.

    Args:
        html: The page.
        fragment: What the address ends with (``#GRD301-1``).
        fresh: In a tab that nothing was shown in before, as times are taken.
        context: Of the browser: ``viewport``, ``color_scheme``, ``java_script_enabled``, ``permissions``.
    """
    seen = Seen()
    viewport, scheme = context.pop("viewport", WINDOW), context.pop("color_scheme", "light")
    key = repr(sorted(context.items()))
    page = None if fresh else _tabs.pop(key, None)
    if page is None:
        page = _browser().new_context(offline=True, **context).new_page()
    page.set_viewport_size(viewport)
    page.emulate_media(color_scheme=scheme, media="null")
    heard = {
        "console": lambda said: seen.console.append(said.text) if said.type in _FAULTS else None,
        "pageerror": lambda error: seen.console.append(str(error)),
        "request": lambda request: seen.requests.append(request.url),
    }
    for event, hear in heard.items():
        page.on(event, hear)
    done = False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(html, encoding="utf-8")
        try:
            page.goto(path.as_uri() + fragment)
            if 'id="explorer"' in html and "srcdoc=" not in html and context.get("java_script_enabled", True):
                page.wait_for_selector(".explorer .box", state="attached", timeout=20_000)
            yield page, seen
            done = True
        finally:
            for event, hear in heard.items():
                page.remove_listener(event, hear)
            if done and not fresh and key not in _tabs:
                page.mouse.move(0, 0)  # what it lies over looks otherwise
                page.goto("about:blank")
                _tabs[key] = page
            else:  # one that failed may be in any state
                page.context.close()


_tabs: dict[str, Any] = {}
"""Open, with nothing in them, by what of a context stays as it was made."""
_FAULTS = ("error", "warning", "assert")


def open_page(html: str) -> Opened:
    """Load the page, and let it settle."""
    with page_of(html) as (page, seen):
        dom = page.content()
    return Opened(dom, tuple(seen.console), tuple(seen.requests))


def drive(html: str, script: str) -> Any:
    """Run the body of an async function in the page once the explorer is there; gives what it returns."""
    with page_of(html) as (page, _):
        return page.evaluate(f"async () => {{ {script} }}")
