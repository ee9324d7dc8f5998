"""Which threads are inside TensorRT at once: a call that keeps Python's lock while another builds may wait for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from standin import TensorRT

from tests.engine.linear_network import PROFILE, linear, linear_network
from tests.harness.logged import Logged
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.gil_lock import Turns
from trtdiag.engine.parallel_builds import build_engines
from trtdiag.engine.tensorrt import backend as home, build as building
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.errors import EngineBuildError
from trtdiag.options import CompileOptions
from trtdiag.targets import TARGETS, get_target

LIMIT_S = 30.0
"""Of waiting for another thread: more than any machine needs, so that a test that is wrong ends."""


def _thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _waits(turns: Turns, count: int) -> None:
    """Until that many threads wait to be alone."""
    until = time.monotonic() + LIMIT_S
    while len(turns._coming) < count:
        assert time.monotonic() < until
        time.sleep(0.001)


@contextmanager
def _a_build(turns: Turns) -> Iterator[Callable[[], None]]:
    """While another thread is beside others; what is given ends that."""
    inside, go = threading.Event(), threading.Event()

    def build() -> None:
        with turns.beside():
            inside.set()
            assert go.wait(LIMIT_S)

    thread = _thread(build)
    assert inside.wait(LIMIT_S)
    try:
        yield go.set
    finally:
        go.set()
        thread.join(LIMIT_S)


def test_those_beside_each_other_run_at_once() -> None:
    turns, together = Turns(), threading.Barrier(5)

    def build() -> None:
        with turns.beside():
            together.wait(LIMIT_S)

    threads = [_thread(build) for _ in range(5)]
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    assert not together.broken


def test_one_alone_waits_for_all_others_and_goes_before_those_who_come_later() -> None:
    turns, order = Turns(), []
    inside, go = threading.Event(), threading.Event()

    def first() -> None:
        with turns.beside():
            inside.set()
            assert go.wait(LIMIT_S)
            order.append("the first ends")

    def alone() -> None:
        with turns.alone():
            with turns.alone():  # what one who is alone calls may ask for it, too
                order.append("alone")
            assert turns._beside == 0
            time.sleep(0.05)
            order.append("still alone")

    def later() -> None:
        with turns.beside():
            order.append("later")

    threads = [_thread(first)]
    assert inside.wait(LIMIT_S)
    threads.append(_thread(alone))
    _waits(turns, 1)
    threads.append(_thread(later))
    time.sleep(0.05)
    assert order == []
    go.set()
    for thread in threads:
        thread.join(LIMIT_S)
    assert order == ["the first ends", "alone", "still alone", "later"]


def test_who_comes_later_is_waited_for() -> None:
    turns, order = Turns(), []
    there, go = threading.Event(), threading.Event()

    def late() -> None:
        with turns.coming():
            there.set()
            assert go.wait(LIMIT_S)
            with turns.alone():
                order.append("the late one was alone")
            with turns.beside():
                order.append("both beside")

    def early() -> None:
        with turns.coming():
            with turns.alone():
                order.append("the early one was alone")
            with turns.beside():
                order.append("both beside")

    def needs_nothing() -> None:
        with turns.coming():
            order.append("from a cache")

    threads = [_thread(late)]
    assert there.wait(LIMIT_S)
    threads.append(_thread(early))
    _waits(turns, 1)
    time.sleep(0.05)
    assert order == ["the early one was alone"]
    go.set()
    for thread in threads:
        thread.join(LIMIT_S)
    assert order == ["the early one was alone", "the late one was alone", "both beside", "both beside"]
    needs_nothing()
    with turns.beside():  # nobody comes any more
        pass
    with turns.coming(), turns.beside():  # one that never is alone waits for nobody
        pass


def test_a_wait_can_be_given_up_and_holds_up_nobody() -> None:
    turns = Turns()

    def enough() -> None:
        raise EngineBuildError("stopped", because="a test", fix="none", reference="build-stopped")

    with _a_build(turns):
        with pytest.raises(EngineBuildError), turns.alone(enough):
            raise AssertionError("it was not alone")
        with turns.beside():  # nobody waits to be alone any more
            pass
    with turns.alone():
        pass


def test_a_long_wait_is_logged_once(monkeypatch: pytest.MonkeyPatch, logged: Logged) -> None:
    monkeypatch.setattr("trtdiag.engine.gil_lock.PATIENCE_S", 0.0)
    turns = Turns()

    def load() -> None:
        with turns.alone():
            pass

    with _a_build(turns) as ends:
        waiting = _thread(load)
        until = time.monotonic() + LIMIT_S
        while not logged.records and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.5)  # more than two looks
        ends()
        waiting.join(LIMIT_S)
    assert logged.messages == ["an engine is being built in another thread: this one goes on when that is done"]


def test_what_is_put_away_goes_when_nobody_is_inside() -> None:
    turns, freed = Turns(), []
    turns.put_away(lambda: freed.append("at once"))
    assert freed == ["at once"]
    with turns.beside():
        turns.put_away(lambda: freed.append("after a build"))
        assert len(freed) == 1
    assert len(freed) == 2
    with turns.alone():
        turns.put_away(lambda: freed.append("after a turn alone"))
        assert len(freed) == 2
    assert freed == ["at once", "after a build", "after a turn alone"]
    with turns.alone():
        pass


def _engines(version: str, jobs: int, count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], int]:
    """What was called while another thread built, and how many built at once at most."""
    trt = TensorRT(version)
    monkeypatch.setattr(home, "import_tensorrt", lambda: InstalledTensorRT(trt, trt.__version__, get_target(version)))
    monkeypatch.setattr(home, "require_gpu", lambda: None)
    monkeypatch.setattr(home, "gpu_name", lambda: "GPU")
    monkeypatch.setattr(home, "compute_capability", lambda: "9.0")
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    builders: set[int] = set()
    most, meanwhile = [0], []
    check = trt.check

    def seen(what: str, *args: Any) -> str:
        others = builders - {threading.get_ident()}
        if others and not what.startswith("Builder.build_serialized_network"):
            meanwhile.append(what)
        return check(what, *args)

    def build(*_: Any) -> Any:
        builders.add(threading.get_ident())
        most[0] = max(most[0], len(builders))
        time.sleep(0.1)  # long enough for a thread that does not wait to write its network
        builders.discard(threading.get_ident())
        return trt._new("IHostMemory", "build", (), {})

    monkeypatch.setattr(trt, "check", seen)
    trt.answers["build_serialized_network"] = build
    networks = []
    for number in range(count):
        model = linear()
        model.weight.fill_(float(number))
        networks.append((linear_network(model), PROFILE))
    build_engines(home.backend(), networks, CompileOptions(build_jobs=jobs), get_target(version))
    return meanwhile, most[0]


@pytest.mark.parametrize("version", [target.version for target in TARGETS])
def test_no_network_is_written_while_another_is_built(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile, most = _engines(version, 3, 7, monkeypatch)
    assert meanwhile == []
    assert most == 3


def test_a_build_that_waits_says_so_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtdiag.engine.gil_lock.PATIENCE_S", 0.0)
    told: list[str] = []
    stop = threading.Event()
    waiting = building._waiting(Watch(lambda words, _share: told.append(words), stop))
    time.sleep(0.001)
    waiting()
    waiting()
    assert told == ["waits for another build of this process"]
    stop.set()
    with pytest.raises(EngineBuildError) as caught:
        waiting()
    assert caught.value.reference == "build-stopped"
