"""The HTML page: one file that needs no network and lets nothing in it run but its own script."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from functools import lru_cache

from markupsafe import Markup

from trtdiag.report.page import Part
from trtdiag.report.templates import html_piece, templates_path

_PLAIN_PAYLOAD_CHARS = 16_384
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_AROUND = re.compile(r"\s*([{};,>])\s*")
_REMARK = re.compile(r"  // [^`\"']*$")
_STYLES = ("report.css", "graph.css")
_STYLES_OF_PARTS = {"compiled": "compiled.css", "comparison": "comparison.css"}
_START = ("start.js",)
_SCRIPTED_STYLE = ("scripted.css", "explorer.css")
_SCRIPTS = (
    "report.js",
    "elements.js",
    "charts.js",
    "strip.js",
    "geometry.js",
    "unpacking.js",
    "graph_data.js",
    "camera.js",
    "edge_shapes.js",
    "colouring.js",
    "boxes.js",
    "search.js",
    "source_pane.js",
    "panel.js",
    "full_screen.js",
    "address.js",
    "explorer.js",
)


def html_page(view: Part, machine_json: str, machine_sarif: str) -> str:
    """The report as one self-contained page.

    Args:
        view: All that it shows.
        machine_json: The JSON report, put into the page for download.
        machine_sarif: The same for SARIF.
    """
    sheets = (sheet for part, sheet in _STYLES_OF_PARTS.items() if view[part] is not None)
    assets = page_assets((*_STYLES, *sheets), _SCRIPTED_STYLE, _SCRIPTS)
    payload = "" if view["graph"] is None else view["graph"]["payload"]
    is_small = len(payload) <= _PLAIN_PAYLOAD_CHARS  # readable then, else packed
    return html_piece(
        "report.html.j2",
        view=view,
        **assets,
        payload=script_safe(payload) if is_small else packed(payload),
        is_small=is_small,
        # Together, for they say much the same; neither has line breaks.
        machine=packed(f"{machine_sarif}\n{machine_json}"),
    )


def page_assets(styles: tuple[str, ...], scripted: tuple[str, ...], scripts: tuple[str, ...]) -> dict[str, str]:
    """What a page brings with it: ``style``, ``start`` and ``program``, and the ``policy`` that lets just these in.

    Args:
        styles: Style sheets among the templates.
        scripted: Those of what the script makes.
        scripts: The parts of its script.
    """
    style, start = _asset(styles), _asset(_START)
    program_hash, program = _program(scripted, scripts)
    # Hashes, not 'unsafe-inline': a script that got into the page past the escaping would still not run.
    policy = (
        f"default-src 'none'; script-src '{_hash(start)}' '{program_hash}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return {"style": Markup(style), "start": Markup(start), "program": program, "policy": policy}


def script_safe(json_text: str) -> Markup:
    """JSON that cannot end the script element it stands in: ``</`` and ``<!--`` are escaped inside its strings."""
    return Markup(json_text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def packed(text: str) -> Markup:
    """The text as base 85 of gzip, the same bytes for the same text; no ``<`` is among its digits."""
    digits = base64.b85encode(gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0)).decode("ascii")
    return Markup(digits.replace("<", ","))


@lru_cache(maxsize=2)
def _program(styles: tuple[str, ...], scripts: tuple[str, ...]) -> tuple[str, Markup]:
    """The script of every page of a kind: its hash and itself, packed."""
    # Nothing but the script draws what these styles are for: they are packed with it.
    script = f"const SCRIPTED_STYLE = {json.dumps(_asset(styles))};\n{_asset(scripts)}"
    return _hash(script), packed(script)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@lru_cache(maxsize=8)
def _asset(names: tuple[str, ...]) -> str:
    """The files as one, without indentation and comments: a third of their size."""
    lines = (line.strip() for name in names for line in (templates_path() / name).read_text("utf-8").split("\n"))
    text = "\n".join(_REMARK.sub("", line) for line in lines if line and not line.startswith("//"))
    return _tight(text) if names[0].endswith(".css") else text


def _tight(style: str) -> str:
    """A style sheet without comments and the spaces beside its marks; no string in ours holds such a mark."""
    tight = _AROUND.sub(r"\1", _COMMENT.sub("", style))
    return re.sub(r"(?<=[a-z0-9-]): ", ":", tight).replace(";}", "}").strip()
