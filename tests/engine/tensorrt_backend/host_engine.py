"""An engine on the CPU: a stand-in for TensorRT's objects that computes, and for the streams and graphs of a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from standin import Recorded, TensorRT

from trtdiag.engine.manifest import EngineInput, EngineOutput, Manifest
from trtdiag.engine.tensorrt.context_memory import ContextMemory
from trtdiag.engine.tensorrt.gpu import Gpu, Replay, Work
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Num, Range, symbol

RECORDING = 99
"""The stream on which nothing runs."""
CPU = torch.device("cpu")


def manifest() -> Manifest:
    size = DimProfile(0, 3, 8)
    return Manifest(
        trtdiag="0",
        backend="tensorrt",
        target="8.6",
        device="cpu",
        network_hash="0" * 64,
        engine_sha256="0" * 64,
        inputs=(
            EngineInput("x", torch.float16, (symbol("s"), Num(5)), (size, DimProfile(5, 5, 5))),
            EngineInput("n", torch.int32, (), (size,), symbol("n")),
        ),
        outputs=(EngineOutput("y", torch.float16, (symbol("n"), symbol("s"))),),
        ranges={"s": Range(0, 8), "n": Range(0, 8)},
    )


def at(address: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """The tensor whose elements are at an address, as an engine sees it."""
    count = int(np.prod(shape)) * dtype.itemsize
    return torch.frombuffer((ctypes.c_uint8 * count).from_address(address), dtype=dtype).view(shape)


class Engine:
    """An engine whose output is (n, rows of x), with n read on the host: the sum of each row, plus 0 to n - 1."""

    def __init__(self, version: str) -> None:
        self.trt = TensorRT(version)
        logger = self.trt.Logger()
        self.engine = self.trt.Runtime(logger).deserialize_cuda_engine(b"bytes")
        self.missing: list[str] = []
        self.names = ["input 0: x", "input 1: n", "output 0: y"]
        self.engine.__dict__["facts"] = {"num_io_tensors": 3}
        self.runs = True
        answers = self.trt.answers
        answers["get_tensor_location"] = lambda _, name: (
            self.trt.TensorLocation.HOST if name == "input 1: n" else self.trt.TensorLocation.DEVICE
        )
        answers["get_tensor_name"] = lambda _, index: self.names[index]
        answers["get_tensor_shape"] = self._shape
        answers["infer_shapes"] = lambda _: self.missing
        answers["execute_async_v3"] = self._execute

    def _shape(self, context: Recorded, name: str) -> tuple[int, ...]:
        shapes = [args[1] for called, args, _ in context.calls if called == "set_input_shape"]
        addresses = {args[0]: args[1] for called, args, _ in context.calls if called == "set_tensor_address"}
        return (int(at(addresses["input 1: n"], torch.int32, ())), shapes[-1][0])

    def _execute(self, context: Recorded, stream: int) -> bool:
        """Compute as the engine would, unless it is recorded."""
        if stream != RECORDING and self.runs:
            addresses = {args[0]: args[1] for called, args, _ in context.calls if called == "set_tensor_address"}
            if "input 0: x" in addresses and all(n_rows := self._shape(context, "output 0: y")):
                n, rows = n_rows
                x = at(addresses["input 0: x"], torch.float16, (rows, 5))
                y = at(addresses["output 0: y"], torch.float16, (n, rows))
                y.copy_(x.sum(1) + torch.arange(n)[:, None])
        return self.runs

    def runner(self, gpu: HostGpu | None = None, scratch: type[ContextMemory] = ContextMemory) -> EngineRunner:
        return EngineRunner(self.trt, self.engine, manifest(), CPU, gpu=gpu or HostGpu(), scratch=scratch)

    def inputs(self, rows: int, n: int) -> list[torch.Tensor]:
        return [torch.zeros(rows, 5, dtype=torch.float16), torch.tensor(n, dtype=torch.int32)]

    @property
    def contexts(self) -> list[Recorded]:
        return self.trt.of("IExecutionContext")


class RowSums(Engine):
    """An engine that reads all on the GPU: the sum of each row of x."""

    def __init__(self, version: str) -> None:
        super().__init__(version)
        self.names = ["input 0: x", "output 0: y"]
        self.engine.__dict__["facts"] = {"num_io_tensors": 2}

    def _shape(self, context: Recorded, name: str) -> tuple[int, ...]:
        return ([args[1] for called, args, _ in context.calls if called == "set_input_shape"][-1][0],)

    def _execute(self, context: Recorded, stream: int) -> bool:
        if stream != RECORDING and self.runs:
            addresses = {args[0]: args[1] for called, args, _ in context.calls if called == "set_tensor_address"}
            (rows,) = self._shape(context, "output 0: y")
            if rows:
                x = at(addresses["input 0: x"], torch.float16, (rows, 5))
                at(addresses["output 0: y"], torch.float16, (rows,)).copy_(x.sum(1))
        return self.runs

    def runner(self, gpu: HostGpu | None = None, scratch: type[ContextMemory] = ContextMemory) -> EngineRunner:
        known = manifest()
        plain = replace(
            known, inputs=known.inputs[:1], outputs=(EngineOutput("y", torch.float16, (symbol("s"),)),), ranges={}
        )
        return EngineRunner(self.trt, self.engine, plain, CPU, gpu=gpu or HostGpu(), scratch=scratch)


class LowHalves(RowSums):
    """An engine that reads int64 as pairs of int32, and gives the first of each."""

    def _execute(self, context: Recorded, stream: int) -> bool:
        if stream != RECORDING:
            addresses = {args[0]: args[1] for called, args, _ in context.calls if called == "set_tensor_address"}
            (rows,) = self._shape(context, "output 0: y")
            pairs = at(addresses["input 0: x"], torch.int32, (rows, 2))
            at(addresses["output 0: y"], torch.int32, (rows,)).copy_(pairs[:, 0])
        return True

    def runner(self, gpu: HostGpu | None = None, scratch: type[ContextMemory] = ContextMemory) -> EngineRunner:
        size = DimProfile(1, 3, 8)
        ids = EngineInput("x", torch.int32, (symbol("s"), Num(2)), (size, DimProfile(2, 2, 2)))
        y = EngineOutput("y", torch.int32, (symbol("s"),))
        plain = replace(manifest(), inputs=(ids,), outputs=(y,), ranges={})
        return EngineRunner(self.trt, self.engine, plain, CPU, gpu=gpu or HostGpu(), scratch=scratch)


class HostGpu(Gpu):
    """The CPU in the place of a GPU: streams are numbers, and a recording is the calls that made it."""

    def __init__(self, streams: Sequence[int] = ()) -> None:
        self.streams = list(streams)
        self.is_recording = False
        self.fails = ""
        self.recorded = 0
        self.marks: list[int] = []
        self.followed: list[int] = []

    def stream(self, device: torch.device) -> int:
        return self.streams.pop(0) if self.streams else 7

    def current(self, device: torch.device) -> Callable[[], int]:
        return lambda: self.stream(device)

    def recording(self) -> bool:
        return self.is_recording

    def record(self, device: torch.device, work: Work) -> Replay:
        self.recorded += 1
        work(RECORDING)
        if self.fails:
            raise RuntimeError(self.fails)
        return lambda: work(7)

    def mark(self, device: torch.device, stream: int) -> int:
        self.marks.append(len(self.marks))
        return self.marks[-1]

    def follow(self, mark: int, memory: torch.Tensor) -> None:
        assert memory.nbytes
        self.followed.append(mark)
