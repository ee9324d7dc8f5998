"""Outputs in the memory of inputs: what TensorRT is told, and networks that its builder takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from host_engine import CPU, RECORDING, HostGpu, at
from standin import Recorded, TensorRT

import trtdiag
from tests.runtime.cache_models import BATCH, HEADS, SHAPE, STEPS, WIDTH, WRITES, Decoder, GivenCaches, step_inputs
from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.manifest import EngineInput, EngineOutput, Manifest
from trtdiag.engine.tensorrt.engine_bindings import ALIGNMENT
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Num
from trtdiag.targets import installed_rtx_version

ROWS, COLUMNS = 3, 5


def _manifest() -> Manifest:
    def port(name: str, *sizes: int) -> EngineInput:
        fixed = tuple(DimProfile(size, size, size) for size in sizes)
        return EngineInput(name, torch.float16, tuple(map(Num, sizes)), fixed)

    return Manifest(
        trtdiag="0",
        backend="tensorrt",
        target="11.4",
        device="cpu",
        network_hash="0" * 64,
        engine_sha256="0" * 64,
        inputs=(port("x", COLUMNS), port("cache", ROWS, COLUMNS)),
        outputs=(
            EngineOutput("sums", torch.float16, (Num(COLUMNS),)),
            EngineOutput("left", torch.float16, (Num(ROWS), Num(COLUMNS)), memory_of=1),
        ),
        ranges={},
    )


def _cache(shift: int = 0) -> torch.Tensor:
    """A cache that lies ``shift`` elements behind where an engine can read it; the CPU aligns to less than a GPU."""
    whole = torch.randn(ALIGNMENT + ROWS * COLUMNS).half()
    begin = -whole.data_ptr() % ALIGNMENT // whole.element_size() + shift
    return whole[begin : begin + ROWS * COLUMNS].view(ROWS, COLUMNS)


class CacheEngine:
    """Moves the rows of a cache up by one, with x as the last, and gives the sums of its columns."""

    def __init__(self) -> None:
        self.trt = TensorRT("11.4")
        engine = self.trt.Runtime(self.trt.Logger()).deserialize_cuda_engine(b"bytes")
        self.names = ["input 0: x", "input 1: cache", "output 0: sums", "output 1: left"]
        engine.__dict__["facts"] = {"num_io_tensors": len(self.names)}
        answers = self.trt.answers
        answers["get_tensor_location"] = lambda _, name: self.trt.TensorLocation.DEVICE
        answers["get_tensor_name"] = lambda _, index: self.names[index]
        answers["get_tensor_shape"] = lambda _, name: (ROWS, COLUMNS) if name == self.names[3] else (COLUMNS,)
        answers["infer_shapes"] = lambda _: []
        answers["execute_async_v3"] = self._execute
        self.gpu = HostGpu()
        self.runner = EngineRunner(self.trt, engine, _manifest(), CPU, gpu=self.gpu)

    def _execute(self, context: Recorded, stream: int) -> bool:
        addresses = {args[0]: args[1] for called, args, _ in context.calls if called == "set_tensor_address"}
        x, cache, sums, left = (addresses[name] for name in self.names)
        assert cache == left
        if stream != RECORDING:
            held = at(cache, torch.float16, (ROWS, COLUMNS))
            held.copy_(torch.cat([held[1:].clone(), at(x, torch.float16, (1, COLUMNS))]))
            at(sums, torch.float16, (COLUMNS,)).copy_(held.sum(0))
        return True

    def assert_moves(self, cache: torch.Tensor) -> None:
        """Run it, and compare with what it must do."""
        x = torch.randn(COLUMNS).half()
        wanted = torch.cat([cache[1:], x[None]])
        sums, left = self.runner([x, cache])
        assert left is cache
        torch.testing.assert_close(cache, wanted, rtol=0, atol=0)
        torch.testing.assert_close(sums, wanted.sum(0), rtol=0, atol=0)


def test_the_output_is_bound_to_the_memory_of_the_input() -> None:
    engine, cache = CacheEngine(), _cache()
    for _ in range(4):
        engine.assert_moves(cache)
    engine.assert_moves(_cache())


def test_a_cache_that_is_not_aligned_is_written_all_the_same() -> None:
    engine = CacheEngine()
    for _ in range(3):
        engine.assert_moves(_cache(1))


def test_graphs_are_recorded_for_the_memory_that_they_write_to() -> None:
    engine, choice = CacheEngine(), GraphChoice(2)
    caches = [_cache() for _ in range(2)]
    with choosing_graphs(choice):
        for _ in range(4):
            engine.assert_moves(caches[0])
        assert engine.gpu.recorded == 1
        for _ in range(4):
            for cache in caches:
                engine.assert_moves(cache)
        assert engine.gpu.recorded == 2
        for _ in range(3):  # a graph would write to a copy of it
            engine.assert_moves(_cache(1))
    assert engine.gpu.recorded == 2


# Quick: one of the four ways to write; programs of tests/runtime/test_caches_in_place.py write in the others.
@pytest.mark.skipif(installed_rtx_version() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize(
    "name",
    [
        "index_copy",
        pytest.param("slice", marks=pytest.mark.slow),
        pytest.param("each batch", marks=pytest.mark.slow),
        pytest.param("given, of any batch", marks=pytest.mark.slow),
    ],
)
def test_the_builder_takes_caches_that_are_written_in_place(name: str) -> None:
    model: torch.nn.Module
    given: tuple[torch.Tensor, ...]
    shapes: Any = None
    if name in WRITES:
        model, given = Decoder(WRITES[name]), step_inputs(3)
    else:
        batch = torch.export.Dim("batch", min=2, max=9)
        model, shapes = GivenCaches(), ({0: batch}, None, {0: batch}, {0: batch})
        given = (torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([STEPS - 1]), *torch.zeros(2, *SHAPE))
    exported = torch.export.export(model, given, dynamic_shapes=shapes)
    # The networks are compared with the original at each corner.
    program = trtdiag.compile(exported, backend="tensorrt-rtx", gpu=("sm75", "sm120"), build_in_process=True)
    (manifest,) = program.manifests
    assert len(manifest.written) == 2
