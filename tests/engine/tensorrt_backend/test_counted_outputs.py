"""Outputs whose sizes the data decides: memory on demand, on a stand-in for the engine with tensors on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from host_engine import HostGpu
from standin import Recorded, TensorRT

from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.manifest import EngineInput, EngineOutput, Manifest
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.errors import InternalError, UserError
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Num, Range, symbol
from trtdiag.targets import TARGETS

VERSIONS = [target.version for target in TARGETS]
CPU = torch.device("cpu")
MANIFEST = Manifest(
    trtdiag="0",
    backend="tensorrt",
    target="8.6",
    device="cpu",
    network_hash="0" * 64,
    engine_sha256="0" * 64,
    inputs=(EngineInput("x", torch.float32, (symbol("s"),), (DimProfile(0, 5, 31),)),),
    outputs=(
        EngineOutput("places", torch.int32, (Num(1), symbol("u"))),
        EngineOutput("half", torch.float16, (symbol("u"), Num(2))),
        EngineOutput("same", torch.float32, (symbol("s"),)),
    ),
    ranges={"s": Range(0, 31), "u": Range(0, 31)},
    counts={"u": symbol("s")},
    waits=True,
)
PLACES, HALF, SAME = (f"output {index}: {name}" for index, name in enumerate(("places", "half", "same")))


class Engine:
    """An engine that asks for the memory of ``count`` places, and for as much as ``most`` of them take."""

    def __init__(self, version: str, count: int, most: int) -> None:
        self.trt = TensorRT(version)
        self.version, self.count, self.most = version, count, most
        self.engine = self.trt.Runtime(self.trt.Logger()).deserialize_cuda_engine(b"bytes")
        self.engine.__dict__["facts"] = {"num_io_tensors": 4}
        answers: dict[str, Callable[..., Any]] = self.trt.answers
        answers["get_tensor_location"] = lambda *_: self.trt.TensorLocation.DEVICE
        answers["get_tensor_name"] = lambda _, index: ("input 0: x", PLACES, HALF, SAME)[index]
        answers["get_tensor_shape"] = lambda _, name: {PLACES: (1, -1), HALF: (-1, 2), SAME: (3,)}[name]
        answers["infer_shapes"] = lambda _: []
        answers["execute_async_v3"] = self.execute
        self.alignment, self.tells, self.addresses = 256, True, []

    def execute(self, context: Recorded, stream: int) -> bool:
        allocators = {args[0]: args[1] for called, args, _ in context.calls if called == "set_output_allocator"}
        for name, row, shape in ((PLACES, 4, (1, self.count)), (HALF, 4, (self.count, 2))):
            given = (name, None, max(row * self.most, 1), self.alignment)
            one = allocators[name]
            # From 10 on TensorRT hands the stream over.
            asked = one.reallocate_output(*given) if self.version == "8.6" else one.reallocate_output_async(*given, 7)
            if not asked:
                return False
            self.addresses.append(asked)
            if self.tells:
                one.notify_shape(name, shape)
        return True

    def runner(self, gpu: HostGpu | None = None) -> EngineRunner:
        return EngineRunner(self.trt, self.engine, MANIFEST, CPU, gpu=gpu or HostGpu())


X = [torch.zeros(3)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("count", "most"), [(0, 0), (0, 31), (1, 1), (3, 31), (29, 31), (31, 31)])
def test_outputs_have_the_size_that_the_run_tells(version: str, count: int, most: int) -> None:
    engine = Engine(version, count, most)
    places, half, same = engine.runner()(X)
    assert (places.shape, places.dtype) == ((1, count), torch.int32)
    assert (half.shape, half.dtype) == ((count, 2), torch.float16)
    assert same.shape == (3,)
    (context,) = engine.trt.of("IExecutionContext")
    told = [args[0] for called, args, _ in context.calls if called == "set_tensor_address"]
    assert told == ["input 0: x", SAME]  # TensorRT asks for the memory of the others
    assert all(address % 256 == 0 for address in engine.addresses)
    if 2 * count > most:
        assert places.data_ptr() == engine.addresses[0]
    assert half.untyped_storage().nbytes() <= 8 * count + 256  # at most twice its size, beside the alignment


def test_each_run_has_memory_of_its_own() -> None:
    engine = Engine("8.6", 5, 5)
    run = engine.runner()
    one = run(X)[0].fill_(1)
    two = run(X)[0].fill_(2)
    assert one.tolist() == [[1] * 5]
    assert two.tolist() == [[2] * 5]


def test_memory_is_aligned_as_asked() -> None:
    engine = Engine("11.4", 7, 7)
    engine.alignment = 1 << 14
    engine.runner()(X)
    assert all(address % (1 << 14) == 0 for address in engine.addresses)


def test_what_goes_wrong_is_told() -> None:
    engine = Engine("10.16", 4, 4)
    run = engine.runner()
    engine.tells = False
    with pytest.raises(InternalError, match="has not said the shape"):
        run(X)
    engine.tells, engine.most = True, 2
    with pytest.raises(InternalError, match="has not asked for the memory"):
        run(X)
    engine.most = 1 << 60
    with pytest.raises(RuntimeError, match=r"memory|too large|overflow"):  # PyTorch's own words
        run(X)
    engine.most = 4
    assert run(X)[0].shape == (1, 4)  # a fault leaves nothing behind
    engine.trt.answers["set_output_allocator"] = lambda *_: False
    with pytest.raises(InternalError, match="on demand"):
        engine.runner()(X)


def test_a_manifest_without_counts_asks_for_nothing() -> None:
    assert [MANIFEST.is_counted(port) for port in MANIFEST.outputs] == [True, True, False]


def test_it_is_never_recorded() -> None:
    engine, gpu = Engine("10.16", 5, 5), HostGpu()
    run = engine.runner(gpu)
    with choosing_graphs(GraphChoice(4)):
        for _ in range(4):
            assert run(X)[0].shape == (1, 5)
    assert not gpu.recorded
    gpu.is_recording = True
    with pytest.raises(UserError, match="how large places, half is") as caught:
        run(X)
    assert caught.value.reference == "recorded-counts"
