"""Records what TensorRT tells of the engines of small models: where the fixtures in ``inspected/`` come from.

    python tests/engine/tensorrt_backend/record_layers.py FOLDER --seconds 300

Writes one JSON for each model and precision: how the network hangs together, the layers that were written, the
inspector's text (without and with the usual sizes, without what nothing reads), and the milliseconds of each layer in
each run.  Needs a GPU and TensorRT.  A model that fails is told of and left out; after ``--seconds`` no further one
begins, and the process ends at twice that.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import re
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from layer_models import layer_models
from seed_models import seeds

from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.profiles import usual_inputs
from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.emission import Emission
from trtdiag.engine.tensorrt.inspection import WatchedEngine, engine_text, new_stopwatch
from trtdiag.engine.tensorrt.lazy_import import import_tensorrt
from trtdiag.engine.tensorrt.log import logger_of
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.graph.source import Frame
from trtdiag.network import Network
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target

RUNS = 5
KEPT = {"Name", "LayerType", "ParameterType", "Inputs", "Outputs", "TacticName", "TacticValue", "StreamId", "Metadata"}


def attempt(record: dict[str, Any], part: str, work: Callable[[], Any]) -> None:
    """One part of a record; its failure leaves the others."""
    try:
        record[part] = work()
    except Exception as error:  # a machine that is lent should give all that it can
        record[f"{part}_failed"] = f"{type(error).__name__}: {error}"[:2000]
        record[f"{part}_where"] = traceback.format_exc().splitlines()[-12:]


def recorded(asked: Any, precision: Precision, level: int | None) -> list[dict[str, Any]]:
    """A record for each engine of a model."""
    target = get_target(None)
    plan = CompileOptions(
        target.version, "reference", precision, verify=False, partition=PartitionOptions(min_segment_ops=0)
    )
    found = compile_in_stages(asked, plan)
    return [
        one_engine(converted.network, engine.manifest, level)
        for converted, engine in zip(found.converted, found.engines, strict=True)
    ]


def one_engine(network: Network, planned: Any, level: int | None) -> dict[str, Any]:
    emissions: list[Emission] = []

    class Kept(Emission):
        def write(self, emitters: Any) -> None:
            emissions.append(self)
            super().write(emitters)

    backend = get_backend("tensorrt")
    options = CompileOptions(get_target(None).version, "tensorrt", optimization_level=level)
    profile = {port.name: port.profile for port in planned.inputs}
    begun = time.perf_counter()
    before, building.Emission = building.Emission, Kept
    try:
        engine = build_engine(backend, network, profile, options, get_target(None))
    finally:
        building.Emission = before
    record: dict[str, Any] = {"build_s": round(time.perf_counter() - begun, 2), "bytes": len(engine.blob)}
    record["network"] = wiring(network)
    record["written"] = list(emissions[0].layers)
    trt = import_tensorrt().trt
    runtime = trt.Runtime(logger_of(trt))
    deserialised = runtime.deserialize_cuda_engine(bytes(engine.blob))
    record["num_layers"] = deserialised.num_layers
    attempt(record, "plain", lambda: shortened(engine_text(trt, deserialised)))
    attempt(record, "timed", lambda: timed(trt, deserialised, engine.manifest, record))
    return record


def timed(trt: Any, deserialised: Any, manifest: Any, record: dict[str, Any]) -> list[Any]:
    stopwatch = new_stopwatch(trt)
    watched = WatchedEngine(deserialised, stopwatch)
    device = torch.device("cuda", torch.cuda.current_device())
    runner = EngineRunner(trt, watched, manifest, device)
    inputs = usual_inputs(manifest, device)
    runs = []
    for _ in range(RUNS):
        stopwatch.times.clear()
        runner(inputs)
        torch.cuda.synchronize()
        runs.append(list(stopwatch.times))
    attempt(record, "sized", lambda: shortened(engine_text(trt, deserialised, watched.contexts[-1])))
    return runs


def wiring(network: Network) -> dict[str, Any]:
    """What leads from layers to ops: the op, node and line of each, and the tensors between them."""
    return {
        "inputs": [port.name for port in network.inputs],
        "outputs": [[port.name, port.tensor] for port in network.outputs],
        "layers": [
            [p.layer.kind, p.origin.op, p.origin.node, line(p.origin.frame), p.inputs, p.outputs]
            for p in network.layers
        ],
    }


def line(frame: Frame | None) -> str:
    return "" if frame is None else f"{Path(frame.file).name}:{frame.line}"


def shortened(text: str) -> str:
    """The inspector's text without the settings of kernels and the folders of source files; its form stays."""
    text = re.sub(r"(at )[^\]\x1e\x1f\"]*/", r"\1", text)
    document = json.loads(text, strict=False)
    for layer in document["Layers"]:
        for key in set(layer) - KEPT:
            del layer[key]
    written = json.dumps(document, separators=(",", ":"))
    return written.replace("\\u001e", "\x1e").replace("\\u001f", "\x1f")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0)
    asked = parser.parse_args()
    faulthandler.dump_traceback_later(2 * asked.seconds, exit=True)
    asked.folder.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + asked.seconds
    models = [(name, one, 1) for name, one in seeds().items()] + [(n, one, None) for n, one in layer_models().items()]
    for name, one, level in models:
        for precision in (Precision.KEEP, Precision.FP16):
            key = f"{name}-{precision.value}"
            if time.monotonic() > ends:
                print(f"{key}: left out, the time is over", flush=True)
                continue
            begun = time.monotonic()
            try:
                engines = recorded(one, precision, level)
            except Exception:
                print(f"{key}: failed\n{traceback.format_exc()}", flush=True)
                continue
            trt = import_tensorrt().trt
            text = json.dumps(
                {"model": key, "tensorrt": trt.__version__, "level": level, "engines": engines}, separators=(",", ":")
            )
            (asked.folder / f"{key}.json").write_text(text, encoding="utf-8")
            failed = [part for engine in engines for part in engine if part.endswith("_failed")]
            layers = [engine["num_layers"] for engine in engines]
            print(f"{key}: {layers} layers, {time.monotonic() - begun:.1f} s {' '.join(failed)}", flush=True)


if __name__ == "__main__":
    main()
