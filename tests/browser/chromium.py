"""A page in headless Chromium, driven by a script put into it, read back as the DOM that it ends with."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
TIMEOUT_S = 120
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1280,900",
)  # fmt: skip
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
# The explorer unpacks its data first: a driver waits for its first box.
_DRIVER = """
<pre id="driver-result"></pre>
<script>
(() => {
  const say = (value) => { document.getElementById("driver-result").textContent = JSON.stringify(value); };
  const act = () => {
    try { say({ value: (() => { %s })() }); } catch (error) { say({ error: String(error.stack) }); }
  };
  const ready = () => document.querySelector(".explorer .box");
  if (ready()) { act(); return; }
  const watch = new MutationObserver(() => { if (ready()) { watch.disconnect(); act(); } });
  watch.observe(document.body, { childList: true, subtree: true });
})();
</script>
"""


@dataclass(frozen=True)
class Opened:
    """What became of a page: its DOM as text, and what it wrote to the console."""

    dom: str
    console: tuple[str, ...]


def open_page(html: str, *extra: str) -> Opened:
    """Load the page from a file of its own, without any network, and let it settle."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(html, encoding="utf-8")
        done = subprocess.run(
            [
                str(CHROMIUM),
                *_ARGUMENTS,
                *extra,
                f"--user-data-dir={folder}/profile",
                "--virtual-time-budget=10000",
                "--dump-dom",
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
    return Opened(done.stdout, tuple(line for line in done.stderr.splitlines() if "CONSOLE" in line))


def drive(html: str, script: str) -> Any:
    """Run the body of a function in the page once the explorer is there; what it returns comes back as JSON."""
    driven = _POLICY.sub("", html).replace("</body>", _DRIVER.replace("%s", script) + "</body>")
    opened = open_page(driven)
    found = re.search(r'<pre id="driver-result">(.*?)</pre>', opened.dom, re.S)
    assert found, "the driver did not run"
    assert found[1], f"the explorer did not start: {opened.console}"
    result = json.loads(unescape(found[1]))
    assert "error" not in result, result
    return result.get("value")
