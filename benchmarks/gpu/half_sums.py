"""In which precision TensorRT sums products of float16: all products are 1, so the sum tells.

    python benchmarks/gpu/half_sums.py

A sum in float32 gives the number of terms.  One in float16 stops growing at 2048, where the next number is 2050.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.profiles import network_profile
from trtdiag.errors import EngineBuildError
from trtdiag.network import DType, Network, NetworkBuilder
from trtdiag.network.layers.convolution import Convolution
from trtdiag.network.layers.matmul import MatrixMultiply
from trtdiag.network.layers.reduce import Reduce, ReduceOperation
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target

_PLAIN = ((1, 1), (0, 0), (0, 0), (1, 1))


def network(kind: str, terms: int) -> tuple[Network, tuple[int, ...]]:
    """A network that sums ``terms`` products of 1, and the shape of its input."""
    builder = NetworkBuilder()
    shape = {"convolution": (1, terms // 16, 8, 8), "matmul": (8, terms), "reduce": (8, terms)}[kind]
    x = builder.input("x", DType.FLOAT16, shape)
    if kind == "convolution":
        weights = builder.constant(torch.ones(8, terms // 16, 4, 4, dtype=torch.float16))
        y = builder.add_single(Convolution(*_PLAIN), x, weights)
    elif kind == "matmul":
        y = builder.add_single(MatrixMultiply(), x, builder.constant(torch.ones(terms, 8, dtype=torch.float16)))
    else:
        y = builder.add_single(Reduce(ReduceOperation.SUM, (1,)), x)
    builder.output("y", y)
    return builder.build(), shape


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--target", default=get_target(None).version)
    asked = parser.parse_args()
    backend, options = get_backend(asked.backend), CompileOptions(asked.target, asked.backend)
    for kind in ("convolution", "matmul", "reduce"):
        for terms in (512, 2048, 4096, 16384):
            made, shape = network(kind, terms)
            try:
                engine = build_engine(backend, made, network_profile(made, {}), options, get_target(asked.target))
                (y,) = backend.load(engine.blob, engine.manifest)(
                    [torch.ones(shape, dtype=torch.float16, device=backend.device)]
                )
                found = f"{float(y.min()):g} to {float(y.max()):g}"
            except EngineBuildError as error:
                found = str(error)[:300]
            print(json.dumps({"kind": kind, "terms": terms, "sum": found}), flush=True)


if __name__ == "__main__":
    main()
