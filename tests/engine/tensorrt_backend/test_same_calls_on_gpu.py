"""Calls like calls before on a GPU: the same memory, the caller's memory, whole programs; needs a GPU and TensorRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from engines_to_run import GRAPHS, MOST_ROWS, compare, model, program, rows_of_input

import trtdiag
from trtdiag.runtime.custom_op import PREPARED
from trtdiag.targets import installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]


@pytest.mark.parametrize("fixed", [False, True], ids=["ranges", "fixed"])
@pytest.mark.parametrize("most", GRAPHS)
def test_calls_on_the_same_memory(name: str, expected: Any, most: int, fixed: bool) -> None:
    made = program(name, "tensorrt", "cuda", fixed=fixed).cuda_graphs(most)
    x = rows_of_input(7)
    for seed in range(30):  # PyTorch hands out the same memory for results again and again
        x.copy_(rows_of_input(7, seed))
        compare(made(x), expected(rows_of_input(7, seed)))
    kept = [(seed, made(rows_of_input(7, seed))) for seed in range(30)]
    for seed, actual in kept:
        compare(actual, expected(rows_of_input(7, seed)))


@pytest.mark.parametrize("fixed", [False, True], ids=["ranges", "fixed"])
@pytest.mark.parametrize("most", GRAPHS)
def test_results_in_the_callers_memory(name: str, expected: Any, most: int, fixed: bool) -> None:
    made = program(name, "tensorrt", "cuda", fixed=fixed).cuda_graphs(most)
    sizes = (7,) if fixed else (1, 7, MOST_ROWS)
    outputs = {rows: made(rows_of_input(rows)) for rows in sizes}
    for seed in range(12):
        for rows in sizes:
            x = rows_of_input(rows, seed)
            assert made.run_into(outputs[rows], x) is outputs[rows]
            compare(outputs[rows], expected(x))
    wide = torch.zeros(7, 14, device="cuda")
    if not isinstance(outputs[7], tuple):  # a slice: the engine cannot write there
        made.run_into(wide[:, ::2], rows_of_input(7))
        compare(wide[:, ::2], expected(rows_of_input(7)))
        assert not wide[:, 1::2].any()


@pytest.mark.filterwarnings("error:a program is not recorded")
def test_a_program_of_several_engines_is_one_graph(tmp_path: Path) -> None:
    plain = program("between", "tensorrt", "cuda", fixed=True)
    # The same engines: another build may choose other kernels.
    trtdiag.save(plain, tmp_path / "program.pt2")
    made = trtdiag.load(tmp_path / "program.pt2").cuda_graphs(2)
    wanted = model("between", "cpu")
    kept = []
    for seed in range(9):
        x = rows_of_input(7, seed)
        kept.append((seed, x, made(x)))
    for seed, x, actual in kept:
        with torch.no_grad():
            compare(actual, wanted(rows_of_input(7, seed).cpu()))
        for one, other in zip(actual, plain(x), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)  # the same kernels
    assert made._whole is not None
    assert not made._whole.refused
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        made(x)
    launches = sum(event.count for event in profile.key_averages() if event.key == "cudaGraphLaunch")
    assert launches == 1, "one launch for all engines and what PyTorch runs between them"


class Words(torch.nn.Module):
    """Inputs of two dtypes that TensorRT 8.6 has not."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = torch.nn.Embedding(37, 16), torch.nn.Linear(16, 7)

    def forward(self, ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.table(ids)) * x.float()


def words(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    ids, x = torch.randint(37, (rows,), generator=random), torch.randn(rows, 7, generator=random)
    return ids.cuda(), x.double().cuda()


@pytest.mark.parametrize("most", GRAPHS)
def test_casts_before_an_engine(most: int) -> None:
    torch.manual_seed(5)
    wanted, dims = Words().eval(), {0: torch.export.Dim("rows", min=1, max=MOST_ROWS)}
    exported = torch.export.export(wanted.cuda(), words(7, 0), dynamic_shapes=(dims, dims))
    made = trtdiag.compile(exported, min_segment_ops=1, optimization_level=1, verify=False).cuda_graphs(most)
    assert len(made.manifests) == 1
    ids, x = words(7, 0)
    into = torch.empty(7, 7, device="cuda")
    with torch.no_grad():
        for seed in range(30):  # the same memory
            for own, tensor in zip((ids, x), words(7, seed), strict=True):
                own.copy_(tensor)
            compare(made(ids, x), (wanted(ids, x).cpu(),))
            compare(made.run_into(into, ids, x), (wanted(ids, x).cpu(),))
        kept = [(rows, seed, made(*words(rows, seed))) for seed in range(9) for rows in (1, 7, MOST_ROWS)]
        for rows, seed, actual in kept:
            compare(actual, (wanted(*words(rows, seed)).cpu(),))
        for seed in range(9):  # ids that are not row-major
            ids, x = words(14, seed)
            compare(made(ids[::2], x[:7]), (wanted(ids[::2], x[:7]).cpu(),))


def test_a_saved_program_calls_its_engines_again(name: str, expected: Any, tmp_path: Path) -> None:
    trtdiag.save(program(name, "tensorrt", "cuda", fixed=False), tmp_path / "program.pt2")
    module = torch.export.load(tmp_path / "program.pt2").module()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # as torch is
    with torch.no_grad():
        kept = [(rows, seed, module(rows_of_input(rows, seed))) for seed in range(9) for rows in (1, 7, MOST_ROWS)]
        assert all(id(engine) in PREPARED for engine in module.buffers() if engine.dtype is torch.uint8)
        with torch.cuda.stream(side):  # another stream has contexts of its own
            kept += [(7, seed, module(rows_of_input(7, seed))) for seed in range(9)]
        side.synchronize()
        for rows, seed, actual in kept:
            compare(actual, expected(rows_of_input(rows, seed)))
