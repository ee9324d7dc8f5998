"""Builds in processes of their own: what comes back, what becomes of one that ends, and when they end."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.linear_network import PROFILE, linear, linear_network
from tests.engine.standin_builder import Fork, Standin, register
from tests.harness.logged import listening
from trtdiag.engine import isolated_builds as owning, parallel_builds as building, reused_builder_process as keeping
from trtdiag.engine.backend import Backend, get_backend
from trtdiag.engine.build import Engine, build_engine
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.engine_bytes import sha256_of
from trtdiag.engine.isolated_builds import isolated_builds
from trtdiag.engine.parallel_builds import build_engines
from trtdiag.errors import EngineBuildError
from trtdiag.network import DType, Network, NetworkBuilder, Origin, weights
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target

TARGET = get_target("11.4")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="builds are in this process there")


@pytest.fixture(params=[{}])
def started(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Fork]:
    """The processes of a backend whose ``Activation`` layers do what the parameter says."""
    return register(monkeypatch, request.param)


def ends_by(number: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("started", [{"Activation": number}], indirect=True)


def _crashing() -> Network:
    builder = NetworkBuilder({})
    with builder.at(Origin("aten.relu.default", "relu")):
        x = builder.input("x", DType.FLOAT32, [5, 5])
        builder.output("y", builder.add_single(Activation(ActivationType.RELU), x))
    return builder.build()


CRASHING = (_crashing(), {"x": PROFILE["x"][1:] * 2})


def _linear(number: float = 0.0) -> tuple[Network, Any]:
    model = linear()
    model.weight.fill_(number)
    return linear_network(model), PROFILE


def _one(backend: Backend, wanted: tuple[Network, Any], watch: Watch | None = None, **options: Any) -> Engine:
    return build_engine(backend, *wanted, CompileOptions(**options), TARGET, watch)


@pytest.fixture
def apart(started: list[Fork]) -> Iterator[Backend]:
    with isolated_builds(get_backend("standin"), CompileOptions()) as backend:
        yield backend
    assert all(each.returncode is not None for each in started)


def test_an_engine_comes_with_all_that_is_said_of_it(apart: Backend, started: list[Fork]) -> None:
    told: list[tuple[str, float]] = []
    watch = Watch(lambda words, share: told.append((words, share)))
    with listening() as heard:
        engine = _one(apart, _linear(), watch)
    assert engine.blob == _one(get_backend("standin"), _linear()).blob
    assert (engine.notes, watch.warnings, told) == (("a note",), ["a warning"], [("half", 0.5)])
    (child,) = started
    assert f"built by {child.pid}" in heard.messages
    with listening() as heard, heard.at_level(logging.ERROR, "trtdiag.tensorrt"):
        _one(apart, _linear(1))
    assert heard.messages == []
    assert started == [child]


def test_an_error_keeps_what_it_knows(apart: Backend, started: list[Fork]) -> None:
    with pytest.raises(EngineBuildError) as caught:
        _one(apart, _linear(), workspace_mib=1)
    assert (caught.value.reference, caught.value.without_kernel) == ("engine-refused", ("a", "b"))
    with pytest.raises(FileNotFoundError, match="a file of the builder's") as other:
        _one(apart, _linear(), workspace_mib=2)
    assert "standin_builder.py" in str(other.value.__cause__)
    _one(apart, _linear())  # errors end no process
    assert len(started) == 1


@ends_by(signal.SIGSEGV)
def test_a_crash_is_an_error_and_what_follows_is_built(apart: Backend, started: list[Fork]) -> None:
    with pytest.raises(EngineBuildError) as caught:
        _one(apart, CRASHING)
    assert caught.value.reference == "builder-ended"
    assert caught.value.because == (
        'its process was ended by SIGSEGV (it said "a library says something of Activation") while it built this engine'
    )
    assert _one(apart, _linear()).blob
    assert len(started) == 3  # a spare one starts: while an op is looked for, several end
    assert apart.builders is not None
    apart.builders.rest()
    assert all(each.returncode is not None for each in started)
    _one(apart, _linear())
    assert len(started) == 4


@ends_by(signal.SIGKILL)
def test_what_somebody_else_ended_is_no_crash(apart: Backend) -> None:
    with pytest.raises(EngineBuildError) as caught:
        _one(apart, CRASHING)
    assert caught.value.reference == "builder-killed"
    assert "SIGKILL" in caught.value.because
    assert "memory" in caught.value.because


@ends_by(signal.SIGABRT)
def test_of_several_at_once_only_the_one_at_fault_is_blamed(apart: Backend, started: list[Fork]) -> None:
    wanted = [_linear(1), _linear(2), CRASHING, _linear(3)]
    with pytest.raises(EngineBuildError, match="engine 2") as caught:
        build_engines(apart, wanted, CompileOptions(build_jobs=4), TARGET)
    assert (caught.value.reference, caught.value.engine) == ("builder-ended", 2)
    others = build_engines(apart, [_linear(1), _linear(2)], CompileOptions(build_jobs=2), TARGET)
    assert [each.blob for each in others] == [_one(get_backend("standin"), _linear(number)).blob for number in (1, 2)]


@pytest.mark.parametrize("room", [True, False])
def test_as_many_are_started_as_are_built_at_once_and_there_is_room_for(
    room: bool, apart: Backend, started: list[Fork], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not room:
        monkeypatch.setattr(owning.IsolatedBuilds, "_room", lambda self: not self._all)
    wanted = [_linear(number) for number in range(6)]
    found = build_engines(apart, wanted, CompileOptions(build_jobs=3), TARGET)
    assert len({sha256_of(each.blob) for each in found}) == 6
    assert len(started) in ((1, 2, 3) if room else (1,))


def test_another_one_takes_memory_of_the_gpu(apart: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = apart.builders
    assert isinstance(processes, owning.IsolatedBuilds)
    monkeypatch.setattr(owning, "free_mib", lambda: 1000)
    monkeypatch.setattr(owning.IsolatedBuilds, "_gpu", lambda _self: 0)
    assert processes._room()  # of the first one it is found out
    monkeypatch.setattr(processes, "_all", [None])
    assert not processes._room()
    monkeypatch.setattr(owning, "free_mib", lambda: 10_000)
    assert processes._room()
    monkeypatch.undo()


@ends_by(0)
def test_a_build_that_is_not_wanted_ends_with_its_process(
    apart: Backend, started: list[Fork], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Ctrl-C, which only the main thread hears of."""
    wait, begun = building._wait, threading.Event()

    def interrupt(ends: Any, most_s: float | None = None) -> None:
        if most_s is not None:
            wait(ends, most_s)
            return
        assert begun.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "_wait", interrupt)

    def told(step: str) -> None:
        if "half" in step:
            begun.set()

    with pytest.raises(KeyboardInterrupt):
        build_engines(apart, [CRASHING], CompileOptions(), TARGET, told)
    assert all(each.is_set() for each in building._BUILDING)
    assert started[0].wait() == -signal.SIGKILL
    assert _one(apart, _linear()).blob


