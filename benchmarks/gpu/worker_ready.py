"""What a process does before its first case, so that its start takes none of the case's time."""

from __future__ import annotations

import json
import time
from typing import TextIO

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.profiles import network_profile
from trtdiag.network import DType, NetworkBuilder, Origin
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.options import CompileOptions
from trtdiag.symbolic import Num
from trtdiag.targets import get_target


def say_ready(out: TextIO, options: CompileOptions) -> None:
    """Build and load one small engine, which starts CUDA, and say so on a line of its own."""
    begun = time.perf_counter()
    origin = Origin("aten.relu.default", "ready")
    builder = NetworkBuilder({})
    (made,) = builder.add(
        Activation(ActivationType.RELU), builder.input("x", DType.FLOAT32, [Num(1), Num(3)]), origin=origin
    )
    builder.output("y", made)
    backend = get_backend(options.backend)
    network = builder.build()
    engine = build_engine(backend, network, network_profile(network, {}), options, get_target(options.target))
    backend.load(memoryview(engine.blob), engine.manifest)
    print(json.dumps({"ready": round(time.perf_counter() - begun, 2)}), file=out, flush=True)
