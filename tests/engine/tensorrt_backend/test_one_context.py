"""Engines of a TensorRT whose contexts cannot share a profile: one context, taken in turns."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from host_engine import Engine, HostGpu, manifest
from standin import Recorded

from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.engine.tensorrt.single_context import SHARING, has_one_context
from trtdiag.errors import PlatformError, UserError
from trtdiag.shapes.profile import DimProfile
from trtdiag.targets import TARGETS


def _without_sharing() -> Engine:
    """As TensorRT 8.6, but for the feature."""
    engine = Engine("8.6")
    del engine.trt.PreviewFeature.__members__[SHARING]
    return engine


def _run(runner: EngineRunner, engine: Engine, rows: int, n: int) -> None:
    given = engine.inputs(rows, n)
    given[0] = torch.randn(rows, 5).half()
    (y,) = runner(given)
    torch.testing.assert_close(y, given[0].sum(1) + torch.arange(n)[:, None].half(), rtol=0, atol=0)


def test_streams_take_turns() -> None:
    engine, gpu = _without_sharing(), HostGpu([1, 2, 1])
    runner = engine.runner(gpu)
    for rows in (3, 5, 3):
        _run(runner, engine, rows, 4)
    assert len(engine.contexts) == 1
    assert gpu.followed == [0, 1]  # each run after the one before, whatever its stream


def test_threads_take_turns() -> None:
    engine = _without_sharing()
    runner = engine.runner()

    def work(rows: int) -> None:
        for n in range(7):
            _run(runner, engine, rows, n)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, (1, 3, 5, 8)))
    assert len(engine.contexts) == 1


def test_graphs_are_recorded_while_sizes_stay() -> None:
    engine, gpu = _without_sharing(), HostGpu()
    runner = engine.runner(gpu)
    with choosing_graphs(GraphChoice(4)):
        for _ in range(4):
            _run(runner, engine, 3, 4)
        assert gpu.recorded == 1
        _run(runner, engine, 5, 4)
        _run(runner, engine, 3, 4)
    assert gpu.recorded == 1
    assert len(engine.contexts) == 1


def test_graphs_that_cannot_be_recorded_warn_once() -> None:
    engine, gpu = _without_sharing(), HostGpu()
    runner = engine.runner(gpu)
    gpu.fails = "operation not permitted when stream is capturing"
    with choosing_graphs(GraphChoice(4)):
        for _ in range(2):
            _run(runner, engine, 3, 4)
        with pytest.warns(RuntimeWarning, match="not permitted when stream is capturing"):
            _run(runner, engine, 3, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _run(runner, engine, 3, 4)


def test_a_graph_of_more_than_the_engine_is_refused() -> None:
    engine, gpu = _without_sharing(), HostGpu()
    runner = engine.runner(gpu)
    _run(runner, engine, 3, 4)
    gpu.is_recording = True
    with pytest.raises(UserError) as caught:
        _run(runner, engine, 3, 4)
    assert caught.value.reference == "recorded-one-context"


@pytest.mark.parametrize("version", [target.version for target in TARGETS])
def test_other_releases_have_as_many_as_are_wanted(version: str) -> None:
    assert not has_one_context(Engine(version).trt, manifest())


def test_fixed_sizes_are_no_profile_to_share() -> None:
    engine = _without_sharing()
    fixed = DimProfile(5, 5, 5)
    known = manifest()
    assert has_one_context(engine.trt, known)
    inputs = tuple(replace(port, profile=(fixed,) * len(port.profile)) for port in known.inputs)
    assert not has_one_context(engine.trt, replace(known, inputs=inputs))


@pytest.mark.parametrize("answer", ["taken", "refused", "raised"])
def test_a_second_context_asks_for_the_profile(answer: str) -> None:
    engine = Engine("8.6")
    made: list[Recorded] = []

    def make(_: object) -> Recorded:
        context = engine.trt._new("IExecutionContext", "test", (), {})
        context.__dict__["facts"] = {"active_optimization_profile": -1 if made else 0}
        made.append(context)
        return context

    def choose(*_: object) -> bool:
        if answer == "raised":
            raise RuntimeError("Error in set optimization profile async.")
        return answer == "taken"

    engine.trt.answers["create_execution_context_without_device_memory"] = make
    engine.trt.answers["set_optimization_profile_async"] = choose
    runner = engine.runner(HostGpu([1, 2]))
    _run(runner, engine, 3, 4)
    if answer == "taken":
        _run(runner, engine, 3, 4)
        assert ("set_optimization_profile_async", (0, 2), {}) in made[1].calls
        return
    with pytest.raises(PlatformError, match="second context"):
        _run(runner, engine, 3, 4)
