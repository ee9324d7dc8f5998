"""Lines of TensorRT's one logger reach the build that they are about."""

from __future__ import annotations

from threading import Barrier, Thread
from types import SimpleNamespace

from standin import TensorRT

from trtdiag.engine.tensorrt.log import Lines, logger_of


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
