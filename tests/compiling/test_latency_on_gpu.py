"""``optimize="latency"`` where TensorRT and AOTInductor run; needs a GPU, TensorRT, a C++ compiler and triton."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtdiag
from tests.compiling.staying_ops import ALL, FASTER, NONE, Picks, timed
from trtdiag.engine.inductor.compile_segment import compiled_bytes
from trtdiag.engine.inductor.kernel_times import busy_ms
from trtdiag.engine.inductor.package import Package
from trtdiag.engine.inductor.runner import CompiledCode
from trtdiag.engine.inductor.segment_graphs import SegmentGraphs
from trtdiag.engine.tensorrt.gpu import Gpu, Replay, Work
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
    pytest.mark.skipif(find_spec("triton") is None, reason="AOTInductor needs triton on a GPU"),
]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.InstanceNorm2d(8), nn.GELU())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))  # type: ignore[no-any-return]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_both_ways_of_each_block_run_and_the_program_agrees(device: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    module, x = Net().eval().to(device), torch.randn(2, 3, 32, 34, device=device)
    dims = ({0: Dim("batch", min=1, max=5), 2: Dim("high", min=8, max=65), 3: Dim("wide", min=8, max=67)},)
    options = CompileOptions(
        None, "tensorrt", optimization_level=1, partition=PartitionOptions(min_segment_ops=0), optimize="latency"
    )
    state = compile_in_stages((module, (x,), {}, dims), options)
    assert state.verified.passed
    assert state.optimization is not None
    for block in state.optimization.blocks:
        assert {*block.times_ms} == {"tensorrt", "inductor"}, block
    trtdiag.save(state.compiled, tmp_path / "fastest.pt2")
    for loaded in (trtdiag.load(tmp_path / "fastest.pt2"), torch.export.load(tmp_path / "fastest.pt2").module()):
        for shape in ((1, 3, 8, 8), (3, 3, 37, 41), (5, 3, 65, 67)):
            for _ in range(4):  # the second is recorded, and those behind it are replayed
                given = torch.randn(shape)
                expected = module(given.to(device)).cuda()
                # float32, sums of at most 72 terms in another order
                torch.testing.assert_close(loaded(given.cuda()), expected, rtol=1e-3, atol=1e-4)


class CountingGpu(Gpu):
    recorded = 0

    def record(self, device: torch.device, work: Work) -> Replay:
        self.recorded += 1
        return super().record(device, work)


def test_compiled_code_is_replayed_and_agrees() -> None:
    torch.manual_seed(7)
    module, x, gpu = Net().eval().cuda(), torch.randn(2, 3, 32, 34, device="cuda"), CountingGpu()
    dims = ({0: Dim("batch", min=1, max=5), 2: Dim("high", min=8, max=65), 3: Dim("wide", min=8, max=67)},)
    blob = compiled_bytes(torch.export.export(module, (x,), dynamic_shapes=dims), "cuda", graphs=2)
    device = torch.device("cuda", torch.cuda.current_device())
    made = Package.read(blob)
    code = CompiledCode(made, device)
    graphs = SegmentGraphs(lambda inputs: tuple(code(inputs)), device, made.graphs, gpu)
    kept = []
    for _ in range(5):
        for shape in ((1, 3, 8, 8), (5, 3, 65, 67)):
            given = torch.randn(shape, device="cuda")
            outputs = graphs([given])
            (own,) = code([given]) if outputs is None else outputs
            # float32, sums of at most 72 terms in another order
            torch.testing.assert_close(own, module(given), rtol=1e-3, atol=1e-4)
            kept.append((own, own.clone()))
    assert (gpu.recorded, graphs.refused) == (2, "")
    assert all(torch.equal(now, before) for now, before in kept), "results are the caller's to keep"


def test_what_stays_with_pytorch_is_compiled_and_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(11)
    module, x = Picks().eval().cuda(), torch.randn(9, 6, device="cuda")
    # Which is faster depends on the machine: here what was compiled is taken, where it runs.
    timed(monkeypatch, FASTER, {"": 10.0, ALL: 7.0, NONE: 8.0})
    options = CompileOptions(
        None, "tensorrt", optimization_level=1, partition=PartitionOptions(min_segment_ops=0), optimize="latency"
    )
    state = compile_in_stages((module, (x,), {}, ({0: Dim("rows", min=1, max=33)},)), options)
    assert state.verified.passed
    assert state.optimization is not None
    assert state.optimization.pytorch_segments
    for row in state.optimization.pytorch_segments:
        assert row.compiled, row
    trtdiag.save(state.compiled, tmp_path / "stays.pt2")
    loaded = trtdiag.load(tmp_path / "stays.pt2")
    for rows in (1, 7, 33):
        # Of equal rows none or all are picked, by their sign.
        for given in (torch.randn(rows, 6), torch.full((rows, 6), 100.0), torch.full((rows, 6), -100.0)):
            for own, expected in zip(loaded(given.cuda()), module(given.cuda()), strict=True):
                # float32 of 6 terms in another order, which TF32 must not round: cumulated over 33 rows
                torch.testing.assert_close(own, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("size", [1, 1021, 2**26])
def test_kernels_that_are_chosen_among_are_timed(size: int) -> None:
    x = torch.randn(size, device="cuda")
    assert 0 < busy_ms(lambda: torch.nn.functional.gelu(x)) < float("inf")