def test_weights_are_written_once_and_stay_out_of_the_pipe(
    apart: Backend, started: list[Fork], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    build = owning.BuilderProcess.build

    def counted(self: Any, request: bytes, watch: Watch) -> bytes:
        sent.append(len(request))
        return build(self, request, watch)

    monkeypatch.setattr(owning.BuilderProcess, "build", counted)
    builder = NetworkBuilder({})
    with builder.at(Origin("aten.add.Tensor", "add")):
        for dtype in (torch.float32, torch.float16, torch.bool):
            builder.output(str(dtype), builder.constant(torch.randn(300, 333).transpose(0, 1).to(dtype)))
    wanted = builder.build(), {}
    first, again = _one(apart, wanted), _one(apart, wanted)
    assert first.blob == again.blob == _one(get_backend("standin"), wanted).blob
    assert max(sent) < 10_000
    processes = apart.builders
    assert isinstance(processes, owning.IsolatedBuilds)
    size = os.fstat(processes._weights.file.fileno()).st_size
    assert 300 * 333 * (4 + 2 + 1) <= size < 300 * 333 * (4 + 2 + 1) + 3 * 16


def test_builds_of_a_compilation_share_what_they_measure(started: list[Fork], tmp_path: Path) -> None:
    places: list[Path] = []
    for _ in range(2):
        with listening() as heard, isolated_builds(get_backend("standin"), CompileOptions()) as apart:
            for number in range(3):
                _one(apart, _linear(number))
            assert isinstance(apart.builders, owning.IsolatedBuilds)
            assert apart.builders._timings is not None
            places.append(apart.builders._timings.parent.parent)
            assert places[-1].exists()
        assert [text for text in heard.messages if "knows" in text] == [f"knows of {n} builds" for n in range(3)]
    assert not any(place.exists() for place in places)
    own = tmp_path / "timings"
    with isolated_builds(get_backend("standin"), CompileOptions()) as apart:
        engines = [_one(apart, _linear(number), timing_cache=str(own)) for number in range(2)]
        assert apart.builders._timings is None  # type: ignore[union-attr]
    assert own.read_text() == "a build\n" * 2
    assert not any(str(tmp_path) in repr(engine.manifest) for engine in engines)


def test_a_process_is_warm_before_it_builds(apart: Backend, started: list[Fork]) -> None:
    assert apart.builders is not None
    with listening() as heard:
        apart.builders.start()
        for number in range(2):
            _one(apart, _linear(number))
    told = [text for text in heard.messages if text.startswith(("warmed", "built"))]
    assert told == [f"{what} by {started[0].pid}" for what in ("warmed up", "built", "built")]


def _cannot_start(*_: object) -> Any:
    raise OSError("no processes")


@pytest.mark.parametrize("why", ["no processes", "another GPU", "no room"])
def test_where_none_can_be_had_engines_are_built_here(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, {}, _cannot_start if why == "no processes" else Fork)
    here = get_backend("standin")
    if why == "another GPU":
        monkeypatch.setattr(here, "built_by", lambda: "another GPU")
        monkeypatch.setattr(type(here), "built_by", lambda _self: "a GPU", raising=False)
    if why == "no room":
        monkeypatch.setattr(weights, "disk_usage", lambda _place: type("Room", (), {"free": 0}))
    with listening() as heard, isolated_builds(here, CompileOptions()) as backend:
        blobs = [backend.builders.build(*_linear(), CompileOptions(), TARGET, Watch()) for _ in range(2)]
    assert sha256_of(blobs[0]) == sha256_of(blobs[1])
    assert f"built by {os.getpid()}" in heard.messages
    said = [text for text in heard.messages if text.startswith("engines are built in this process")]
    assert len(said) == 1
    assert ("too little room" if why == "no room" else why) in said[0]


def test_it_is_made_ready_for_the_gpu_that_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def start(_said: object, _pipe: int, _weights: int, *more: object) -> None:
        asked.extend(more)
        raise OSError("a test")

    register(monkeypatch, {}, start)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(Standin, "device", "cuda")
    with isolated_builds(get_backend("standin"), CompileOptions()) as backend:
        assert backend.builders is not None
        backend.builders.start()
    assert asked == ["standin", 3]


def test_it_is_an_option(started: list[Fork]) -> None:
    for backend, options in (
        ("standin", CompileOptions(build_in_process=True)),
        ("reference", CompileOptions()),
    ):
        with isolated_builds(get_backend(backend), options) as made:
            assert made.builders is None
    assert not started


def test_the_process_ends_with_the_one_that_waits_for_it(apart: Backend, started: list[Fork]) -> None:
    _one(apart, _linear())
    processes = apart.builders
    assert isinstance(processes, owning.IsolatedBuilds)
    processes._idle[0]._pipe.close()  # as the system does for a process that is gone
    deadline = time.monotonic() + 30
    while started[0].poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert started[0].returncode == 0


def _next(number: float) -> bytes:
    """The engine of a compilation among others."""
    with keeping.reused_builder_process(), isolated_builds(get_backend("standin"), CompileOptions()) as backend:
        assert backend.builders is not None
        backend.builders.start()
        found = bytes(_one(backend, _linear(number)).blob)
        backend.builders.rest()
    return found


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(keeping, "_IDLE_S", 60.0)
    yield
    keeping._end_all()
    assert not keeping._ALL


@pytest.mark.usefixtures("kept")
def test_a_process_is_kept_for_the_next_compilation_without_the_weights(started: list[Fork]) -> None:
    for number in (1.0, 2.0, 3.0):
        assert _next(number) == bytes(_one(get_backend("standin"), _linear(number)).blob)
        (left,) = keeping._ALL.values()
        assert os.fstat(left.processes._weights.file.fileno()).st_size == 0
    assert len(started) == 1
    assert started[0].poll() is None
    keeping._end_all()
    assert started[0].returncode is not None


@pytest.mark.usefixtures("kept")
def test_a_process_that_nobody_takes_ends(started: list[Fork], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_IDLE_S", 0.01)
    _next(1.0)
    deadline = time.monotonic() + 30
    while started[0].returncode is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not keeping._ALL
    monkeypatch.setattr(keeping, "_IDLE_S", 60.0)
    monkeypatch.setattr(owning.IsolatedBuilds, "_free", lambda _self, least_mib: least_mib < 8192)
    _next(2.0)
    assert not keeping._ALL
    assert started[1].returncode is not None


@pytest.mark.usefixtures("kept")
@ends_by(signal.SIGSEGV)
def test_one_that_crashed_is_followed_by_another(started: list[Fork]) -> None:
    with (
        keeping.reused_builder_process(),
        isolated_builds(get_backend("standin"), CompileOptions()) as backend,
        pytest.raises(EngineBuildError),
    ):
        _one(backend, CRASHING)
    assert not keeping._ALL
    assert all(each.returncode is not None for each in started)
    assert _next(1.0)
