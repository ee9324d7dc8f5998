"""Engines by themselves: run in the leanest way, what they are made of, and how long each layer takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

RUNS = 20


class Bare:
    """An engine whose shapes and addresses are told once: a run is one call of TensorRT, into the same memory.

    Args:
        blob: The engine.
        given: Its inputs, by name or in order.
    """

    def __init__(self, blob: bytes, given: Mapping[str, torch.Tensor] | Sequence[torch.Tensor]) -> None:
        import tensorrt as trt

        self.trt = trt
        self._runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.engine = self._runtime.deserialize_cuda_engine(blob)
        self.context = self.engine.create_execution_context()
        dtypes = {trt.float32: torch.float32, trt.float16: torch.float16, trt.int32: torch.int32, trt.bool: torch.bool}
        names = [self.engine.get_tensor_name(index) for index in range(self.engine.num_io_tensors)]
        entering = [name for name in names if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
        by_name = given if isinstance(given, Mapping) else dict(zip(entering, given, strict=True))
        self._kept = []
        for name in entering:
            host = self.engine.get_tensor_location(name) == trt.TensorLocation.HOST
            tensor = by_name[name].to(dtypes[self.engine.get_tensor_dtype(name)]).contiguous()
            tensor = tensor.cpu() if host else tensor.cuda()
            self._kept.append(tensor)
            self.context.set_tensor_address(name, tensor.data_ptr())
            if not host:
                self.context.set_input_shape(name, tuple(tensor.shape))
        self.context.infer_shapes()
        self.outputs = []
        for name in names:
            if name not in entering:
                shape = tuple(self.context.get_tensor_shape(name))
                made = torch.empty(shape, dtype=dtypes[self.engine.get_tensor_dtype(name)], device="cuda")
                self.context.set_tensor_address(name, made.data_ptr())
                self.outputs.append(made)

    def __call__(self) -> tuple[torch.Tensor, ...]:
        self.context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        return tuple(self.outputs)


class EngineModule(torch.nn.Module):
    """The same engine as a module of PyTorch, as users write it: each call checks its arguments and makes its results.

    Args:
        bare: The engine.
        names: What the arguments are called, in order.
    """

    def __init__(self, bare: Bare, names: Sequence[str]) -> None:
        super().__init__()
        trt, engine = bare.trt, bare.engine
        dtypes = {trt.float32: torch.float32, trt.float16: torch.float16, trt.int32: torch.int32, trt.bool: torch.bool}
        every = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        self.context, self.names = bare.context, names
        self.entering = [(name, dtypes[engine.get_tensor_dtype(name)]) for name in names]
        self.leaving = [(name, dtypes[engine.get_tensor_dtype(name)]) for name in every if name not in names]

    def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        context = self.context
        given = []
        for (name, dtype), tensor in zip(self.entering, args, strict=True):
            if not tensor.is_cuda:
                raise ValueError(f"{name} is not on the GPU")
            own = tensor.to(dtype).contiguous()
            given.append(own)
            context.set_tensor_address(name, own.data_ptr())
            context.set_input_shape(name, tuple(own.shape))
        outputs = []
        for name, dtype in self.leaving:
            made = torch.empty(tuple(context.get_tensor_shape(name)), dtype=dtype, device=args[0].device)
            context.set_tensor_address(name, made.data_ptr())
            outputs.append(made)
        if not context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
            raise RuntimeError("TensorRT does not run the engine")
        return tuple(outputs)


def layers_of(bare: Bare) -> Any:
    """What TensorRT's inspector says of the layers."""
    inspector = bare.engine.create_engine_inspector()
    # Names of layers have control characters in them.
    return json.loads(inspector.get_engine_information(bare.trt.LayerInformationFormat.JSON), strict=False)


def layer_times(bare: Bare) -> dict[str, Any]:
    """Mean milliseconds of each layer, in order; the engine runs slower from then on."""

    class Profiler(bare.trt.IProfiler):  # type: ignore[misc,name-defined]  # a class of another library
        def __init__(self) -> None:
            bare.trt.IProfiler.__init__(self)
            self.spent: dict[str, float] = {}

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self.spent[layer_name] = self.spent.get(layer_name, 0.0) + ms

    profiler = Profiler()
    for _ in range(3):
        bare()
    torch.cuda.synchronize()
    bare.context.profiler = profiler
    for _ in range(RUNS):
        bare()
        torch.cuda.synchronize()
    spent = {name: round(ms / RUNS, 5) for name, ms in profiler.spent.items()}
    scratch = round(bare.engine.device_memory_size / 2**20, 1)
    return {"sum_ms": round(sum(spent.values()), 4), "scratch_mib": scratch, **spent}
