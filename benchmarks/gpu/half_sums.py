"""In which precision TensorRT sums products of float16: one is 2048, the others 1/32, so the sum tells.

    python benchmarks/gpu/half_sums.py

A sum in float32 gives 2048 and the others' sum.  One in float16 loses those that are added after the 2048, where the
next number is 2050, 16 at a time as tensor cores do included.  Where the 2048 stands decides how many these are.
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
from trtdiag.network.layers.softmax import SoftMax
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target

_PLAIN = ((1, 1), (0, 0), (0, 0), (1, 1))


def network(kind: str, terms: int) -> tuple[Network, tuple[int, ...]]:
    """A network that sums ``terms`` products of 1, and the shape of its input."""
    builder = NetworkBuilder()
    shape = {"convolution": (1, terms // 16, 8, 8), "matmul": (8, terms), "reduce": (8, terms), "softmax": (8, terms)}[
        kind
    ]
    x = builder.input("x", DType.FLOAT16, shape)
    if kind == "convolution":
        weights = builder.constant(torch.ones(8, terms // 16, 4, 4, dtype=torch.float16))
        y = builder.add_single(Convolution(*_PLAIN), x, weights)
    elif kind == "matmul":
        y = builder.add_single(MatrixMultiply(), x, builder.constant(torch.ones(terms, 8, dtype=torch.float16)))
    elif kind == "softmax":
        y = builder.add_single(SoftMax(1), x)
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
    for kind in ("convolution", "matmul", "reduce", "softmax"):
        for terms in (512, 2048, 4096, 16384):
            made, shape = network(kind, terms)
            found = {}
            try:
                engine = build_engine(backend, made, network_profile(made, {}), options, get_target(asked.target))
                runner = backend.load(memoryview(engine.blob), engine.manifest)
                if kind == "softmax":
                    (y,) = runner([torch.zeros(shape, dtype=torch.float16, device=backend.device)])
                    found["of 1"] = f"{float(y.float().min()) * terms:g} to {float(y.float().max()) * terms:g}"
                    continue
                for place in ("first", "middle", "last"):
                    x = torch.full(shape, 1 / 32, dtype=torch.float16, device=backend.device)
                    at = {"first": 0, "middle": shape[1] // 2, "last": shape[1] - 1}[place]
                    x[:, at] = 2048 / (16 if kind == "convolution" else 1)
                    (y,) = runner([x])
                    wanted = float(x[0].double().sum() / (4 if kind == "convolution" else 1))
                    found[place] = f"{float(y.min()):g} to {float(y.max()):g}, in float32 {wanted:g}"
            except EngineBuildError as error:
                found["refused"] = str(error)[:300]
            finally:
                print(json.dumps({"kind": kind, "terms": terms, **found}), flush=True)


if __name__ == "__main__":
    main()
