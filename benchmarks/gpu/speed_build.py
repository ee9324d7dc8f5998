"""A process of ``benchmarks/gpu/speed.py``: builds one engine of one model.

    python speed_build.py MODEL VARIANT FOLDER [--tiny] [--backend reference]

The variants of ours tell apart what float16 engines lose time to; only ``ours`` and ``ours static`` are what a user
gets.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from speed_models import Case, case
from speed_timing import Answers, told

ONNX = ("onnx", "onnx dynamic")
OURS = ("ours", "ours static")
PROBES = {
    "ours unpinned": "computed in float32 by the network, FP16 allowed: the types that TensorRT chooses itself",
    "ours prefer": "the same network, types preferred and not obeyed",
    "ours all half": "attention, and whatever else stays in float32 but norms of batches, in float16",
    "ours all half prefer": "that, types preferred and not obeyed",
    "ours half softmax prefer": "attention in float16, types preferred and not obeyed",
}
VARIANTS = (*ONNX, *OURS, *PROBES)


def file_of(folder: Path, name: str, variant: str) -> Path:
    """Where an engine, or a program with engines, is kept."""
    return folder / f"{name}-{variant}.{'engine' if variant in ONNX else 'ep'}".replace(" ", "_")


def build_onnx(found: Case, name: str, variant: str, folder: Path) -> dict[str, Any]:
    """Parse and build as TensorRT's own tools do: FP16 allowed, types chosen by TensorRT."""
    import tensorrt as trt

    from trtdiag.engine.tensorrt.config import TACTIC_SOURCES, tactic_mask

    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    # The plugin that it would take instead wants cuDNN.
    parser.set_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM)
    begun = time.perf_counter()
    if not parser.parse_from_file(str(folder / f"{name}-{variant}.onnx")):
        raise RuntimeError("; ".join(str(parser.get_error(i)) for i in range(parser.num_errors)))
    parsed = time.perf_counter()
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.FP16)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    import os

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
    done = time.perf_counter()
    blob = bytes(engine)
    file_of(folder, name, variant).write_bytes(blob)
    return {"build_s": done - begun, "stages": {"parse": parsed - begun, "build": done - parsed}, "bytes": len(blob)}


def build_ours(found: Case, name: str, variant: str, folder: Path, backend: str) -> dict[str, Any]:
    """Compile as a user does, or with what a probe changes."""
    import trtdiag
    from trtdiag.compiling import compile_in_stages
    from trtdiag.options import CompileOptions, PartitionOptions, Precision

    precision = Precision.KEEP if variant == "ours unpinned" else Precision.FP16
    if variant in PROBES:
        _change(variant, backend)
    device = "cuda" if backend == "tensorrt" else "cpu"
    module, args = found.module.to(device), tuple(arg.to(device) for arg in found.args)
    dims = None if variant == "ours static" else found.dims()
    begun = time.perf_counter()
    with torch.no_grad():
        exported = torch.export.export(module, args, dynamic_shapes=dims)
    ready = time.perf_counter()
    options = CompileOptions(
        backend=backend,
        target="8.6" if backend == "reference" else None,
        precision=precision,
        verify=False,
        partition=PartitionOptions(min_segment_ops=0),
    )
    made = compile_in_stages(exported, options)
    done = time.perf_counter()
    trtdiag.save(made.compiled, file_of(folder, name, variant))
    half = made.plan.lowered.precision
    return {
        "build_s": done - ready,
        "export_s": ready - begun,
        "stages": {stage.name: round(stage.seconds, 2) for stage in made.stages},
        "bytes": sum(len(engine.blob) for engine in made.engines),
        "engines": len(made.engines),
        "layers": sum(len(one.network.layers) for one in made.converted),
        "stays": None if half is None else sorted({f"{one.target}: {one.reason}" for one in half.stays}),
    }


def _change(variant: str, backend: str) -> None:
    """What a probe does differently, by force: no option says it."""
    if "half" in variant:
        from types import SimpleNamespace

        import trtdiag.convert.writing.attended as attention
        from trtdiag.lower.precision.families import BATCH_NORMS, STAYS
        from trtdiag.network import DType

        attention.DType = SimpleNamespace(FLOAT32=DType.FLOAT16, BOOL=DType.BOOL, INT32=DType.INT32)
        for op in [op for op in STAYS if op not in BATCH_NORMS and "all half" in variant]:
            del STAYS[op]
    if backend != "tensorrt" or variant == "ours all half":
        return
    import trtdiag.engine.tensorrt.build as building

    plain = building.new_config

    def changed(dialect: Any, *args: Any, **kwargs: Any) -> Any:
        config, flags = plain(dialect, *args, **kwargs), dialect.trt.BuilderFlag
        config.set_flag(flags.FP16)
        config.clear_flag(flags.OBEY_PRECISION_CONSTRAINTS)
        if "prefer" in variant:
            config.set_flag(flags.PREFER_PRECISION_CONSTRAINTS)
        return config

    building.new_config = changed


def main() -> None:
    name, variant, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    backend = "reference" if "reference" in sys.argv else "tensorrt"
    answers = Answers()
    started = time.perf_counter()
    found = case(name, "--tiny" in sys.argv)
    try:
        if variant in ONNX:
            row = build_onnx(found, name, variant, folder)
        else:
            row = build_ours(found, name, variant, folder, backend)
        row["build_s"] = round(row["build_s"], 1)
    except Exception as error:  # a row of the table
        row = {"error": told(error)}
    answers.say(**row, process_s=round(time.perf_counter() - started, 1))


if __name__ == "__main__":
    main()
