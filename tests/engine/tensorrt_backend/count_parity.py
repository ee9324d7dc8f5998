"""Sizes that the data decide, on TensorRT beside PyTorch.

    python tests/engine/tensorrt_backend/count_parity.py --json counts.json --seconds 240

Needs a GPU and TensorRT; the backend ``reference`` (``--backend``) tries the script itself anywhere.  Every case is
told as it ends, and one that fails stops no other.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parents[2] / "network"))

from counting_networks import COLUMNS, NETWORKS, ROWS, inputs

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.profiles import network_profile
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.options import CompileOptions
from trtdiag.symbolic import Range, symbol
from trtdiag.targets import get_target

KINDS = ("none", "one", "half", "all")
# Sums of at most 31 terms in another order, in float32.
CLOSE = 1e-4
LARGE = (1021, 517)


def engine_of(network: Network, options: CompileOptions, opt: Mapping[str, int]) -> Callable[..., Any]:
    """The network as an engine of the options' backend; it takes and gives tensors on the CPU."""
    backend = get_backend(options.backend)
    engine = build_engine(backend, network, network_profile(network, opt), options, get_target(options.target))
    runner = backend.load(engine.blob, engine.manifest)

    def run(*given: torch.Tensor) -> list[torch.Tensor]:
        return [made.cpu() for made in runner([tensor.to(backend.device) for tensor in given])]

    return run


def network_points(name: str, options: CompileOptions) -> Iterator[str]:
    """What differs from PyTorch, point by point; an empty text where nothing does."""
    case = NETWORKS[name]
    run = engine_of(case.network(), options, {"s": 16})
    for rows in (1, 17, ROWS):
        for which in KINDS:
            x, mask = inputs(rows, which)
            yield from (f"{text} (rows {rows}, {which})" if text else "" for text in _off(run(x, mask), case, x, mask))


def _off(made: list[torch.Tensor], case: Any, x: torch.Tensor, mask: torch.Tensor) -> Iterator[str]:
    for index, (got, wanted) in enumerate(zip(made, case.expected(x, mask), strict=True)):
        if got.shape != wanted.shape or got.dtype is not wanted.dtype:
            yield f"output {index} is {got.dtype} {tuple(got.shape)}, not {wanted.dtype} {tuple(wanted.shape)}"
        elif not torch.allclose(got.double(), wanted.double(), rtol=CLOSE, atol=CLOSE, equal_nan=True):
            yield f"output {index} is off by {float((got.double() - wanted.double()).abs().max())}"
        else:
            yield ""


def large_points(name: str, options: CompileOptions) -> Iterator[str]:
    """The order of very many places: row by row."""
    rows, columns = symbol("a"), symbol("b")
    builder = NetworkBuilder({"a": Range(0, LARGE[0]), "b": Range(1, LARGE[1]), "n": Range(0, LARGE[0] * LARGE[1])})
    mask = builder.input("mask", DType.BOOL, (rows, columns))
    builder.output("places", builder.add_single(NonZero("n"), mask, origin=Origin("aten.nonzero.default", "nonzero")))
    run = engine_of(builder.build(), options, {"a": 500, "b": 300})
    for sizes in ((1, 1), LARGE, (0, 5), (997, 3)):
        drawn = torch.rand(sizes, generator=torch.Generator().manual_seed(3)) < 0.3
        (got,) = run(drawn)
        yield "" if torch.equal(got, drawn.nonzero().t().int()) else f"other places, or in another order, at {sizes}"


def seconds_of(name: str, options: CompileOptions) -> Iterator[str]:
    """Latency of one call beside PyTorch's, told in milliseconds; never a difference."""
    backend = get_backend(options.backend)
    case = NETWORKS["computed"]
    network = case.network()
    engine = build_engine(backend, network, network_profile(network, {"s": 16}), options, get_target(options.target))
    runner = backend.load(engine.blob, engine.manifest)
    x, mask = (tensor.to(backend.device) for tensor in inputs(ROWS, "half"))
    weight = (torch.arange(21.0).reshape(COLUMNS, 3) / 7).to(backend.device)

    def eager() -> Any:
        double = 2 * x[mask]
        return double, double @ weight

    for told, call in (("engine", lambda: runner([x, mask])), ("PyTorch", eager)):
        for _ in range(20):
            call()
        begun = time.perf_counter()
        for _ in range(200):
            call()
        if backend.device == "cuda":
            torch.cuda.synchronize()
        print(f"  {told}: {(time.perf_counter() - begun) * 5:.4f} ms a call")
    yield ""


def main() -> None:
    """Run all cases within the given time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--backend", default="tensorrt")
    given = parser.parse_args()
    target = get_target(None if given.backend == "tensorrt" else "8.6").version
    options = CompileOptions(target, given.backend, optimization_level=1)
    cases: dict[str, Callable[[str, CompileOptions], Iterator[str]]] = dict.fromkeys(NETWORKS, network_points)
    cases |= {"large": large_points, "latency": seconds_of}
    begun, results = time.perf_counter(), {}
    for name, points in cases.items():
        if time.perf_counter() - begun > given.seconds:
            results[name] = {"state": "not run", "told": ["no time left"]}
            print(name, results[name], flush=True)
            continue
        started = time.perf_counter()
        try:
            found = list(points(name, options))
            wrong = [text for text in found if text]
            results[name] = {"state": "wrong" if wrong else "right", "points": len(found), "told": wrong}
        except Exception as fault:  # told in full; the others go on
            traceback.print_exc()
            told = [str(fault), str(getattr(fault, "because", ""))]
            results[name] = {"state": type(fault).__name__, "told": told}
        results[name]["seconds"] = round(time.perf_counter() - started, 2)
        print(name, results[name], flush=True)
        given.json.write_text(json.dumps({"target": target, "cases": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
