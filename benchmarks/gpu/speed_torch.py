"""A process of ``benchmarks/gpu/speed.py`` for PyTorch itself: exports ONNX files, then times eager and inductor.

python speed_torch.py MODEL FOLDER eager,inductor [--tiny] [--no-onnx]
"""

from __future__ import annotations

import copy
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from speed_kernels import kernels_by_way
from speed_models import Case, case
from speed_stays import ZooCase
from speed_timing import Answers, Call, done_file, serve, told
from torch import nn

OPSET = 17
"""The newest that TensorRT 8.6's parser reads whole: it has LayerNormalization."""


class Spelled(nn.Module):
    """An InstanceNorm2d in single operators, for a parser that would take a plugin for it."""

    def __init__(self, norm: nn.InstanceNorm2d) -> None:
        super().__init__()
        self.eps = norm.eps
        self.weight, self.bias = (nn.Parameter(each.reshape(-1, 1, 1)) for each in (norm.weight, norm.bias))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean((2, 3), keepdim=True)
        variance = (centred * centred).mean((2, 3), keepdim=True)
        return centred / (variance + self.eps).sqrt() * self.weight + self.bias


def spelled(module: nn.Module) -> nn.Module | None:
    """The module with its instance norms spelled out; ``None`` where it has none."""
    made = copy.deepcopy(module)
    norms = [name for name, each in made.named_modules() if isinstance(each, nn.InstanceNorm2d)]
    for name in norms:
        made.set_submodule(name, Spelled(made.get_submodule(name)))  # type: ignore[arg-type]
    return made if norms else None


def export_onnx(found: Case | ZooCase, path: Path, *, dynamic: bool) -> float:
    """Write an ONNX file; seconds.  Beside it goes one with norms spelled out, where there are any."""
    plain = spelled(found.module)
    if plain is not None:
        export_onnx(replace(found, module=plain), path.with_suffix(".spelled.onnx"), dynamic=dynamic)
    begun = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    axes = {name: {axis: row[0] for axis, row in own.items()} for name, own in found.ranges.items()}
    torch.onnx.export(
        copy.deepcopy(found.module).to(device),
        tuple(arg.to(device) for arg in found.args),
        str(path),
        input_names=list(found.names),
        opset_version=OPSET,
        dynamic_axes=axes if dynamic else None,
        dynamo=False,
    )
    return time.perf_counter() - begun


def prepared(found: Case | ZooCase, wanted: list[str]) -> tuple[dict[str, Call], dict[str, Any]]:
    """Ways to run in float16 (float32 on a CPU), and what preparing them took, or why one cannot run."""
    cuda = torch.cuda.is_available()
    module = copy.deepcopy(found.module)
    args = found.args
    if cuda:
        module = module.half().cuda()
        args = tuple((arg.half() if arg.is_floating_point() else arg).cuda() for arg in args)
    compiled = torch.compile(module, mode="reduce-overhead")
    every: dict[str, Call] = {"eager": lambda: module(*args), "inductor": lambda: compiled(*args)}
    ways: dict[str, Call] = {}
    notes: dict[str, Any] = {}
    for name in wanted:
        try:
            begun = time.perf_counter()
            with torch.no_grad():
                for _ in range(3):
                    every[name]()
                notes[name] = {"build_s": round(time.perf_counter() - begun, 1)}
                if cuda:
                    notes[name]["peak_mib"] = _peak_mib(every[name])
            ways[name] = every[name]
        except Exception as error:  # a row of the table
            notes[name] = {"error": told(error)}
    return ways, notes


def _peak_mib(call: Call) -> float:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return round((torch.cuda.max_memory_allocated() - before) / 2**20, 1)


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    answers = Answers()
    found = case(name, "--tiny" in sys.argv)
    for dynamic in (False, True) if "--no-onnx" not in sys.argv else ():
        kind = "onnx dynamic" if dynamic else "onnx"
        try:
            seconds = export_onnx(found, folder / f"{name}-{kind}.onnx", dynamic=dynamic)
            answers.say(event="exported", what=kind, export_s=round(seconds, 1))
            done_file(folder, name, kind).write_text("", encoding="utf-8")
        except Exception as error:  # a row of the table
            done_file(folder, name, kind).write_text(told(error), encoding="utf-8")
    ways, notes = prepared(found, sys.argv[3].split(","))
    answers.say(
        event="ready",
        notes=notes,
        versions={"python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda},
    )
    serve(answers, ways)
    answers.say(event="kernels", kernels=kernels_by_way(ways))


if __name__ == "__main__":
    main()
