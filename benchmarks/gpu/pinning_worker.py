"""A process of ``benchmarks/gpu/pinning.py``: builds the keys that it reads, each a network under a policy."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pinned_networks as networks
import torch
from gpu_parity import Parity, _compare, _drawn
from worker_ready import say_ready

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.config import new_config
from trtdiag.engine.tensorrt.emission import Emission
from trtdiag.errors import EngineBuildError
from trtdiag.network import DType, run
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target

_MOVES = ("Shuffle", "Slice", "Concatenation", "Gather", "Identity", "Select", "Squeeze", "Unsqueeze")
_PIN, _ADOPT, _BUILD = Dialect.pin, Emission.adopt, building.build_network
_SAID: list[str] = []
"""TensorRT's warnings and errors of one build."""


class _Ear(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _SAID.append(record.getMessage()[:300])


Pin = Callable[[Dialect, Any, Any, Any], None]


def _nothing(dialect: Dialect, layer: Any, compute: DType | None, outputs: tuple[DType, ...]) -> None:
    del dialect, layer, compute, outputs


def _islands(dialect: Dialect, layer: Any, compute: DType | None, outputs: tuple[DType, ...]) -> None:
    """Only what computes in float32."""
    if compute is DType.FLOAT32:
        _PIN(dialect, layer, compute, outputs)


def _halves(dialect: Dialect, layer: Any, compute: DType | None, outputs: tuple[DType, ...]) -> None:
    """Only what computes in float16."""
    if compute is DType.FLOAT16:
        _PIN(dialect, layer, compute, outputs)


def _no_outputs(dialect: Dialect, layer: Any, compute: DType | None, outputs: tuple[DType, ...]) -> None:
    _PIN(dialect, layer, compute, ())


def _no_precision(dialect: Dialect, layer: Any, compute: DType | None, outputs: tuple[DType, ...]) -> None:
    _PIN(dialect, layer, None, outputs)


def _no_moves(dialect: Dialect, layer: Any, compute: DType | None, outputs: tuple[DType, ...]) -> None:
    """Not what only moves elements."""
    if layer.name.split("/")[-1].split("#")[0] not in _MOVES:
        _PIN(dialect, layer, compute, outputs)


OBEY, PREFER, FREE = "OBEY_PRECISION_CONSTRAINTS", "PREFER_PRECISION_CONSTRAINTS", None
# How layers are pinned, what is asked of the builder, what the network is made into.
POLICIES: dict[str, tuple[Pin, str | None, Callable[..., Any] | None]] = {
    "obey": (_PIN, OBEY, None),
    "prefer": (_PIN, PREFER, None),
    "free": (_nothing, FREE, None),
    "islands": (_islands, OBEY, None),
    "islands_prefer": (_islands, PREFER, None),
    "halves": (_halves, OBEY, None),
    "no_outputs": (_no_outputs, OBEY, None),
    "no_precision": (_no_precision, OBEY, None),
    "no_moves": (_no_moves, OBEY, None),
    "casts": (_PIN, OBEY, None),
    "constants": (_PIN, OBEY, None),
    "calm": (_PIN, OBEY, networks.calm_half),
    "calm_prefer": (_PIN, PREFER, networks.calm_half),
    "calm_islands": (_islands, OBEY, networks.calm_half),
    "calm_free": (_nothing, FREE, networks.calm_half),
    "half": (_PIN, OBEY, networks.all_half),
    "half_free": (_nothing, FREE, networks.all_half),
    "half_prefer": (_PIN, PREFER, networks.all_half),
    "product": (_PIN, OBEY, None),
}
"""``product`` builds as the backend does: it lets layers go where TensorRT has no kernel; the others do not."""


def policy_of(name: str) -> Callable[..., Any] | None:
    """Make the backend build under a policy; what the network is to be made into."""
    pin, flag, change = POLICIES[name]
    Dialect.pin = pin  # type: ignore[method-assign,assignment]

    def configured(dialect: Dialect, builder: Any, options: CompileOptions, *, half: bool = False, **more: Any) -> Any:
        # All policies but the product's hold every layer or none.
        config = new_config(dialect, builder, options, half=half, **{**more, "held": half})
        if half and flag != OBEY and not dialect.strongly_typed:
            config.clear_flag(dialect.trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
            if flag is not None:
                config.set_flag(getattr(dialect.trt.BuilderFlag, flag))
        return config

    def adopt(self: Emission, placed: Any, made: Any, kind: str, pin: Any) -> Any:
        outputs = _ADOPT(self, placed, made, kind, pin)
        dtype = self.network.tensors[placed.outputs[0]].dtype if placed.outputs else None
        wanted = {"casts": "Cast", "constants": "Constant"}.get(name)
        wants = placed.layer.kind == wanted == kind
        if wants and self.pinned and dtype is not None and dtype.is_float:
            _PIN(self.dialect, made, dtype, (dtype,))
        return outputs

    def plainly(dialect: Dialect, builder: Any, config: Any, emission: Emission, *rest: Any) -> Any:
        del dialect, rest
        return builder.build_serialized_network(emission.definition, config)

    building.build_network = _BUILD if name == "product" else plainly  # type: ignore[attr-defined]
    building.new_config = configured  # type: ignore[attr-defined]
    Emission.adopt = adopt  # type: ignore[method-assign]
    return change


def done(key: str, options: CompileOptions, folder: Path) -> dict[str, Any]:
    """One row; the engine is kept, to be timed when nothing else runs."""
    name, policy = key.split(":")
    network, profile = networks.network_of(name)
    change = policy_of(policy)
    typed = network if change is None else change(network)
    _SAID.clear()
    row: dict[str, Any] = {"casts": sum(placed.layer.kind == "Cast" for placed in typed.layers)}
    backend = get_backend(options.backend)
    begun = time.perf_counter()
    try:
        engine = build_engine(backend, typed, profile, options, get_target(options.target))
    except EngineBuildError as error:
        row["said"] = list(dict.fromkeys(_SAID))[:12]
        return {**row, "state": "refused", "build_s": time.perf_counter() - begun, "note": str(error)[:1200]}
    row["said"] = list(dict.fromkeys(_SAID))[:12]
    row["build_s"] = time.perf_counter() - begun
    parity = Parity(half=True, build_s=row["build_s"])
    runner = backend.load(memoryview(engine.blob), engine.manifest)
    for given in _drawn(network, profile):
        expected = run(network, given)
        on_gpu = [
            tensor if port.is_size else tensor.to(backend.device)
            for tensor, port in zip(given, engine.manifest.inputs, strict=True)
        ]
        for index, (actual, wanted) in enumerate(zip(runner(on_gpu), expected, strict=True)):
            _compare(parity, index, actual.cpu(), wanted)
        parity.points += 1
    torch.save((engine.blob, engine.manifest, given), folder / f"{name}.{policy}")
    state = "ok" if parity.agrees else "differs"
    return {**row, "state": state, "worst": parity.worst, "wrong": parity.wrong, "note": "; ".join(parity.notes[:2])}


def answer(options: CompileOptions, folder: Path) -> None:
    """A row for each key that comes in."""
    out = sys.stdout
    sys.stdout = sys.stderr
    say_ready(out, options)
    for line in sys.stdin:
        key = line.strip()
        print(json.dumps({"begin": key}), file=out, flush=True)
        try:
            row = done(key, options, folder)
        except Exception as error:  # one case must not end the others
            where = traceback.format_exc().strip().splitlines()[-5:]
            row = {"state": "error", "note": f"{type(error).__name__}: {error}"[:600], "where": where}
        print(json.dumps({"key": key, **row}), file=out, flush=True)


if __name__ == "__main__":
    heard = logging.getLogger("trtdiag.tensorrt")
    heard.addHandler(_Ear(logging.WARNING))
    answer(CompileOptions(sys.argv[1], sys.argv[2], optimization_level=int(sys.argv[3])), Path(sys.argv[4]))
