"""What one call of a small program costs: eager, exported, the compiled module, and the compiled program.

Run: ``python benchmarks/call_overhead.py``.  One process, one thread; CPU time, each number the best of many short
rounds, all in turn, so that what else the machine does falls on all of them alike.  ``TensorRT's runner`` is the
compiled program around an engine of TensorRT that does nothing, on the CPU: all that Python does for a call.

With ``--cold`` the CPU's caches are emptied before each call, as the launches of an engine's kernels do, and the
numbers are medians.  ``saved`` is the same engine called by a program that ``torch.export.load`` reads, and ``saved,
empty op`` that program with an op in the engine's place that only makes the output: what is torch's own of such a call.
``engine in a module`` is what users write by hand around an engine: it checks its argument, tells TensorRT sizes and
addresses, and makes the output.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import torch
from torch import nn
from torch.export import Dim, export
from torch.fx import GraphModule

import trtdiag
from trtdiag.engine.tensorrt import cuda_graphs, prepared_run
from trtdiag.engine.tensorrt.engine_bindings import input_name, output_name
from trtdiag.engine.tensorrt.gpu import Replay, Work
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.custom_op import EXECUTE_ENGINE, SCHEMA
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.prepared_engines import forget

CALLS, ROUNDS = 50, 60
COLD_ROUNDS = 25
CACHE_BYTES = 128 << 20
"""More than a CPU's last cache."""


class NoContext:
    """An execution context that accepts everything, for outputs of one shape."""

    active_optimization_profile = 0

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def set_tensor_address(self, name: str, address: int) -> bool:
        return bool(name and address)

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        return bool(name and shape)

    def infer_shapes(self) -> list[str]:
        return []

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self.shape if name else ()

    def execute_async_v3(self, stream: int) -> bool:
        return stream == 0


class NoEngine:
    """An engine that computes nothing."""

    def __init__(self, names: list[str], shape: tuple[int, ...]) -> None:
        self.names, self.shape = names, shape
        self.num_io_tensors = len(names)
        self.device_memory_size = 0

    def get_tensor_name(self, index: int) -> str:
        return self.names[index]

    def get_tensor_location(self, name: str) -> str:
        return "device" if name else "host"

    def create_execution_context(self) -> NoContext:
        return NoContext(self.shape)

    def create_execution_context_without_device_memory(self) -> NoContext:
        return NoContext(self.shape)


class NoGpu:
    """A GPU with one stream."""

    def stream(self, device: torch.device) -> int:
        return 0 if device else 1

    def current(self, device: torch.device) -> Callable[[], int]:
        return partial(self.stream, device)

    def recording(self) -> bool:
        return False

    def record(self, device: torch.device, work: Work) -> Replay:
        work(0 if device else 1)
        return lambda: None  # CUDA launches it without Python

    def mark(self, device: torch.device, stream: int) -> None:
        """Nothing is marked."""

    def follow(self, mark: object, memory: torch.Tensor) -> None:
        """Nothing waits."""


def on_nothing(compiled: CompiledProgram, x: torch.Tensor) -> CompiledProgram:
    """The same program around an engine of TensorRT that computes nothing."""
    made = CompiledProgram(compiled.exported_program)
    runner = idle_runner(compiled, x)
    with patched_cache(lambda *_: runner):
        made(x), made(x)  # the first call goes another way
    forget(runner)  # the module of the program has the same engine
    return made


def idle_runner(compiled: CompiledProgram, x: torch.Tensor) -> EngineRunner:
    """The engine of TensorRT that computes nothing, loaded."""
    shape = compiled(x).shape
    (manifest,) = compiled.manifests
    names = [input_name(0, manifest.inputs[0].name), output_name(0, manifest.outputs[0].name)]
    sharing = SimpleNamespace(__members__={"PROFILE_SHARING_0806": 0})
    trt = SimpleNamespace(TensorLocation=SimpleNamespace(HOST="host"), PreviewFeature=sharing)
    return EngineRunner(trt, NoEngine(names, tuple(shape)), manifest, x.device, gpu=NoGpu())  # type: ignore[arg-type]


def saved(compiled: CompiledProgram, x: torch.Tensor, op: Callable[..., object] = EXECUTE_ENGINE) -> nn.Module:
    """The program as ``torch.export.load`` reads it, around that engine, or with another op in its place."""
    with TemporaryDirectory() as folder:
        trtdiag.save(compiled, f"{folder}/program.pt2")
        module: nn.Module = torch.export.load(f"{folder}/program.pt2").module()
    if op is not EXECUTE_ENGINE:
        assert isinstance(module, GraphModule)
        for node in module.graph.find_nodes(op="call_function", target=EXECUTE_ENGINE):
            node.target = op
        module.recompile()
    runner = idle_runner(compiled, x)
    with patched_cache(lambda *_: runner):
        module(x)
    return module


