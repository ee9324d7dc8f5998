"""Findings as text, as the expected files of the rules hold them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

import torch

from trtdiag.analysis.finding import Finding, Place

_FOLDERS = re.compile(r"(?<![\w/])/(?:[^\s/:'\"]+/)+")
_SYMBOL = re.compile(r"\b([su])\d+\b")


def rendered(findings: Iterable[Finding]) -> str:
    """One block per finding: id, severity, message, then evidence, fix and places.  Folders are taken off paths."""
    return _renumbered("\n\n".join("\n".join(_lines(finding)) for finding in findings) + "\n")


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
    """The text with paths reduced to file names and the running torch's version and schema left open."""
    for version in (torch.__version__, torch.__version__.partition("+")[0]):
        text = text.replace(version, "<torch>")
    return re.sub(r"running \d+\.\d+", "running <schema>", _FOLDERS.sub("", text))


def _renumbered(text: str) -> str:
    """Symbols numbered by first appearance: torch numbers them anew with every release."""
    order: dict[str, str] = {}
    return _SYMBOL.sub(lambda m: order.setdefault(m[0], f"{m[1]}{len(order)}"), text)
