"""Findings as text, as the expected files of the rules hold them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

from trtdiag.analysis.finding import Finding, Place

_FOLDERS = re.compile(r"(?<![\w/])/(?:[^\s/:'\"]+/)+")


def rendered(findings: Iterable[Finding]) -> str:
    """One block per finding: id, severity, message, then evidence, fix and places.  Folders are taken off paths."""
    return "\n\n".join("\n".join(_lines(finding)) for finding in findings) + "\n"


def _lines(finding: Finding) -> list[str]:
    lines = [f"{finding.rule} {finding.severity.value}: {bare(finding.message)}"]
    lines += [f"  evidence: {bare(item.fact)}  [{bare(item.source)}]" for item in finding.evidence]
    if finding.fix is not None:
        lines.append(f"  fix ({finding.fix.applicability.value}): {bare(finding.fix.title)}")
        lines += [f"    | {line}" for line in finding.fix.code.splitlines()]
    lines += [f"  place: {_place(place)}" for place in finding.places]
    if finding.root is not None:
        lines.append(f"  because of: {finding.root}")
    return lines


def _place(place: Place) -> str:
    parts = [place.node, place.op, place.module_path]
    if place.frame is not None:
        parts.append(f"{PurePath(place.frame.file).name}:{place.frame.line}")
    return ", ".join(part for part in parts if part)


def bare(text: str) -> str:
    """The text with paths reduced to file names."""
    return _FOLDERS.sub("", text)
