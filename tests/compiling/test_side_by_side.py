"""Several processes on one engine cache and one output, and several threads in compiled programs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import trtdiag
from trtdiag.engine.saved_engines import SavedEngines
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import CACHE

ROOT = Path(__file__).resolve().parent.parent.parent
MANY = 8


class Apart(nn.Module):
    """Engines with PyTorch between them, of which each seed makes another."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.last = nn.Linear(5, 7).requires_grad_(False), nn.Linear(7, 3).requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.erfinv(torch.tanh(self.first(x)) / 2)
        return torch.sigmoid(self.last(y)), y.sum(1)


MODELS = [Apart(seed) for seed in range(MANY)]
"""Made by one thread: torch's random numbers are all threads'."""


def _exported(seed: int) -> ExportedProgram:
    return torch.export.export(MODELS[seed], (torch.randn(4, 5),), dynamic_shapes=({0: Dim("n", min=1, max=64)},))


def _made(seed: int) -> CompiledProgram:
    return trtdiag.compile(_exported(seed), backend="reference", min_segment_ops=1, verify=False)


def _right(program: CompiledProgram, seed: int, size: int) -> None:
    x = torch.linspace(-1, 1, 5 * size).reshape(size, 5)
    for got, wanted in zip(program(x), MODELS[seed](x), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


# Quick: some threads share a program, and none has one for itself alone.
@pytest.mark.parametrize("count", [3, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, MANY))])
@pytest.mark.slow  # quick: tests/runtime/test_torch_compile.py
def test_threads_run_programs_that_none_has_run_before(count: int) -> None:
    """One program for all threads, or one for each; every thread begins at once, at sizes of its own."""
    programs = [_made(seed) for seed in range(count)]
    start = Barrier(MANY)

    def run(thread: int) -> None:
        start.wait()
        for turn in range(12):
            seed = (thread + turn) % count
            _right(programs[seed], seed, 1 + (7 * thread + turn) % 64)

    with ThreadPoolExecutor(MANY) as pool:
        for done in [pool.submit(run, thread) for thread in range(MANY)]:
            done.result()


@pytest.mark.slow  # quick: threads run programs that none has run before
def test_threads_load_save_and_let_go(tmp_path: Path) -> None:
    """Programs come and go in each thread, with engines that they share, while one file is saved again and again."""
    path = tmp_path / "a.ep"
    first = _made(0)
    trtdiag.save(first, path)
    del first
    start = Barrier(MANY)

    def turn(thread: int) -> None:
        start.wait()
        for index in range(3):
            program = trtdiag.load(path)
            _right(program, 0, 1 + thread + index)
            trtdiag.save(program, path)

    with ThreadPoolExecutor(MANY) as pool:
        for done in [pool.submit(turn, thread) for thread in range(MANY)]:
            done.result()
    _right(trtdiag.load(path), 0, 64)
    assert [each.name for each in tmp_path.iterdir()] == ["a.ep"]


@pytest.mark.slow  # quick: threads run programs; that their engines go is looked at here alone
def test_engines_go_with_the_programs_of_all_threads() -> None:
    before = len(CACHE)
    exported = [_exported(seed) for seed in range(3)]  # torch exports in one thread at a time

    def one(seed: int) -> None:
        made = trtdiag.compile(exported[seed], backend="reference", min_segment_ops=1, verify=False)
        _right(made, seed, 3)

    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(one, [index % 3 for index in range(MANY)]))
    assert len(CACHE) <= before


COMPILES = """
import sys
import torch, trtdiag
from trtdiag.errors import TrtdiagError
from tests.compiling.test_side_by_side import Apart
model, cache, output, seed = *sys.argv[1:4], int(sys.argv[4])
for turn in range(4):
    program = trtdiag.compile(model, backend="reference", min_segment_ops=1, engine_cache=cache, engine_cache_mib=1)
    trtdiag.save(program, output)
    found = trtdiag.load(output)
    x = torch.linspace(-1, 1, 5 * (1 + seed + turn)).reshape(-1, 5)
    assert any(torch.allclose(found(x)[0], Apart(other)(x)[0], rtol=1e-5, atol=1e-6) for other in range(2))
print("done")
"""


@pytest.mark.slow
def test_processes_share_an_engine_cache_and_an_output(tmp_path: Path) -> None:
    """What is at the output is always one of the programs as a whole, and the cache serves all of them."""
    for seed in range(2):
        torch.export.save(_exported(seed), tmp_path / f"m{seed}.pt2")
    cache, output = tmp_path / "cache", tmp_path / "out.ep"
    command = [sys.executable, "-W", "ignore", "-c", COMPILES]
    running = [
        subprocess.Popen(
            [*command, str(tmp_path / f"m{index % 2}.pt2"), str(cache), str(output), str(index)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(MANY)
    ]
    ended = [(process, *process.communicate(timeout=600)) for process in running]
    for process, out, err in ended:
        assert process.returncode == 0, err[-2000:]
        assert out.strip().endswith("done")
    with zipfile.ZipFile(output) as archive:
        assert archive.testzip() is None
    trtdiag.load(output)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cache", "m0.pt2", "m1.pt2", "out.ep"]
    assert len(list(cache.iterdir())) == len(list(cache.glob("*.engine"))) == 4  # two engines of two programs, once
    saved = SavedEngines.at(str(cache), 1)
    assert all(saved.folder / each.name == each for each in cache.iterdir())
