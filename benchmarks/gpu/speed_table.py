"""What ``benchmarks/gpu/speed.py`` found, as text."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BESIDE = "onnx"
"""The way that all are shown as multiples of."""


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
            worst = ", ".join(f"{value:.1e}" for value in row.get("worst", ()))
            built = row.get("build_s", "")
            lines.append(
                f"  {way:<30} {ms['median']:>8.3f} {spread:>17} {alone['median']:>8.3f} {ratio:>8} {built:>8}  {worst}"
            )
            if "error" in row:
                lines.append(f"  {'':<30} {row['error'][:160]}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(shown(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["models"]))
