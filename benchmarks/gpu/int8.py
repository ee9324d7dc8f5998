"""INT8 beside FP16: the same models quantized and not, in one run, in turns.

    python benchmarks/gpu/int8.py --json int8.json
    python benchmarks/gpu/int8.py --only resnet50 zoo:smp_unet --batch 32 --cuda-graphs 8
    python benchmarks/gpu/int8.py --tiny --backend reference --rounds 2     # tries the script itself, on a CPU

``int8`` is the model quantized by ``tests/harness/symmetric_quantizer.py`` (calibrated on its example) or a quantized
program of a file (``--program NAME=FILE.pt2``, with its example inputs), compiled with ``precision="fp16"`` for what is
not quantized; ``fp16`` the model itself.  Times are medians of calls from the CUDA event before to the one after, in
milliseconds, both programs in turns.  Differences are of ``int8``, compiled, from the quantized program in float32 and
from the model in float32: root of the mean square by that of the reference, and the greatest by its greatest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from speed_models import case
from speed_timing import told
from torch.utils._pytree import tree_leaves

import trtdiag
from tests.harness.symmetric_quantizer import quantized

MODELS = ("resnet50", "vit", "bert", "unet")
Program = Callable[..., Any]


def programs_of(
    name: str, tiny: bool, device: str, file: Path | None, batch: int | None
) -> tuple[Any, Any, tuple[Any, ...]]:
    """The quantized program, the model (``None`` for a file) and the example, of ``batch`` rows where that is given."""
    if file is not None:
        given = torch.export.load(file)
        example = given.example_inputs
        assert example is not None, f"{file} has no example inputs"
        return given, None, tuple(arg.to(device) for arg in example[0])
    made = case(name, tiny)
    module, args = made.module.to(device), tuple(arg.to(device) for arg in made.args)
    if batch is not None:  # the example's rows over and over
        args = tuple(arg[torch.arange(batch, device=device) % len(arg)] for arg in args)
    return quantized(module, args), module, args


def difference(got: Any, wanted: Any) -> dict[str, float]:
    """Over all outputs that are floats, the worst of them."""
    worst = {"rms": 0.0, "greatest": 0.0}
    for one, other in zip(tree_leaves(got), tree_leaves(wanted), strict=True):
        left, right = one.double(), other.double()
        scale = float(right.square().mean().sqrt()) or 1.0
        worst["rms"] = max(worst["rms"], float((left - right).square().mean().sqrt()) / scale)
        worst["greatest"] = max(worst["greatest"], float((left - right).abs().max() / right.abs().max()))
    return {key: round(value, 5) for key, value in worst.items()}


def once(program: Program, args: tuple[Any, ...]) -> float:
    """Milliseconds of one call that is awaited."""
    if not torch.cuda.is_available():
        begun = time.perf_counter()
        program(*args)
        return (time.perf_counter() - begun) * 1e3
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    program(*args)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def measured(name: str, asked: argparse.Namespace, file: Path | None) -> dict[str, Any]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    how: dict[str, Any] = {"backend": asked.backend, "precision": "fp16", "verify": False}
    if asked.engine_cache is not None:
        how["engine_cache"] = asked.engine_cache
    if asked.backend == "reference":
        how["target"] = "8.6"
    else:
        how["cuda_graphs"] = asked.cuda_graphs
    few, module, args = programs_of(name, asked.tiny, device, file, asked.batch)
    row: dict[str, Any] = {"model": name, "sizes": [list(arg.shape) for arg in args]}
    with torch.no_grad():
        reference = few.module()(*args)
        begun = time.perf_counter()
        ways = {"int8": trtdiag.compile(few, profile_layers=asked.layers, **how)}
        row["build_s"] = {"int8": round(time.perf_counter() - begun, 1)}
        if module is not None:
            begun = time.perf_counter()
            ways["fp16"] = trtdiag.compile((module, args), **how)
            row["build_s"]["fp16"] = round(time.perf_counter() - begun, 1)
        row["engines"] = {way: engines_of(program) for way, program in ways.items()}
        if asked.layers:
            row["slowest"] = slowest(ways["int8"])
        row["from_quantized"] = difference(ways["int8"](*args), reference)
        if module is not None:
            plain = module(*args)
            row["from_model"] = {
                "quantized": difference(reference, plain),
                **{way: difference(program(*args), plain) for way, program in ways.items()},
            }
        for program in ways.values():
            for _ in range(min(20, asked.rounds)):
                program(*args)
        times: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(asked.rounds):
            for way in sorted(ways, reverse=bool(turn % 2)):
                times[way].append(once(ways[way], args))
    row["ms"] = {way: round(statistics.median(own), 4) for way, own in times.items()}
    if "fp16" in row["ms"]:
        row["ratio"] = round(row["ms"]["int8"] / row["ms"]["fp16"], 3)
    return row


def engines_of(program: Any) -> dict[str, Any]:
    """Of the engines of a program: how many, their bytes, and how many layers read how many bits."""
    facts = program.report.analysis.compilation
    layers = [layer for engine in facts.engines for layer in engine.built.layers]
    reads = Counter(" ".join(sorted({tensor.dtype for tensor in layer.inputs})) for layer in layers)
    size = sum(engine.engine_bytes for engine in facts.engines)
    return {"count": len(facts.engines), "bytes": size, "layers_by_inputs": dict(reads), "notes": list(facts.notes)}


def slowest(program: Any) -> list[list[Any]]:
    """The layers that take longest, with their times."""
    facts = program.report.analysis.compilation
    layers = [layer for engine in facts.engines for layer in engine.built.layers]
    layers.sort(key=lambda layer: -(layer.time_ms or 0.0))
    return [
        [layer.name[:120], layer.kind, [tensor.dtype for tensor in layer.inputs], layer.tactic[:80], layer.time_ms]
        for layer in layers[:20]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--only",
        nargs="*",
        default=list(MODELS),
        metavar="MODEL",
        help="of speed.py, zoo:NAME, tv:NAME, plain_unet",
    )
    parser.add_argument("--program", nargs="*", default=[], metavar="NAME=FILE", help="quantized programs of files")
    parser.add_argument("--batch", type=int, metavar="N", help="rows of each model; the example's if left out")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--layers", action="store_true", help="times of the layers of the int8 engines")
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--cuda-graphs", type=int, default=0)
    parser.add_argument("--engine-cache", metavar="DIR", help="engines of an earlier run are not built again")
    asked = parser.parse_args()
    files = dict(entry.split("=", 1) for entry in asked.program)
    rows: list[dict[str, Any]] = []
    for name in [*asked.only, *files]:
        try:
            rows.append(measured(name, asked, Path(files[name]) if name in files else None))
        except Exception as error:  # the other models are timed all the same
            rows.append({"model": name, "error": told(error)})
        print(json.dumps(rows[-1]), flush=True)
        if asked.json is not None:
            gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
            asked.json.write_text(json.dumps({"gpu": gpu, "torch": torch.__version__, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
