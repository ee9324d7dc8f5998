"""Several engines: how many at once, what is told meanwhile, whose error it is, and how a build ends early."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from tests.engine.linear_network import PROFILE, linear, linear_network
from trtdiag.engine import parallel_builds as building
from trtdiag.engine.backend import get_backend
from trtdiag.engine.build_watch import BuildStep, Watch
from trtdiag.engine.parallel_builds import build_engines, engine_name, jobs_of
from trtdiag.errors import EngineBuildError, InternalError, UserError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target

REFERENCE = get_backend("reference")
TARGET = get_target("11.4")
Building = Callable[[Network, Watch], Any]


class Builder:
    """The reference backend, which does something before each build."""

    name, device = "reference", "cpu"

    def __init__(self, first: Building) -> None:
        self._first = first

    def __getattr__(self, name: str) -> Any:
        return getattr(REFERENCE, name)

    def build(self, network: Network, profile: Any, options: Any, target: Any, watch: Watch) -> Any:
        self._first(network, watch)
        return REFERENCE.build(network, profile, options, target, watch)


def _networks(count: int) -> list[tuple[Network, Any]]:
    """Networks that differ."""
    made = []
    for number in range(count):
        model = linear()
        model.weight.fill_(float(number))
        made.append((linear_network(model), PROFILE))
    return made


def _build(first: Building, count: int, progress: Callable[[str], None] | None = None, **options: Any) -> Any:
    return build_engines(Builder(first), _networks(count), CompileOptions(**options), TARGET, progress)


@pytest.mark.parametrize(("count", "jobs"), [(0, 1), (1, 1), (5, 1), (5, 2), (5, 5), (2, 64)])
def test_engines_come_in_the_order_of_their_networks(count: int, jobs: int) -> None:
    wanted = _networks(count)
    found = build_engines(REFERENCE, wanted, CompileOptions(build_jobs=jobs), TARGET)
    alone = [build_engines(REFERENCE, [one], CompileOptions(), TARGET)[0] for one in wanted]
    assert [engine.blob for engine in found] == [engine.blob for engine in alone]
    assert len({engine.manifest.network_hash for engine in found}) == count


@pytest.mark.parametrize("jobs", [1, 3])
def test_that_many_are_built_at_once(jobs: int) -> None:
    running, most = [0], [0]
    lock = threading.Lock()
    together = threading.Barrier(jobs)

    def count(_network: Network, _watch: Watch) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        together.wait(30)  # breaks where fewer are built at once
        with lock:
            running[0] -= 1

    assert len(_build(count, 2 * jobs, build_jobs=jobs)) == 2 * jobs
    assert most[0] == jobs


def test_one_at_a_time_where_kernels_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    assert [jobs_of(CompileOptions(optimization_level=level), 7) for level in (None, 1, 5)] == [1, 1, 1]
    assert [jobs_of(CompileOptions(optimization_level=0), count) for count in (1, 3, 99)] == [1, 3, 5]
    assert jobs_of(CompileOptions(build_jobs=4), 3) == 3
    with pytest.raises(UserError) as caught:
        jobs_of(CompileOptions(build_jobs=0), 3)
    assert caught.value.reference == "wrong-option"


def test_each_build_says_where_it_is() -> None:
    def steps(_network: Network, watch: Watch) -> None:
        watch.tell("phase 1 of 2", 0.5)
        watch.tell("phase without a length", 0.0)

    told: list[str] = []
    _build(steps, 2, told.append)
    assert told == [
        "building engine 0 (1 of 2), 4 layers",
        "building engine 0 (1 of 2), 4 layers: phase 1 of 2",
        "building engine 0 (1 of 2), 4 layers: phase without a length",
        "building engine 1 (2 of 2), 4 layers",
        "building engine 1 (2 of 2), 4 layers: phase 1 of 2",
        "building engine 1 (2 of 2), 4 layers: phase without a length",
    ]
    assert [step.share for step in told if isinstance(step, BuildStep)] == [0, 0.25, 0.25, 0.5, 0.75, 0.75]
    assert engine_name(0, 1) == "the engine"


@pytest.mark.parametrize("kind", [EngineBuildError, InternalError])
@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_names_its_engine_and_ends_the_others(kind: type[Any], jobs: int) -> None:
    wanted, seen = _networks(9), []

    def refuse(network: Network, watch: Watch) -> None:
        seen.append(network)
        if network is wanted[1][0]:
            raise kind("TensorRT refuses it", because="so", fix="mend", reference="layer-refused")
        deadline = time.monotonic() + 30
        while jobs > 1 and not watch.stopped and time.monotonic() < deadline:
            time.sleep(0.001)

    with pytest.raises(kind) as caught:
        build_engines(Builder(refuse), wanted, CompileOptions(build_jobs=jobs), TARGET)
    assert caught.value.message == "engine 1 (2 of 9): TensorRT refuses it"
    assert (caught.value.because, caught.value.fix, caught.value.reference) == ("so", "mend", "layer-refused")
    assert len(seen) <= jobs + 1


def test_a_build_that_was_stopped_hides_no_error() -> None:
    wanted = _networks(2)
    both = threading.Barrier(2)

    def stopped(network: Network, watch: Watch) -> None:
        both.wait(30)
        if network is wanted[1][0]:
            raise EngineBuildError("the cause", because="b", fix="f", reference="engine-refused")
        deadline = time.monotonic() + 30
        while not watch.stopped and time.monotonic() < deadline:
            time.sleep(0.001)
        raise EngineBuildError("the build was stopped", because="b", fix="f", reference="build-stopped")

    with pytest.raises(EngineBuildError, match="the cause"):
        build_engines(Builder(stopped), wanted, CompileOptions(build_jobs=2), TARGET)


def test_other_errors_come_as_they_are() -> None:
    def fail(_network: Network, _watch: Watch) -> None:
        raise UserError("a wrong option", because="b", fix="f", reference="wrong-option")

    with pytest.raises(UserError) as caught:
        _build(fail, 3)
    assert caught.value.message == "a wrong option"

    def broken(_network: Network, _watch: Watch) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _build(broken, 3)


def test_a_listener_that_raises_ends_the_builds() -> None:
    seen: list[Network] = []

    def listener(words: str) -> None:
        raise KeyError(words)

    with pytest.raises(KeyError, match="building engine 0"):
        _build(lambda network, _watch: seen.append(network), 3, listener)
    assert len(seen) <= 1


def test_ctrl_c_stops_a_build_that_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    ended: list[bool] = []

    def long(_network: Network, watch: Watch) -> None:
        begun.set()
        deadline = time.monotonic() + 30
        while not watch.stopped and time.monotonic() < deadline:
            time.sleep(0.001)
        ended.append(watch.stopped)

    _interrupted(monkeypatch, long, begun)
    assert ended == [True]
    assert all(ended.is_set() for ended in building._BUILDING)


def test_ctrl_c_leaves_a_build_that_cannot_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()

    def long(_network: Network, _watch: Watch) -> None:
        begun.set()
        release.wait(60)

    monkeypatch.setattr(building, "_GRACE_S", 0.0)
    _interrupted(monkeypatch, long, begun)
    assert not all(ended.is_set() for ended in building._BUILDING)
    release.set()
    assert all(ended.wait(60) for ended in building._BUILDING)
    assert all(ended.is_set() for ended in building._BUILDING)


def _interrupted(monkeypatch: pytest.MonkeyPatch, first: Building, begun: threading.Event) -> None:
    """Two engines of which the first is being built when the main thread gets Ctrl-C."""
    wait = building._wait

    def interrupt(threads: Any, most_s: float | None = None) -> None:
        if most_s is not None:
            wait(threads, most_s)
            return
        assert begun.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "_wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _build(first, 2)


def test_builds_know_no_mode_of_the_caller() -> None:
    seen: list[bool] = []
    with torch.inference_mode():
        _build(lambda _network, _watch: seen.append(torch.is_inference_mode_enabled()), 1)
    assert seen == [False]


def test_engines_are_built_for_the_gpu_that_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[tuple[str, int]] = []

    @contextmanager
    def device(index: int) -> Iterator[None]:
        chosen.append((threading.current_thread().name, index))
        yield

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "device", device)
    backend = Builder(lambda _network, _watch: None)
    backend.device = "cuda"
    build_engines(backend, _networks(2), CompileOptions(build_jobs=2), TARGET)
    assert sorted(chosen) == [("trtdiag-build-0", 3), ("trtdiag-build-1", 3)]
