"""A process of ``benchmarks/gpu/speed.py``: builds the engines of one model, one after the other.

    python speed_build.py MODEL FOLDER VARIANT,VARIANT... [--tiny] [--backend reference]

``ours`` and ``ours static`` are what a user gets; the probes tell apart what engines lose time to.  ``auto`` writes its
report beside the program.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from speed_models import Case, case
from speed_stays import ZooCase
from speed_timing import Answers, done_file, told

ONNX = ("onnx", "onnx dynamic")
OURS = ("ours", "ours static")
AUTO = "auto"
"""With ranges, each part by what is faster of TensorRT and AOTInductor, chosen with CUDA graphs."""
WAIT_S = 90.0
"""For an ONNX file."""
PROBES = {
    "probe half gelu static": "GELU in float16, without casts around it",
    "probe spelled static": "norms over images in single layers, float16 throughout",
    "probe unpinned": "computed in float32 by the network, FP16 allowed: the types that TensorRT chooses itself",
    "probe prefer": "the same network, types preferred and not obeyed",
}
VARIANTS = (OURS[1], ONNX[0], OURS[0], ONNX[1], AUTO, *PROBES)
"""In the order in which they are built."""


def file_of(folder: Path, name: str, variant: str) -> Path:
    """Where an engine, or a program with engines, is kept."""
    return folder / f"{name}-{variant}.{'engine' if variant in ONNX else 'ep'}".replace(" ", "_")


def build_onnx(found: Case | ZooCase, name: str, variant: str, folder: Path) -> dict[str, Any]:
    """Parse and build as TensorRT's own tools do: FP16 allowed, types chosen by TensorRT."""
    done = done_file(folder, name, variant)
    ends = time.monotonic() + WAIT_S
    while not done.exists() and time.monotonic() < ends:
        time.sleep(0.2)
    failed = done.read_text(encoding="utf-8") if done.exists() else "it was not written in time"
    if failed:
        raise RuntimeError(f"no ONNX file: {failed}")
    import tensorrt as trt

    from trtdiag.engine.tensorrt.config import TACTIC_SOURCES, tactic_mask

    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    file = folder / f"{name}-{variant}.onnx"
    if hasattr(parser, "set_flag"):
        parser.set_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM)
    elif file.with_suffix(".spelled.onnx").exists():  # it would take a plugin, which wants cuDNN
        file = file.with_suffix(".spelled.onnx")
    begun = time.perf_counter()
    if not parser.parse_from_file(str(file)):
        raise RuntimeError("; ".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
    parsed = time.perf_counter()
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.FP16)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    sources = [part for part in os.environ.get(TACTIC_SOURCES, "").split(",") if part]
    if sources:
        config.set_tactic_sources(tactic_mask(trt, sources))
    if variant == "onnx dynamic":
        profile = builder.create_optimization_profile()
        for argument in found.names:
            profile.set_shape(argument, *found.ends(argument))
        config.add_optimization_profile(profile)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise RuntimeError("TensorRT built no engine")
    built = time.perf_counter()
    blob = bytes(engine)
    file_of(folder, name, variant).write_bytes(blob)
    return {
        "build_s": built - begun,
        "stages": {"parse": parsed - begun, "build": built - parsed},
        "bytes": len(blob),
        "file": file.name,
    }


