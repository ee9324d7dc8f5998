"""The benchmark of both ways into the real builder, and its sums."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def _row(model: str, ours: str, onnx: str, in_pytorch: int = 0) -> dict[str, Any]:
    return {
        "model": model,
        "export": {"state": "exported"},
        "ours": {"state": ours, "in_pytorch": in_pytorch, "layers": 3, "bytes": 10, "build_s": 1.0, "build_cpu_s": 0.5},
        "onnx": {"state": onnx, "layers": 5, "bytes": 20, "build_s": 2.0, "build_cpu_s": 1.5},
    }


def test_sums_are_over_models_that_both_build_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    rows = [
        _row("a", "built", "built"),
        _row("b", "built", "not parsed: no such op"),
        _row("c", "built", "built", in_pytorch=1),
        {"model": "d", "export": {"state": "refused"}, "onnx": {"state": "not reached"}},
    ]
    assert import_module("real_builder_onnx").summary(rows) == {
        "models": 3,
        "ours": 2,
        "onnx": 2,
        "both": 1,
        "of_both": {
            "ours": {"layers": 3, "bytes": 10, "build_s": 1.0, "build_cpu_s": 0.5},
            "onnx": {"layers": 5, "bytes": 20, "build_s": 2.0, "build_cpu_s": 1.5},
        },
    }


@pytest.mark.slow
def test_a_model_is_built_both_ways(tmp_path: Path) -> None:
    for package in ("tensorrt_rtx", "onnx", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    path = tmp_path / "rows.json"
    command = [sys.executable, str(BENCHMARKS / "real_builder_onnx.py"), "--models", "tabular_mlp", "--json", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (row,) = json.loads(path.read_text("utf-8"))["rows"]
    assert (row["export"]["state"], row["ours"]["state"], row["onnx"]["state"]) == ("exported", "built", "built")
    assert row["ours"]["layers"] > 0
    assert row["onnx"]["layers"] > 0
