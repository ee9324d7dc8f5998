"""Lines of TensorRT's one logger reach the build that they are about."""

from __future__ import annotations

from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from refusal_networks import REFUSALS
from standin import TensorRT

from trtdiag.engine.parallel_builds import build_engines
from trtdiag.engine.tensorrt import backend as home, build as building
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.engine.tensorrt.log import Lines, logger_of
from trtdiag.errors import EngineBuildError
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target


def test_each_thread_hears_its_own_lines() -> None:
    logger = logger_of(TensorRT("8.6"))
    heard: dict[int, Lines] = {}
    together = Barrier(3)

    def build(number: int) -> None:
        with logger.listeners.listening() as lines:
            together.wait()
            for turn in range(40):
                text = f"{number}: {turn}"
                logger.log(SimpleNamespace(name="ERROR"), text)
            together.wait()
            heard[number] = lines

    threads = [Thread(target=build, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(3):
        assert list(heard[number]) == [f"[ERROR] {number}: {turn}" for turn in range(40)]


def test_all_hear_a_thread_of_tensorrts_own() -> None:
    logger = logger_of(TensorRT("8.6"))
    with logger.listeners.listening() as lines, logger.listeners.listening() as more:
        worker = Thread(target=logger.log, args=(SimpleNamespace(name="WARNING"), "slow"))
        worker.start()
        worker.join()
        logger.log(SimpleNamespace(name="VERBOSE"), "left out")
        logger.log(SimpleNamespace(name="INFO"), "own")
    logger.log(SimpleNamespace(name="ERROR"), "nobody listens")
    assert list(lines) == list(more) == ["[WARNING] slow", "[INFO] own"]


def test_a_refusal_beside_another_build_has_its_own_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    trt = TensorRT("8.6")
    monkeypatch.setattr(home, "import_tensorrt", lambda: InstalledTensorRT(trt, "8.6.1", get_target("8.6")))
    monkeypatch.setattr(home, "require_gpu", lambda: None)
    monkeypatch.setattr(home, "gpu_name", lambda: "GPU")
    monkeypatch.setattr(home, "compute_capability", lambda: "9.0")
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    logger, together = logger_of(trt), Barrier(2)

    def build(_builder: Any, definition: Any, _config: Any) -> Any:
        kinds = {name for name, _, _ in definition.calls}
        refused = "add_topk" in kinds
        together.wait(30)
        said = "topk/TopK cannot be" if refused else "tanh/Activation looks odd"
        logger.log(SimpleNamespace(name="ERROR"), said)
        together.wait(30)
        return None if refused else trt._new("IHostMemory", "build", (), {})

    trt.answers["build_serialized_network"] = build
    asked = [REFUSALS["layer-rank"], REFUSALS["run-outside"]]
    wanted = [(one.network(), one.profile) for one in asked]
    with pytest.raises(EngineBuildError) as caught:
        build_engines(home.backend(), wanted, CompileOptions(build_jobs=2), get_target("8.6"))
    assert caught.value.message.startswith("engine 1 (2 of 2): TensorRT does not build the engine: TopK for aten.topk")
    assert caught.value.because == "[ERROR] topk/TopK cannot be"
