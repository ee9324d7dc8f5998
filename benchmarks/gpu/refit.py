"""What a refit takes beside a build, and how much of a file is left without weights.

    python benchmarks/gpu/refit.py                          20 small models, the TensorRT that is installed
    python benchmarks/gpu/refit.py --only mlp --json a.json
    python benchmarks/gpu/refit.py --backend reference      the script itself, without a GPU

A row is a model: seconds of a fresh compilation with the new weights, in all and in the builder, and of a refit of the
loaded program to the same weights; how much the two differ, in parts of 1e-4 of the magnitude (``off``; 1 and less is
within); the bytes of the file with weights, and without.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import trtdiag
from tests.engine.refit_models import MODELS, refit_model

ALLOWED = 1e-4


def row(name: str, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One model: times, the difference, sizes."""
    old, sizes = refit_model(name, 1)
    new, _ = refit_model(name, 2)
    compiled = trtdiag.compile(old, inputs=[sizes], refittable=True, engine_weights="none", **options)
    begun = time.perf_counter()
    fresh = trtdiag.compile(new, inputs=[sizes], **options)
    compile_s = time.perf_counter() - begun
    x = torch.randn(sizes.opt, generator=torch.Generator().manual_seed(3))
    x = x.to(compiled.manifests[0].device)
    compiled(x)
    state = new.state_dict()
    begun = time.perf_counter()
    trtdiag.refit(compiled, state)
    refit_s = time.perf_counter() - begun
    given, expected = compiled(x).double(), fresh(x).double()
    off = float(((given - expected).abs() / (ALLOWED * expected.abs().max() + 1e-30)).max())
    trtdiag.save(compiled, folder / "without.pt2")
    trtdiag.save(fresh, folder / "with.pt2")
    bare, whole = ((folder / f"{each}.pt2").stat().st_size for each in ("without", "with"))
    found = {"model": name, "compile_s": compile_s, "build_s": fresh.build_s, "refit_s": refit_s, "off": off}
    return {**found, "bytes": whole, "bytes_without": bare}


def main() -> int:
    """Print the rows; exit code 1 where a refit is off, or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--level", type=int, default=None, help="the builder's optimization level")
    asked = parser.parse_args()
    options: dict[str, Any] = {"backend": asked.backend, "min_segment_ops": 0, "verify": False}
    if asked.level is not None:
        options["optimization_level"] = asked.level
    rows: list[dict[str, Any]] = []
    print(f"{'model':20}{'compile s':>11}{'build s':>9}{'refit s':>9}{'off':>7}{'bytes':>13}{'without':>9}")
    with TemporaryDirectory() as folder:
        for name in (name for name in MODELS if re.search(asked.only, name)):
            try:
                found = row(name, options, Path(folder))
            except trtdiag.TrtdiagError as error:
                print(f"{name:20}{error.message}: {error.because}", flush=True)
                rows.append({"model": name, "error": f"{error.message}: {error.because}"})
                continue
            rows.append(found)
            times = f"{found['compile_s']:11.3f}{found['build_s']:9.3f}{found['refit_s']:9.3f}{found['off']:7.2f}"
            share = found["bytes_without"] / found["bytes"]
            print(f"{name:20}{times}{found['bytes']:13,}{share:9.1%}", flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return int(any("error" in each or each["off"] > 1 for each in rows))


if __name__ == "__main__":
    sys.exit(main())
