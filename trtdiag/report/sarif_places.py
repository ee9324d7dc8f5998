"""Places of findings as SARIF locations."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from urllib.parse import quote

from trtdiag.report.comparison import Body
from trtdiag.report.shown_paths import file_address
from trtdiag.report.strict_json import Json
from trtdiag.wording import utf8, visible

MOST_LOCATIONS = 100
HOME = "HOME"
"""Of what addresses in the home folder are relative to; where that is, nobody else needs to know."""
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]")


def location(place: Body, root: Path) -> dict[str, Json] | None:
    """The place as a SARIF location; ``None`` where nothing is known of it."""
    found: dict[str, Json] = {}
    node, module, source = place["node"], place["module_path"], place["source"]
    if source is not None and not source["file"].startswith("<"):
        found["physicalLocation"] = _physical(source, root)
    if name := "/".join(part for part in (module, node) if part):
        logical: dict[str, Json] = {"fullyQualifiedName": name, "kind": "member" if node else "module"}
        if place["op"]:
            logical["decoratedName"] = place["op"]
        found["logicalLocations"] = [logical]
    return found or None


def related_locations(places: Sequence[Body], root: Path) -> list[Json]:
    """The other places of a finding, each place once, with the one of the result not more than a host shows."""
    related: list[Json] = []
    for place in {str(place): place for place in places}.values():
        if len(related) == MOST_LOCATIONS - 1:
            break
        found = location(place, root)
        if found is not None:
            text = " ".join(visible(part) for part in ("also", place["op"], place["node"]) if part)
            related.append({"id": len(related) + 1, **found, "message": {"text": text}})
    return related


def _physical(frame: Body, root: Path) -> Json:
    address: dict[str, Json] = {"artifactLocation": artifact(frame["file"], root)}
    if frame["line"] >= 1:
        region: dict[str, Json] = {"startLine": frame["line"]}
        if frame["code"]:
            region["snippet"] = {"text": frame["code"]}
        address["region"] = region
    return address


def artifact(file: str, root: PurePath) -> dict[str, Json]:
    """The address of a file: relative under ``root`` or to the home folder, a ``file:`` address elsewhere.

    Every odd byte is percent-encoded.

    Args:
        file: Whole, or as ``file_address`` names it.
        root: The repository's folder.
    """
    if PurePosixPath(file).is_relative_to(root):
        return {"uri": quote(utf8(str(PurePosixPath(file).relative_to(root))))}
    shown = file_address(file)
    if _WINDOWS.match(shown) or shown.startswith("~\\"):
        plain = PureWindowsPath(shown).as_posix()
        return _in_home(plain) if plain.startswith("~/") else {"uri": "file:///" + quote(utf8(plain), safe="/:")}
    whole = PurePosixPath(os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(shown))))
    if whole.is_relative_to(root):
        return {"uri": quote(utf8(str(whole.relative_to(root))))}
    own = str(whole).replace(os.path.expanduser("~") + "/", "~/", 1) if shown.startswith("../") else shown
    if own.startswith("~/"):
        return _in_home(own)
    return {"uri": f"file://{quote(utf8(own))}" if own.startswith("/") else quote(utf8(own))}


def _in_home(shown: str) -> dict[str, Json]:
    return {"uri": quote(utf8(shown[2:])), "uriBaseId": HOME}


def bases(results: Sequence[Json]) -> dict[str, Json]:
    """What addresses in the results are relative to, without where it is."""
    if f'"uriBaseId": "{HOME}"' not in json.dumps(results):
        return {}
    return {"originalUriBaseIds": {HOME: {"description": {"text": "the home folder of who exported the program"}}}}


def repository_root() -> Path:
    """The folder that code hosts name files from: ``$GITHUB_WORKSPACE``, the repository's, or the working directory."""
    here = Path.cwd()
    named = os.environ.get("GITHUB_WORKSPACE")
    if named and here.is_relative_to(Path(named).resolve()):
        return Path(named).resolve()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
