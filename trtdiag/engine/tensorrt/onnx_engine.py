"""Engines of ONNX files, to compare with: TensorRT's own parser, its own choice of types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from trtdiag.engine.gil_lock import TURNS
from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.config import new_config
from trtdiag.engine.tensorrt.context_memory import scratch_bytes
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT, compute_capability
from trtdiag.engine.tensorrt.log import last_lines, logger_of
from trtdiag.errors import EngineBuildError, InternalError, PlatformError
from trtdiag.network import QUANTIZED, DType
from trtdiag.options import CompileOptions, Precision
from trtdiag.targets import COUNTERPARTS

Shapes = Mapping[str, tuple[int, ...]]
_FLAGS = {Precision.FP16: "FP16", Precision.BF16: "BF16", Precision.INT8: "FP16"}


def build_onnx(installed: InstalledTensorRT, path: Path, shapes: tuple[Shapes, ...], options: CompileOptions) -> bytes:
    """The engine of an ONNX file, which may use the options' precision wherever TensorRT likes.

    Args:
        installed: TensorRT.
        path: The file.
        shapes: Least, usual and greatest shape of each input.
        options: As for an engine of ours.

    Raises:
        EngineBuildError: ``onnx-refused``.
        PlatformError: ``onnx-precision``: this version takes types from the file alone.
    """
    trt = installed.trt
    flag = _FLAGS.get(options.precision)
    if flag is not None and flag not in trt.BuilderFlag.__members__:
        raise PlatformError(
            f"TensorRT {installed.version} cannot be asked for {options.precision.value}",
            because="from TensorRT 11 on the types of a network are those of the ONNX file",
            fix="compare programs that were compiled with precision='keep'",
            reference="onnx-precision",
        )
    logger = logger_of(trt)
    with logger.listeners.listening() as lines:
        builder = trt.Builder(logger)
        flags = trt.NetworkDefinitionCreationFlag
        explicit = 1 << int(flags.EXPLICIT_BATCH) if "EXPLICIT_BATCH" in flags.__members__ else 0
        definition = builder.create_network(explicit)
        parser = trt.OnnxParser(definition, logger)
        # A native layer: the plugin that it would take instead wants cuDNN.  8.6.0 cannot be told.
        if hasattr(parser, "set_flag"):
            parser.set_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM)
        if not parser.parse_from_file(str(path)):
            refusals = [str(parser.get_error(index)) for index in range(parser.num_errors)]
            raise _refused("; ".join(refusals) or last_lines(lines))
        config = new_config(
            Dialect(trt, installed.target),
            builder,
            options,
            version=installed.version,
            capability=compute_capability(),
        )
        if flag is not None:
            config.set_flag(getattr(trt.BuilderFlag, flag))
        profile = builder.create_optimization_profile()
        for index in range(definition.num_inputs):
            name = definition.get_input(index).name
            profile.set_shape(name, *(end[name] for end in shapes))
        config.add_optimization_profile(profile)
        with TURNS.beside():
            engine = builder.build_serialized_network(definition, config)
        if engine is None:
            raise _refused(last_lines(lines))
        return bytes(engine)


class OnnxEngine:
    """An engine that is run in the leanest way: shapes and addresses are told once, outputs are always the same memory.

    Args:
        installed: TensorRT.
        blob: The engine.
        device: The GPU.

    Attributes:
        scratch_bytes: What it needs beside weights, inputs and outputs.
    """

    def __init__(self, installed: InstalledTensorRT, blob: bytes, device: torch.device) -> None:
        self._trt, self._device = installed.trt, device
        self._runtime = installed.trt.Runtime(logger_of(installed.trt))
        self._engine = self._runtime.deserialize_cuda_engine(blob)
        if self._engine is None:
            raise _refused("TensorRT cannot read the engine that it made")
        self.scratch_bytes = scratch_bytes(self._engine)
        known = [dtype for dtype in DType if dtype.value in installed.target.dtypes and dtype not in QUANTIZED]
        self._dtypes = {getattr(installed.trt.DataType, COUNTERPARTS[dtype.value]): dtype.torch for dtype in known}

    def bound(self, given: Mapping[str, torch.Tensor]) -> Callable[[], tuple[torch.Tensor, ...]]:
        """A function that runs it with these inputs."""
        engine, trt = self._engine, self._trt
        context = engine.create_execution_context()
        kept: list[torch.Tensor] = []
        outputs: list[torch.Tensor] = []
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        entering = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
        for name in entering:
            tensor = given[name].to(self._dtypes[engine.get_tensor_dtype(name)]).contiguous()
            context.set_input_shape(name, tuple(tensor.shape))
            context.set_tensor_address(name, tensor.data_ptr())
            kept.append(tensor)
        for name in [name for name in names if name not in entering]:
            dtype = self._dtypes[engine.get_tensor_dtype(name)]
            made = torch.empty(tuple(context.get_tensor_shape(name)), dtype=dtype, device=self._device)
            context.set_tensor_address(name, made.data_ptr())
            outputs.append(made)

        def run(kept: list[torch.Tensor] = kept) -> tuple[torch.Tensor, ...]:
            if not context.execute_async_v3(torch.cuda.current_stream(self._device).cuda_stream):
                raise InternalError(
                    "TensorRT does not run the engine of an ONNX file",
                    because=f"it was given {[tuple(tensor.shape) for tensor in kept]}",
                    fix="leave onnx-trt out; TensorRT's log says more",
                    reference="onnx-run",
                )
            return tuple(outputs)

        return run


def _refused(because: str) -> EngineBuildError:
    return EngineBuildError(
        "TensorRT builds no engine of the ONNX file",
        because=because,
        fix="leave onnx-trt out, or mend the model for ONNX",
        reference="onnx-refused",
    )