def build_ours(
    found: Case | ZooCase, name: str, variant: str, folder: Path, backend: str, answers: Answers
) -> dict[str, Any]:
    """Compile as a user does, or with what a probe changes."""
    import trtdiag
    from trtdiag.options import CompileOptions, PartitionOptions, Precision
    from trtdiag.pipeline.compile import compile_in_stages

    precision = Precision.KEEP if variant == "probe unpinned" else Precision.FP16
    device = "cuda" if backend == "tensorrt" else "cpu"
    module, args = found.module.to(device), tuple(arg.to(device) for arg in found.args)
    dims = None if "static" in variant else found.dims()
    begun = time.perf_counter()
    with torch.no_grad():
        exported = torch.export.export(module, args, dynamic_shapes=dims)
    ready = time.perf_counter()
    options = CompileOptions(
        backend=backend,
        target="8.6" if backend == "reference" else None,
        precision=precision,
        verify=False,
        force=name.startswith("zoo:"),  # some declare sizes that they refuse
        partition=PartitionOptions(min_segment_ops=0),
        optimize="latency" if variant == AUTO else "none",
        cuda_graphs=8 if variant == AUTO else 0,
        # The first of the two that have ranges pays for the engine of the whole program.
        engine_cache=str(folder / "engines") if variant in (OURS[0], AUTO) else None,
        timing_cache=str(folder / f"{name}.timings") if variant in (OURS[0], AUTO) else None,
    )
    with _changed(variant if backend == "tensorrt" or "static" in variant else ""):
        made = compile_in_stages(
            exported, options, progress=lambda step: answers.say(event="at", variant=variant, what=step)
        )
    done = time.perf_counter()
    trtdiag.save(made.compiled, file_of(folder, name, variant))
    if variant == AUTO:  # each segment's times, and why it was chosen
        file_of(folder, name, variant).with_suffix(".html").write_text(made.report.to_html(), encoding="utf-8")
    half = made.plan.lowered.precision
    return {
        "build_s": done - ready,
        "export_s": ready - begun,
        "stages": {stage.name: round(stage.seconds, 2) for stage in made.stages},
        "bytes": sum(len(engine.blob) for engine in made.engines),
        "engines": len(made.engines),
        "layers": sum(len(one.network.layers) for one in made.converted),
        "optimization": told_choice(made.optimization),
        "notes": list(made.notes),
        "stays": None if half is None else sorted({f"{one.target}: {one.why}" for one in half.stays}),
    }


def told_choice(found: Any) -> dict[str, Any] | None:
    """What was measured to choose the way of each block."""
    return None if found is None else asdict(found)


@contextmanager
def _changed(variant: str) -> Iterator[None]:
    """What a probe does differently, by force: no option says it."""
    if variant not in PROBES:
        yield
        return
    if "static" in variant:
        with _spelled() if variant == "probe spelled static" else _half_gelu():
            yield
        return
    import trtdiag.engine.tensorrt.build as building

    plain = building.new_config

    def changed(dialect: Any, *args: Any, **kwargs: Any) -> Any:
        config, flags = plain(dialect, *args, **kwargs), dialect.trt.BuilderFlag
        config.set_flag(flags.FP16)
        config.clear_flag(flags.OBEY_PRECISION_CONSTRAINTS)
        if variant == "probe prefer":
            config.set_flag(flags.PREFER_PRECISION_CONSTRAINTS)
        return config

    building.new_config = changed
    try:
        yield
    finally:
        building.new_config = plain


@contextmanager
def _half_gelu() -> Iterator[None]:
    import trtdiag.convert.ops.gated_activation as gates

    plain = gates.in_float32
    gates.in_float32 = lambda write, compose, *values: compose(*values)
    try:
        yield
    finally:
        gates.in_float32 = plain


@contextmanager
def _spelled() -> Iterator[None]:
    import trtdiag.convert.ops.group_norm as norms
    from trtdiag.convert.layer_writers.statistics import affine, moments, reciprocal_deviation
    from trtdiag.network.layers.elementwise import ElementWiseOperation

    plain = norms.normalized

    def normalized(write: Any, x: Any, axes: Any, epsilon: float, scale: Any, bias: Any, **_: Any) -> Any:
        mean, variance = moments(write, x, list(axes))
        centred = write.elementwise(ElementWiseOperation.SUB, x, mean)
        y = write.elementwise(ElementWiseOperation.PROD, centred, reciprocal_deviation(write, variance, epsilon))
        return affine(write, y, scale, bias)

    norms.normalized = normalized
    try:
        yield
    finally:
        norms.normalized = plain


def main() -> None:
    name, folder, variants = sys.argv[1], Path(sys.argv[2]), sys.argv[3].split(",")
    backend = "reference" if "reference" in sys.argv else "tensorrt"
    faulthandler.dump_traceback_later(150, repeat=True)
    answers = Answers()
    found = case(name, "--tiny" in sys.argv)
    for variant in variants:
        started = time.perf_counter()
        try:
            if variant in ONNX:
                row = build_onnx(found, name, variant, folder)
            else:
                row = build_ours(found, name, variant, folder, backend, answers)
            row["build_s"] = round(row["build_s"], 1)
        except Exception as error:  # a row of the table
            row = {"error": told(error)}
        answers.say(
            event="built",
            variant=variant,
            row={**row, "wall_s": round(time.perf_counter() - started, 1)},
        )


if __name__ == "__main__":
    main()
