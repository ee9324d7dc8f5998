"""Places of findings as SARIF locations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from urllib.parse import quote

from trtdiag.report.comparison import Body
from trtdiag.report.strict_json import Json
from trtdiag.wording import utf8, visible

MOST_LOCATIONS = 100
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
    address: dict[str, Json] = {"artifactLocation": {"uri": file_uri(frame["file"], root)}}
    if frame["line"] >= 1:
        region: dict[str, Json] = {"startLine": frame["line"]}
        if frame["code"]:
            region["snippet"] = {"text": frame["code"]}
        address["region"] = region
    return address


def file_uri(file: str, root: PurePath) -> str:
    """A relative address under ``root``, a ``file:`` address elsewhere; every odd byte is percent-encoded."""
    if _WINDOWS.match(file):
        return "file:///" + quote(utf8(PureWindowsPath(file).as_posix()), safe="/:")
    path = PurePosixPath(file)
    if path.is_absolute():
        try:
            return quote(utf8(str(path.relative_to(PurePosixPath(root.as_posix())))))
        except ValueError:  # not under the root
            return "file://" + quote(utf8(str(path)))
    return quote(utf8(str(path)))
