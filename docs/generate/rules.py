"""A page for each rule, the text of ``trtdiag explain``, and their list."""

from __future__ import annotations

from typing import Any

from words import fenced, in_cell, plain

from trtdiag.analysis.registry import rules

_FAMILIES = {
    "ART": "programs of another torch version, exports that failed",
    "BLD": "what the real builder refuses, where `--try-build` asked it",
    "GRD": "guards and sizes: broken ranges, sizes that must be equal, branches on a size, contradictions",
    "MET": "metadata that is missing or stale, ops without a source line",
    "OPS": "ops that stay in PyTorch: no converter, over a limit, sizes from data, writes in place, random",
    "PRT": "the split: many or small engines, heavy boundaries, what an op costs, quantized ops outside of engines",
    "SYM": "symbols: unbounded, pinned to a constant, without a range; volume and memory at the maximum",
    "TYP": "int64, float64, dtypes without a counterpart, quantizers that win nothing",
}


def navigation() -> list[Any]:
    """The list of rules and their pages."""
    return ["reference/rules/index.md", *({entry.id: f"reference/rules/{entry.id}.md"} for entry in rules())]


def pages() -> dict[str, str]:
    """The pages by their place."""
    found = {"reference/rules/index.md": _index()}
    for entry in rules():
        lines = [f"# {entry.id} {entry.name}", "", f"*{entry.severity.value}*", "", plain(entry.title), ""]
        for heading, text in entry.page.sections:
            lines += [f"## {heading}", "", fenced(text) if heading == "Example" else plain(text), ""]
        found[f"reference/rules/{entry.id}.md"] = "\n".join(lines)
    return found


def _index() -> str:
    lines = ["# Rules", "", "Every finding has a rule. `trtdiag explain GRD301` prints the same page.", ""]
    lines += ["| family | about |", "|---|---|"]
    known = sorted({entry.id[:3] for entry in rules()})
    lines += [f"| {family} | {_FAMILIES[family]} |" for family in known]
    lines += ["", "| id | name | severity | finds |", "|---|---|---|---|"]
    for entry in rules():
        lines.append(
            f"| [{entry.id}]({entry.id}.md) | {entry.name} | {entry.severity.value} | {in_cell(entry.title)} |"
        )
    return "\n".join(lines) + "\n"
