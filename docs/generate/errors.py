"""The tree of errors, and every reference that one may carry, read from the sources."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from words import cells, in_cell, table

from trtdiag import errors as tree
from trtdiag.frontend.archive.errors import FAILURES


def pages(root: Path) -> dict[str, str]:
    """The page by its place."""
    lines = [
        "# Errors",
        "",
        "Every error says what happened, because of what, and what to do: `message`, `because`, `fix`. Its "
        "`reference` stays over versions. All are names of `trtdiag`. What is wrong with a model is a finding, not an "
        "error.",
        "",
        "| error | exit code | |",
        "|---|---|---|",
    ]
    for kind, depth in _below(tree.TrtdiagError, 0):
        doc = inspect.getdoc(kind) or ""
        lines.append(
            f"| {'&emsp;' * depth}`{kind.__name__}` | {kind.exit_code} | {in_cell(doc.partition(chr(10))[0])} |"
        )
    rows = [cells(f"`{name}`", ", ".join(sorted(kinds))) for name, kinds in sorted(_references(root).items())]
    lines += ["", "## References", "", table(("reference", "raised as"), rows)]
    return {"reference/errors.md": "\n".join(lines) + "\n"}


def _below(kind: type[tree.TrtdiagError], depth: int) -> Iterator[tuple[type[tree.TrtdiagError], int]]:
    yield kind, depth
    for each in kind.__subclasses__():
        yield from _below(each, depth + 1)


def _references(root: Path) -> dict[str, set[str]]:
    """The errors of each reference that a call in the sources spells out, or the table of files that cannot be read."""
    found: dict[str, set[str]] = {reference: {"CaptureError"} for reference in FAILURES}
    for path in sorted((root / "trtdiag").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "reference=" in text else ():  # all files take seconds
            if isinstance(node, ast.Call):
                kind = node.func.id if isinstance(node.func, ast.Name) else ""
                for keyword in node.keywords:
                    if keyword.arg == "reference" and isinstance(keyword.value, ast.Constant):
                        kinds = found.setdefault(str(keyword.value.value), set())
                        if hasattr(tree, kind):
                            kinds.add(kind)
    return found
