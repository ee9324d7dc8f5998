"""Engines of several profiles: what TensorRT is told of them, and a context and recorded runs for each."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from host_engine import CPU, HostGpu, RowSums, manifest
from standin import Recorded

from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.manifest import EngineOutput, EngineProfile, Manifest
from trtdiag.engine.manifest_text import manifest_from_text, manifest_to_text
from trtdiag.engine.profiles import SeveralProfiles, built_profile, several
from trtdiag.engine.tensorrt.engine_bindings import ALIGNMENT
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.engine.tensorrt.single_context import SHARING
from trtdiag.errors import ShapeOutOfRangeError
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import symbol
from trtdiag.targets import TARGETS

VERSIONS = [target.version for target in TARGETS]
FIXED = DimProfile(5, 5, 5)
ONE = EngineProfile("one", ((DimProfile(1, 1, 1), FIXED),))
MORE = EngineProfile("more", ((DimProfile(3, 4, 8), FIXED),))


def _known() -> Manifest:
    known = manifest()
    port = replace(known.inputs[0], profile=(DimProfile(1, 1, 8), FIXED))
    outputs = (EngineOutput("y", torch.float16, (symbol("s"),)),)
    return replace(known, inputs=(port,), outputs=outputs, ranges={}, profiles=(ONE, MORE))


def _runner(engine: RowSums, gpu: HostGpu | None = None) -> EngineRunner:
    def made(*_: object) -> Recorded:
        context = engine.trt._new("IExecutionContext", "test", (), {})
        # TensorRT 8.6 gives the first context the first profile, and none to others.
        context.__dict__["facts"] = {"active_optimization_profile": -1 if len(engine.contexts) > 1 else 0}
        return context

    for name in ("create_execution_context", "create_execution_context_without_device_memory"):
        engine.trt.answers[name] = made
    return EngineRunner(engine.trt, engine.engine, _known(), CPU, gpu=gpu or HostGpu())


def _run(runner: EngineRunner, rows: int) -> None:
    x = torch.randn(rows, 5).half()
    torch.testing.assert_close(runner([x])[0], x.sum(1), rtol=0, atol=0)


def _aligned(rows: int, columns: int = 5) -> torch.Tensor:
    """Memory that an engine reads where it is: PyTorch on the CPU aligns to less than a GPU does."""
    memory = torch.randn(256 + rows * columns).half()
    start = -memory.data_ptr() % ALIGNMENT // 2
    return memory[start : start + rows * columns].view(rows, columns)


def _chosen(engine: RowSums) -> list[list[int]]:
    return [[a[0] for name, a, _ in c.calls if name == "set_optimization_profile_async"] for c in engine.contexts]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_profile_has_a_context(version: str) -> None:
    engine = RowSums(version)
    runner = _runner(engine)
    for rows in (1, 3, 8, 1, 5, 1):
        _run(runner, rows)
    assert _chosen(engine) == [[], [1]]
    told = [[args[1] for name, args, _ in c.calls if name == "set_input_shape"] for c in engine.contexts]
    assert told == [[(1, 5)], [(3, 5), (8, 5), (5, 5)]]  # the sizes of the other profile do not come between


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_context_may_be_of_a_later_profile(version: str) -> None:
    engine = RowSums(version)
    runner = _runner(engine)
    for rows in (4, 1):
        _run(runner, rows)
    assert _chosen(engine) == [[1], [0]]


def test_sizes_between_profiles_are_refused_by_name() -> None:
    engine = RowSums("10.16")
    runner = _runner(engine)
    with pytest.raises(ShapeOutOfRangeError) as caught:
        runner([torch.zeros(2, 5).half()])
    assert caught.value.reference == "outside-profiles"
    assert "dim 0 of 'x' has size 2 (one takes 1, more takes 3 to 8)" in str(caught.value)
    assert not engine.contexts


def test_runs_of_each_profile_are_prepared() -> None:
    engine = RowSums("10.16")
    runner = _runner(engine)
    x, y = _aligned(1), _aligned(6)
    for given in (x, y):
        runner([given])
    runs = [runner.prepared([given]) for given in (x, y)]
    for given, run in zip((x, y), runs, strict=True):  # none makes the other's sizes stale
        assert run is not None
        made = run([given], [_aligned(len(given), 1)[:, 0]])
        assert made is not None
        torch.testing.assert_close(made[0], given.sum(1), rtol=0, atol=0)


def test_recorded_runs_of_each_profile() -> None:
    engine, gpu = RowSums("8.6"), HostGpu()
    runner = _runner(engine, gpu)
    with choosing_graphs(GraphChoice(1)):
        for rows in (1, 7, 1, 7, 1, 7):
            _run(runner, rows)
    assert gpu.recorded == 2  # one each, though a graph is kept for one set of sizes


def test_without_sharing_each_profile_has_one_context_in_the_same_memory() -> None:
    engine, gpu = RowSums("8.6"), HostGpu([1, 2, 2, 1])
    del engine.trt.PreviewFeature.__members__[SHARING]
    runner = _runner(engine, gpu)
    for rows in (1, 4, 6, 1):
        _run(runner, rows)
    assert _chosen(engine) == [[], [1]]
    assert gpu.followed == [0, 1]  # also a run of the other profile waits: they share memory
    assert len({c.seen["device_memory"] for c in engine.contexts}) == 1


def test_the_manifest_keeps_profiles() -> None:
    known = _known()
    text = manifest_to_text(known)
    assert manifest_from_text(text) == known
    assert "profiles" not in manifest_to_text(replace(known, profiles=()))
    found = built_profile(manifest_from_text(text))
    assert isinstance(found, SeveralProfiles)
    assert [name for name, _ in found.parts] == ["one", "more"]
    assert dict(found) == {"x": (DimProfile(1, 1, 8), FIXED)}


def test_what_an_engine_has_twice_is_one_profile() -> None:
    own = {"x": (FIXED, DimProfile(1, 2, 8))}
    inside = {"x": (FIXED, DimProfile(2, 2, 3))}
    assert several([("a", own), ("b", own), ("c", inside)]) == own
    assert not isinstance(several([("a", own), ("b", own)]), SeveralProfiles)
