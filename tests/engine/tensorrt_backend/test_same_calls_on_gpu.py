"""Calls like calls before on a GPU: the same memory, the caller's memory, whole programs; needs a GPU and TensorRT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from engines_to_run import MODELS, MOST_ROWS, model, program
from torch import Tensor

from trtdiag.targets import installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
# float32 sums of up to 61 rows in another order, and TensorRT's own erf and exp.
CLOSE = {"rtol": 2e-4, "atol": 2e-4}
GRAPHS = [0, 3]


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def expected(name: str) -> Callable[[Tensor], tuple[Tensor, ...]]:
    made = model(name, "cpu")

    def of(x: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return _several(made(x.detach().cpu()))

    return of


def _several(value: Any) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def _compare(actual: Any, wanted: tuple[Tensor, ...]) -> None:
    for one, other in zip(_several(actual), wanted, strict=True):
        torch.testing.assert_close(one.cpu(), other, **CLOSE)


def _input(rows: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, 5, generator=torch.Generator().manual_seed(seed * 1000 + rows)).cuda()


@pytest.mark.parametrize("fixed", [False, True], ids=["ranges", "fixed"])
@pytest.mark.parametrize("most", GRAPHS)
def test_calls_on_the_same_memory(name: str, expected: Any, most: int, fixed: bool) -> None:
    made = program(name, "tensorrt", "cuda", fixed=fixed).cuda_graphs(most)
    x = _input(7)
    for seed in range(30):  # PyTorch hands out the same memory for results again and again
        x.copy_(_input(7, seed))
        _compare(made(x), expected(_input(7, seed)))
    kept = [(seed, made(_input(7, seed))) for seed in range(30)]
    for seed, actual in kept:
        _compare(actual, expected(_input(7, seed)))


@pytest.mark.parametrize("fixed", [False, True], ids=["ranges", "fixed"])
@pytest.mark.parametrize("most", GRAPHS)
def test_results_in_the_callers_memory(name: str, expected: Any, most: int, fixed: bool) -> None:
    made = program(name, "tensorrt", "cuda", fixed=fixed).cuda_graphs(most)
    sizes = (7,) if fixed else (1, 7, MOST_ROWS)
    outputs = {rows: made(_input(rows)) for rows in sizes}
    for seed in range(12):
        for rows in sizes:
            x = _input(rows, seed)
            assert made.run_into(outputs[rows], x) is outputs[rows]
            _compare(outputs[rows], expected(x))
    wide = torch.zeros(7, 14, device="cuda")
    if not isinstance(outputs[7], tuple):  # a slice: the engine cannot write there
        made.run_into(wide[:, ::2], _input(7))
        _compare(wide[:, ::2], expected(_input(7)))
        assert not wide[:, 1::2].any()


@pytest.mark.filterwarnings("error:a program is not recorded")
def test_a_program_of_several_engines_is_one_graph() -> None:
    made = program("between", "tensorrt", "cuda", fixed=True).cuda_graphs(2)
    wanted = model("between", "cpu")
    plain = program("between", "tensorrt", "cuda", fixed=True)
    kept = []
    for seed in range(9):
        x = _input(7, seed)
        kept.append((seed, x, made(x)))
    for seed, x, actual in kept:
        with torch.no_grad():
            _compare(actual, wanted(_input(7, seed).cpu()))
        for one, other in zip(actual, plain(x), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)  # the same kernels
    assert made._whole is not None
    assert not made._whole.refused
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        made(x)
    launches = sum(event.count for event in profile.key_averages() if event.key == "cudaGraphLaunch")
    assert launches == 1, "one launch for all engines and what PyTorch runs between them"