def empty_op(x: torch.Tensor, y: torch.Tensor) -> Callable[..., object]:
    """An op with the engines' schema that only makes its output, in the least that torch asks of an op."""
    name = f"call_overhead::empty_{x.shape[0]}"
    torch.library.define(name, SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(name, "CPU", lambda inputs, engine, manifest: [torch.empty(y.shape)])
    return getattr(torch.ops.call_overhead, f"empty_{x.shape[0]}").default  # type: ignore[no-any-return]


class EngineModule(nn.Module):
    """An engine as a module, as ``benchmarks/gpu/speed_layers.py`` has one."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        super().__init__()
        self.context, self.gpu = NoContext(tuple(y.shape)), NoGpu()
        self.entering, self.leaving = [("x", x.dtype)], [("y", y.dtype)]

    def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        context = self.context
        for (name, dtype), tensor in zip(self.entering, args, strict=True):
            if tensor.is_cuda:
                raise ValueError(f"{name} is on a GPU")
            own = tensor.to(dtype).contiguous()
            context.set_tensor_address(name, own.data_ptr())
            context.set_input_shape(name, tuple(own.shape))
        outputs = []
        for name, dtype in self.leaving:
            made = torch.empty(tuple(context.get_tensor_shape(name)), dtype=dtype, device=args[0].device)
            context.set_tensor_address(name, made.data_ptr())
            outputs.append(made)
        if not context.execute_async_v3(self.gpu.stream(args[0].device)):
            raise RuntimeError("the engine does not run")
        return tuple(outputs)


@contextmanager
def patched_cache(get: Callable[..., object]) -> Iterator[None]:
    """Let all who ask for an engine get another."""
    CACHE.get = get  # type: ignore[method-assign]  # only in this block
    try:
        yield
    finally:
        del CACHE.get


def best(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Microseconds of one call of each."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            started = time.thread_time_ns()
            for _ in range(CALLS):
                call()
            found[name] = min(found[name], (time.thread_time_ns() - started) / CALLS / 1000)
    return found


def cold(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Microseconds of one call of each, its caches emptied before."""
    source, target = bytes(CACHE_BYTES), bytearray(CACHE_BYTES)
    found: dict[str, list[int]] = {name: [] for name in calls}
    for call in [*calls.values()] * 3:
        call()
    for _ in range(COLD_ROUNDS):
        for name, call in calls.items():
            target[:] = source
            started = time.thread_time_ns()
            call()
            found[name].append(time.thread_time_ns() - started)
    return {name: median(took) / 1000 for name, took in found.items()}


def main() -> None:
    """Print the table."""
    measure = cold if "--cold" in sys.argv[1:] else best
    torch.set_num_threads(1)
    for module in (prepared_run, cuda_graphs):
        vars(module).update(ALIGNMENT=1)  # PyTorch aligns less on the CPU than on a GPU
    print(f"{'rows':>5} {'program':<18} {'us':>8} {'to eager':>9} {'to exported':>12}")
    for rows in (1, 3, 64):
        model = nn.Linear(5, 7).eval()
        x = torch.randn(rows, 5)
        exported = export(model, (torch.randn(3, 5),), dynamic_shapes={"input": {0: Dim("n", min=1, max=64)}})
        compiled = trtdiag.compile(exported, backend="reference", min_segment_ops=1, verify=False)
        programs: dict[str, Callable[..., object]] = {
            "eager": model,
            "exported module": exported.module(),
            "compiled module": compiled.module(),
            "CompiledProgram": compiled,
            "saved": saved(compiled, x),
            "saved, empty op": saved(compiled, x, empty_op(x, model(x))),
            "engine in a module": EngineModule(x, model(x)),
            "run_into": partial(on_nothing(compiled, x).run_into, model(x).detach()),
            "TensorRT's runner": on_nothing(compiled, x),
            "and CUDA graphs": on_nothing(compiled, x).cuda_graphs(4),
        }
        calls: dict[str, Callable[[], object]] = {name: partial(program, x) for name, program in programs.items()}
        with torch.no_grad():
            found = measure(calls)
        for name, us in found.items():
            print(
                f"{rows:>5} {name:<18} {us:>8.1f} {us / found['eager']:>8.1f}x {us / found['exported module']:>11.2f}x"
            )


if __name__ == "__main__":
    main()
