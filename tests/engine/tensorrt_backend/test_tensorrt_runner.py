"""How an engine is called: on a stand-in for the engine, with tensors on the CPU in the place of a GPU's."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from host_engine import Engine, HostGpu
from standin import Recorded

from trtdiag.errors import InternalError, PlatformError, UserError
from trtdiag.targets import TARGETS

VERSIONS = [target.version for target in TARGETS]


def _calls(context: Recorded, name: str) -> list[tuple[Any, ...]]:
    return [args for called, args, _ in context.calls if called == name]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call(version: str) -> None:
    engine = Engine(version)
    run = engine.runner()
    given = engine.inputs(3, 4)
    (y,) = run(given)
    assert (y.shape, y.dtype) == ((4, 3), torch.float16)
    (context,) = engine.contexts
    assert _calls(context, "set_input_shape") == [("input 0: x", (3, 5))]
    addresses = dict(_calls(context, "set_tensor_address"))
    assert addresses["input 1: n"] == given[1].data_ptr()
    assert addresses["output 0: y"] == y.data_ptr()
    assert _calls(context, "execute_async_v3") == [(7,)]


def test_shapes_are_told_when_they_change() -> None:
    engine = Engine("8.6")
    run = engine.runner()
    for rows, n, told in ((3, 4, 1), (3, 4, 1), (5, 4, 2), (5, 6, 3), (5, 6, 3)):
        (y,) = run(engine.inputs(rows, n))
        assert y.shape == (n, rows)
        assert len(_calls(engine.contexts[0], "set_input_shape")) == told


def test_each_output_is_new_memory() -> None:
    engine = Engine("8.6")
    run = engine.runner()
    one, two = run(engine.inputs(3, 4))[0], run(engine.inputs(3, 4))[0]
    assert one.data_ptr() != two.data_ptr()


def test_an_input_that_nothing_reads_is_not_told() -> None:
    engine = Engine("8.6")
    engine.names[0] = "another"
    engine.trt.answers["get_tensor_shape"] = lambda *_: (2, 3)
    (y,) = engine.runner()(engine.inputs(3, 4))
    assert y.shape == (2, 3)
    assert not _calls(engine.contexts[0], "set_input_shape")
    assert "input 0: x" not in dict(_calls(engine.contexts[0], "set_tensor_address"))


def test_empty_tensors_have_an_address() -> None:
    engine = Engine("8.6")
    (y,) = engine.runner()(engine.inputs(0, 4))
    assert y.shape == (4, 0)
    assert all(address for _, address in _calls(engine.contexts[0], "set_tensor_address"))


def test_what_the_engine_cannot_read_is_copied() -> None:
    engine = Engine("8.6")
    run = engine.runner()
    given = engine.inputs(3, 4)
    whole = torch.arange(256, dtype=torch.float16)
    start = (-whole.data_ptr() % 256) // 2  # the first element at an address that TensorRT takes
    aligned, beside = whole[start : start + 15], whole[start + 1 : start + 16]
    for x, read in ((aligned.view(3, 5), True), (beside.view(3, 5), False), (aligned.view(5, 3).t(), False)):
        run([x, given[1]])
        address = _calls(engine.contexts[0], "set_tensor_address")[-3][1]
        assert (address == x.data_ptr()) == read


def test_threads_and_streams_have_contexts_of_their_own() -> None:
    engine = Engine("8.6")
    run = engine.runner(HostGpu([1, 2, 1, 1]))
    for _ in range(3):
        run(engine.inputs(3, 4))
    assert len(engine.contexts) == 2
    thread = threading.Thread(target=lambda: run(engine.inputs(3, 4)))
    thread.start()
    thread.join()
    assert len(engine.contexts) == 3


def test_contexts_are_few() -> None:
    engine = Engine("8.6")
    run = engine.runner(HostGpu([1, 2, 3, 4, 5, 5, 1]))
    for _ in range(7):
        run(engine.inputs(3, 4))
    assert len(engine.contexts) == 6  # the first was given up for the fifth


def test_what_is_elsewhere_is_not_moved() -> None:
    engine = Engine("8.6")
    with pytest.raises(UserError, match="meta") as caught:
        engine.runner()([torch.empty(3, 5, dtype=torch.float16, device="meta"), torch.tensor(4)])
    assert caught.value.reference == "tensorrt-device"


def test_refusals_of_the_run() -> None:
    engine = Engine("8.6")
    run = engine.runner()
    engine.trt.answers["set_input_shape"] = lambda *_: False
    with pytest.raises(InternalError, match=r"\(3, 5\)"):
        run(engine.inputs(3, 4))
    del engine.trt.answers["set_input_shape"]
    engine.missing = ["input 1: n"]
    with pytest.raises(InternalError, match="input 1: n"):
        run(engine.inputs(3, 4))
    engine.missing = []
    engine.runs = False
    with pytest.raises(InternalError, match="does not run"):
        run(engine.inputs(3, 4))
    engine.runs = True
    assert run(engine.inputs(3, 4))[0].shape == (4, 3)  # a refusal leaves nothing behind
    engine.trt.answers["create_execution_context_without_device_memory"] = lambda *_: None
    with pytest.raises(PlatformError, match="prepare"):
        engine.runner()(engine.inputs(3, 4))
