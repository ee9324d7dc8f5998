"""What a refit takes beside a build, and how much of a file is left without weights.

    python benchmarks/gpu/refit.py                          20 small models, the TensorRT that is installed
    python benchmarks/gpu/refit.py --only mlp --json a.json
    python benchmarks/gpu/refit.py --large --level 1        ResNet-50, ViT, BERT, a U-Net, a GPT and a detector
    python benchmarks/gpu/refit.py --backend reference      the script itself, without a GPU

A row is a model: seconds of a fresh compilation with the new weights, in all and in the builder, and of a refit of the
loaded program to the same weights; how much the two differ, in parts of 1e-4 of the magnitude (``off``; 1 and less is
within); the bytes of the file with weights, and without.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from speed_models import MAKERS, case
from torch import Tensor, nn

import trtdiag
from tests.engine.refit_models import MODELS, refit_model

ALLOWED = 1e-4


def small(name: str) -> tuple[nn.Module, nn.Module, dict[str, Any], tuple[Tensor, ...]]:
    """Two models that differ in their weights, how they are exported, and an input."""
    old, sizes = refit_model(name, 1)
    new, _ = refit_model(name, 2)
    x = torch.randn(sizes.opt, generator=torch.Generator().manual_seed(3))
    return old, new, {"inputs": [sizes]}, (x,)


def large(name: str) -> tuple[nn.Module, nn.Module, dict[str, Any], tuple[Tensor, ...]]:
    """The same of a model of full size: the other weights are the first ones, each changed by some percent."""
    found = case(name)
    new, random = copy.deepcopy(found.module), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in new.parameters():
            weight.mul_(1 + 0.05 * torch.randn(weight.shape, generator=random))
    return found.module, new, {"dims": found.dims()}, found.args


def compiled_of(module: nn.Module, how: dict[str, Any], args: tuple[Tensor, ...], **options: Any) -> Any:
    """The model, compiled with its ranges."""
    if "inputs" in how:
        return trtdiag.compile(module, inputs=how["inputs"], **options)
    return trtdiag.compile((module, args, {}, how["dims"]), **options)


def row(name: str, made: Any, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One model: times, the difference, sizes."""
    old, new, how, args = made(name)
    compiled = compiled_of(old, how, args, refittable=True, engine_weights="none", **options)
    begun = time.perf_counter()
    fresh = compiled_of(new, how, args, **options)
    compile_s = time.perf_counter() - begun
    args = tuple(x.to(compiled.manifests[0].device) for x in args)
    compiled(*args)
    state = new.state_dict()
    begun = time.perf_counter()
    trtdiag.refit(compiled, state)
    refit_s = time.perf_counter() - begun
    off = 0.0
    for given, expected in zip(_several(compiled(*args)), _several(fresh(*args)), strict=True):
        given, expected = given.double(), expected.double()
        off = max(off, float(((given - expected).abs() / (ALLOWED * expected.abs().max() + 1e-30)).max()))
    trtdiag.save(compiled, folder / "without.pt2")
    trtdiag.save(fresh, folder / "with.pt2")
    bare, whole = ((folder / f"{each}.pt2").stat().st_size for each in ("without", "with"))
    found = {"model": name, "compile_s": compile_s, "build_s": fresh.build_s, "refit_s": refit_s, "off": off}
    return {**found, "bytes": whole, "bytes_without": bare}


def _several(outputs: Any) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def main() -> int:
    """Print the rows; exit code 1 where a refit is off, or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--large", action="store_true", help="models of full size")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--level", type=int, default=None, help="the builder's optimization level")
    asked = parser.parse_args()
    options: dict[str, Any] = {"backend": asked.backend, "min_segment_ops": 0, "verify": False}
    if asked.level is not None:
        options["optimization_level"] = asked.level
    rows: list[dict[str, Any]] = []
    print(f"{'model':20}{'compile s':>11}{'build s':>9}{'refit s':>9}{'off':>7}{'bytes':>13}{'without':>9}")
    with TemporaryDirectory() as folder:
        for name in (name for name in (MAKERS if asked.large else MODELS) if re.search(asked.only, name)):
            try:
                found = row(name, large if asked.large else small, options, Path(folder))
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
