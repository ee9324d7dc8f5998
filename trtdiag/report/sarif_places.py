"""Places of findings as SARIF locations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from urllib.parse import quote

from trtdiag.analysis.finding import Place
from trtdiag.graph.source import Frame
from trtdiag.report.strict_json import Json
from trtdiag.report.text import utf8, visible

MOST_LOCATIONS = 100
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]")


def location(place: Place, root: Path) -> dict[str, Json] | None:
    """The place as a SARIF location; ``None`` where nothing is known of it."""
    found: dict[str, Json] = {}
    if place.frame is not None and not place.frame.file.startswith("<"):
        found["physicalLocation"] = _physical(place.frame, root)
    name = ".".join(part for part in (place.module_path,) if part)
    if place.node:
        name = f"{name}/{place.node}" if name else place.node
    if name:
        logical: dict[str, Json] = {"fullyQualifiedName": name, "kind": "member" if place.node else "module"}
        if place.op:
            logical["decoratedName"] = place.op
        found["logicalLocations"] = [logical]
    return found or None


def related_locations(places: Sequence[Place], root: Path) -> list[Json]:
    """The other places of a finding, each place once, with the one of the result not more than a host shows."""
    related: list[Json] = []
    seen: set[Place] = set()
    for place in places:
        if len(related) == MOST_LOCATIONS - 1:
            break
        found = None if place in seen else location(place, root)
        seen.add(place)
        if found is not None:
            text = " ".join(visible(part) for part in ("also", place.op, place.node) if part)
            related.append({"id": len(related) + 1, **found, "message": {"text": text}})
    return related


def _physical(frame: Frame, root: Path) -> Json:
    address: dict[str, Json] = {"artifactLocation": {"uri": file_uri(frame.file, root)}}
    if frame.line >= 1:
        region: dict[str, Json] = {"startLine": frame.line}
        if frame.code:
            region["snippet"] = {"text": frame.code}
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
