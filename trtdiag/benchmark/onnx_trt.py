"""The usual way to TensorRT: an ONNX file, read by TensorRT's own parser."""

from __future__ import annotations

import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from trtdiag.benchmark.clock import Call
from trtdiag.benchmark.facts import AS_EXPORTED
from trtdiag.benchmark.onnx_file import write_onnx
from trtdiag.benchmark.original import Original
from trtdiag.benchmark.ways import Ready
from trtdiag.engine.tensorrt.lazy_import import open_door, require_gpu
from trtdiag.engine.tensorrt.onnx_engine import OnnxEngine, build_onnx
from trtdiag.errors import PlatformError
from trtdiag.graph.pytree import leaves_of
from trtdiag.options import CompileOptions
from trtdiag.runtime.compiled import CompiledProgram


def prepare(original: Original, compiled: CompiledProgram) -> Ready:
    """Return an engine of the same ranges, built with the same options; TensorRT chooses the types of its layers.

    Raises:
        PlatformError: TensorRT, a GPU or the package onnx is missing.
        EngineBuildError: TensorRT refuses the file.
    """
    door = open_door()
    require_gpu()
    if original.device.type != "cuda":
        raise PlatformError(
            "TensorRT runs on a GPU",
            because=f"the program runs on {original.device}",
            fix="compile with the backend 'tensorrt', or leave onnx-trt out",
            reference="onnx-on-cpu",
        )
    if find_spec("onnx") is None:
        raise PlatformError(
            "torch cannot write ONNX files here",
            because="the Python package onnx is not installed",
            fix="pip install onnx (and onnxscript), or leave onnx-trt out",
            reference="onnx-missing",
        )
    options = compiled.options or CompileOptions()
    inputs = [_tensors(original, *original.inputs(original.sizes(end))) for end in ("min", "opt", "max")]
    shapes = tuple({name: tuple(tensor.shape) for name, tensor in tensors.items()} for tensors in inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        begun = time.perf_counter()
        write_onnx(original, path)
        blob = build_onnx(door, path, shapes, options)
        seconds = time.perf_counter() - begun
    engine = OnnxEngine(door, blob, original.device)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        return engine.bound(_tensors(original, args, kwargs))

    return Ready(bind, engine_words(options), build_s=seconds, bytes=engine.scratch_bytes)


def engine_words(options: CompileOptions) -> str:
    """What TensorRT may choose from, in words."""
    half = "float16 allowed"  # under int8, too: a plain ONNX file has no scales
    return {"keep": AS_EXPORTED, "fp16": half, "bf16": "bfloat16 allowed", "int8": half}[options.precision.value]


def _tensors(original: Original, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors among arguments, by the names of their placeholders."""
    tensors = [leaf for leaf in leaves_of((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    names = [tensor.placeholder for tensor in original.program.inputs if tensor.dtype is not None]
    return dict(zip(names, tensors, strict=True))
