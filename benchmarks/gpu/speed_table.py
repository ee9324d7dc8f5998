"""What ``benchmarks/gpu/speed.py`` found, as text.

python benchmarks/gpu/speed_table.py speed.json [--markdown|--clean]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

BESIDE = "onnx"
"""The way that all are shown as multiples of."""


def _worst(values: Sequence[float | str]) -> str:
    """Of each output how far it is off, or its shape."""
    return ", ".join(value if isinstance(value, str) else f"{value:.1e}" for value in values)


def shown(models: Mapping[str, Any]) -> str:
    """A table for each model: the way, milliseconds, and what they are of ``BESIDE``."""
    lines = []
    for name, model in models.items():
        ways: Mapping[str, Any] = model["ways"]
        base = ways.get(BESIDE, {}).get("ms", {}).get("median")
        lines.append(f"\n{name:<32} {'ms':>8} {'p10..p90':>17} {'alone':>8} {'to onnx':>8} {'build s':>8}  worst")
        for way in sorted(ways):
            row = ways[way]
            ms, alone = row.get("ms"), row.get("alone_ms")
            if ms is None:
                if "error" in row:
                    lines.append(f"  {way:<30} {row['error'][:160]}")
                continue
            ratio = f"{ms['median'] / base:.2f}x" if base else ""
            spread = f"{ms['p10']:.3f}..{ms['p90']:.3f}"
            worst = _worst(row.get("worst", ()))
            if "worst_pixels" in row:
                worst += f" (pixels {_worst(row['worst_pixels'])})"
            built = row.get("build_s", "")
            lines.append(
                f"  {way:<30} {ms['median']:>8.3f} {spread:>17} {alone['median']:>8.3f} {ratio:>8} {built:>8}  {worst}"
            )
            if "error" in row:
                lines.append(f"  {'':<30} {row['error'][:160]}")
    return "\n".join(lines)


COLUMNS = {
    "eager": ("eager",),
    "inductor": ("inductor",),
    "ONNX": ("onnx",),
    "trtdiag": ("ours static",),
    "ONNX, graph": ("onnx (graph)",),
    "trtdiag, graph": ("ours static (cuda_graphs)",),
    "ONNX, ranges": ("onnx dynamic",),
    "trtdiag, ranges": ("ours",),
    "trtdiag, ranges, graph": ("ours (cuda_graphs)",),
}
"""Of the table for a page: the ways of each, the first that was timed."""
BUILDS = {"ONNX": ("onnx",), "trtdiag": ("ours static", "ours")}


def markdown(models: Mapping[str, Any]) -> str:
    """A table for a page: milliseconds in a row, and seconds of building.  What was not timed is left out."""
    cells = {
        head: [_first(model["ways"], ways, lambda row: f"{row['ms']['median']:.2f}") for model in models.values()]
        for head, ways in COLUMNS.items()
    }
    builds = {
        f"build s, {head}": [_first(m["ways"], ways, lambda row: f"{row['build_s']:.0f}") for m in models.values()]
        for head, ways in BUILDS.items()
    }
    shown_columns = {head: column for head, column in {**cells, **builds}.items() if any(column)}
    lines = ["| model | " + " | ".join(shown_columns) + " |", "|---" * (len(shown_columns) + 1) + "|"]
    for index, name in enumerate(models):
        lines.append(f"| {name} | " + " | ".join(column[index] for column in shown_columns.values()) + " |")
    return "\n".join(lines)


def _first(ways: Mapping[str, Any], names: tuple[str, ...], cell: Callable[[Any], str]) -> str:
    timed = [ways[name] for name in names if "ms" in ways.get(name, {})]
    return cell(timed[0]) if timed else ""


def cleaned(run: dict[str, Any]) -> dict[str, Any]:
    """A run to keep: without folders of the machine, and what only helps while it runs."""
    machine = {key: value for key, value in run["machine"].items() if key != "other_python"}
    words = iter(machine["command"].split())
    kept = [word for word in words if not (word in ("--json", "--log", "--folder") and next(words))]
    for model in run["models"].values():
        model.pop("loading", None)
    return {"machine": {**machine, "command": " ".join(kept)}, "models": run["models"]}


if __name__ == "__main__":
    run = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if "--clean" in sys.argv:
        print(json.dumps(cleaned(run), indent=1))
    else:
        print(markdown(run["models"]) if "--markdown" in sys.argv else shown(run["models"]))
