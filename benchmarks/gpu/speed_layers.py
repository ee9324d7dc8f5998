"""What an engine is made of, and how long each of its layers takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

RUNS = 20


def _engine(blob: bytes) -> tuple[Any, Any, Any]:
    import tensorrt as trt

    runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
    return trt, runtime, runtime.deserialize_cuda_engine(blob)


def layers_of(blob: bytes) -> Any:
    """What TensorRT's inspector says of the layers."""
    trt, _runtime, engine = _engine(blob)
    inspector = engine.create_engine_inspector()
    return json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))


def layer_times(blob: bytes, given: Mapping[str, torch.Tensor] | Sequence[torch.Tensor]) -> dict[str, Any]:
    """Mean milliseconds of each layer, in order.

    Args:
        blob: The engine.
        given: Its inputs, by name or in order.
    """
    trt, _runtime, engine = _engine(blob)
    context = engine.create_execution_context()

    class Profiler(trt.IProfiler):  # type: ignore[misc]  # a class of another library
        def __init__(self) -> None:
            trt.IProfiler.__init__(self)
            self.spent: dict[str, float] = {}

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self.spent[layer_name] = self.spent.get(layer_name, 0.0) + ms

    dtypes = {trt.float32: torch.float32, trt.float16: torch.float16, trt.int32: torch.int32, trt.bool: torch.bool}
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    entering = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    by_name = given if isinstance(given, Mapping) else dict(zip(entering, given, strict=True))
    kept = []
    for name in entering:
        host = engine.get_tensor_location(name) == trt.TensorLocation.HOST
        tensor = by_name[name].to(dtypes[engine.get_tensor_dtype(name)]).contiguous()
        tensor = tensor.cpu() if host else tensor.cuda()
        kept.append(tensor)
        if not engine.is_shape_inference_io(name):
            context.set_input_shape(name, tuple(tensor.shape))
        context.set_tensor_address(name, tensor.data_ptr())
    context.infer_shapes()
    for name in names:
        if name not in entering:
            shape = tuple(context.get_tensor_shape(name))
            kept.append(torch.empty(shape, dtype=dtypes[engine.get_tensor_dtype(name)], device="cuda"))
            context.set_tensor_address(name, kept[-1].data_ptr())
    profiler = Profiler()
    stream = torch.cuda.current_stream().cuda_stream
    for _ in range(3):
        context.execute_async_v3(stream)
    torch.cuda.synchronize()
    context.profiler = profiler
    for _ in range(RUNS):
        context.execute_async_v3(stream)
        torch.cuda.synchronize()
    spent = {name: round(ms / RUNS, 5) for name, ms in profiler.spent.items()}
    return {
        "sum_ms": round(sum(spent.values()), 4),
        "scratch_mib": round(engine.device_memory_size / 2**20, 1),
        **spent,
    }
