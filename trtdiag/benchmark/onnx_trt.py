"""The usual way to TensorRT: an ONNX file, read by TensorRT's own parser."""

from __future__ import annotations

import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from trtdiag.benchmark.clock import Call
from trtdiag.benchmark.facts import AS_EXPORTED
from trtdiag.benchmark.original import Original
from trtdiag.benchmark.ways import Ready
from trtdiag.engine.tensorrt.lazy_import import import_tensorrt, require_gpu
from trtdiag.engine.tensorrt.onnx_engine import OnnxEngine, build_onnx
from trtdiag.errors import PlatformError
from trtdiag.graph.pytree import flattened, leaves_of, rebuilt
from trtdiag.options import CompileOptions
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.symbolic import Num


def prepare(original: Original, compiled: CompiledProgram) -> Ready:
    """Return an engine of the same ranges, built with the same options; TensorRT chooses the types of its layers.

    Raises:
        PlatformError: TensorRT, a GPU or the package onnx is missing.
        EngineBuildError: TensorRT refuses the file.
    """
    installed = import_tensorrt()
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
        blob = build_onnx(installed, path, shapes, options)
        seconds = time.perf_counter() - begun
    engine = OnnxEngine(installed, blob, original.device)

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


# The original as an ONNX file.


OPSET = 17
"""Has LayerNormalization.  Source: onnx-tensorrt 8.6, docs/operators.md: it reads operators up to Opset 17."""


def write_onnx(original: Original, path: Path) -> None:
    """Write the file, with the dims dynamic that the program has dynamic, its inputs named as in the program.

    torch's exporter of programs writes it where onnxscript is installed, its older one by tracing where not; they raise
    what they like.
    """
    inputs = [tensor for tensor in original.program.inputs if tensor.dtype is not None]
    names = [tensor.placeholder for tensor in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about the exporter itself
        if find_spec("onnxscript") is not None:
            torch.onnx.export(original.exported, (), str(path), input_names=names, dynamo=True, verbose=False)
            return
        args, kwargs = original.inputs(original.sizes("opt"))
        axes = {
            tensor.placeholder: {d.index: f"{tensor.placeholder}_{d.index}" for d in tensor.dims if not _is_number(d)}
            for tensor in inputs
        }
        flat = _Flat(original.module, args, kwargs)
        torch.onnx.export(
            flat,
            flat.tensors,
            str(path),
            input_names=names,
            dynamic_axes={name: own for name, own in axes.items() if own},
            opset_version=OPSET,
            training=torch.onnx.TrainingMode.PRESERVE,  # modules of exported programs cannot be told a mode
            dynamo=False,
        )


class _Flat(torch.nn.Module):
    """A module that takes the tensors of its arguments one by one, as the older exporter wants them."""

    def __init__(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.module = module
        self._leaves, self._spec = flattened((args, kwargs))
        self.tensors = tuple(leaf for leaf in self._leaves if isinstance(leaf, torch.Tensor))

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors among what the module returns."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        args, kwargs = rebuilt(leaves, self._spec)
        return tuple(leaf for leaf in leaves_of(self.module(*args, **kwargs)) if isinstance(leaf, torch.Tensor))


def _is_number(dim: object) -> bool:
    return isinstance(getattr(dim, "expr", None), Num)
