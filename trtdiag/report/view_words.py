"""Strings of the page that decide how something looks: each is one of a few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class OneOf:
    """Marks a string of a view as one of these words, for whoever reads a view from JSON."""

    words: tuple[str, ...]


Status = Annotated[str, OneOf(("error", "warning", "incomplete", "partial", "clean"))]
StageState = Annotated[str, OneOf(("ok", "failed", "not run"))]
SeverityWord = Annotated[str, OneOf(("error", "warning", "info"))]
ApplicabilityWord = Annotated[str, OneOf(("safe", "unsafe", "manual"))]
SizeState = Annotated[str, OneOf(("ok", "breaks", "pinned", "unbounded", "static"))]
GuardVerdict = Annotated[str, OneOf(("holds", "breaks", "unknown"))]
ColumnKind = Annotated[str, OneOf(("number", "code", ""))]
PointState = Annotated[str, OneOf(("agrees", "unstable", "differs", "failed", "skipped"))]
Agreement = Annotated[str, OneOf(("agrees", "differs", "unknown"))]
RunsIn = Annotated[str, OneOf(("engine", "torch"))]
ChangeState = Annotated[str, OneOf(("new", "fixed", "unchanged"))]
