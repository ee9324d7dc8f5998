"""How far a build is, as TensorRT's progress monitor tells it from version 10 on, and as 8.6 does not."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest
from refusal_networks import REFUSALS
from standin import TensorRT

from trtdiag.engine.build_watch import Watch
from trtdiag.engine.tensorrt import build as building
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.engine.tensorrt.monitor import Phases
from trtdiag.errors import EngineBuildError
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target

Told = list[tuple[str, float]]


def _watch(stop: Event | None = None) -> tuple[Watch, Told]:
    told: Told = []
    return Watch(lambda words, share: told.append((words, round(share, 3))), stop), told


def test_phases_inside_of_phases_are_shares_of_their_next_step() -> None:
    watch, told = _watch()
    phases = Phases(watch)
    phases.phase_start("Building Engine", None, 4)
    assert phases.step_complete("Building Engine", 0)
    phases.phase_start("Tactics", "Building Engine", 2)
    assert phases.step_complete("Tactics", 0)
    phases.phase_finish("Tactics")
    assert phases.step_complete("Building Engine", 1)
    phases.phase_finish("Building Engine")
    assert told == [
        ("Building Engine 0 of 4", 0.0),
        ("Building Engine 1 of 4", 0.25),
        ("Tactics 0 of 2", 0.25),
        ("Tactics 1 of 2", 0.375),
        ("Building Engine 2 of 4", 0.5),
    ]


def test_odd_reports_are_taken_as_they_come() -> None:
    watch, told = _watch()
    phases = Phases(watch)
    assert phases.step_complete("never begun", 3)
    phases.phase_finish("never begun")
    phases.phase_start("x" * 99, "unknown parent", 0)  # no steps
    assert phases.step_complete("x" * 99, 7)  # more than there are
    assert phases.step_complete("x" * 99, 2)  # back
    assert [share for _, share in told] == [0.0, 1.0, 1.0]
    assert told[0][0] == "x" * 57 + "..."


def test_a_build_that_is_not_wanted_any_more_ends_at_its_next_step() -> None:
    stop = Event()
    watch, _ = _watch(stop)
    phases = Phases(watch)
    phases.phase_start("Building Engine", None, 2)
    assert phases.step_complete("Building Engine", 0)
    stop.set()
    assert not phases.step_complete("Building Engine", 1)


@pytest.fixture(autouse=True)
def _a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")


def _build(trt: TensorRT, version: str, watch: Watch) -> Any:
    asked = REFUSALS["run-outside"]
    installed = InstalledTensorRT(trt, trt.__version__, get_target(version))
    return building.build(installed, asked.network(), asked.profile, CompileOptions(), watch)


@pytest.mark.parametrize("version", ["10.16", "11.4"])
def test_versions_with_a_monitor_tell_steps(version: str) -> None:
    trt = TensorRT(version)

    def build(_builder: Any, _definition: Any, config: Any) -> Any:
        monitor = config.seen["progress_monitor"]
        monitor.phase_start(phase_name="Building Engine", parent_phase=None, num_steps=2)
        assert monitor.step_complete(phase_name="Building Engine", step=0)
        monitor.phase_finish(phase_name="Building Engine")
        return trt._new("IHostMemory", "build", (), {})

    trt.answers["build_serialized_network"] = build
    watch, told = _watch()
    assert _build(trt, version, watch)
    assert ("Building Engine 1 of 2", 0.5) in told


def test_a_version_without_one_is_given_none() -> None:
    trt = TensorRT("8.6")
    watch, told = _watch()
    assert _build(trt, "8.6", watch)
    assert told == [("TensorRT builds", 0.0)]


@pytest.mark.parametrize("version", ["8.6", "10.16", "11.4"])
def test_a_stopped_build_is_no_refusal(version: str) -> None:
    trt = TensorRT(version)
    trt.answers["build_serialized_network"] = lambda *_: None
    stop = Event()
    stop.set()
    with pytest.raises(EngineBuildError) as caught:
        _build(trt, version, _watch(stop)[0])
    assert caught.value.reference == "build-stopped"
