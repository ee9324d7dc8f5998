"""Scratch memory that contexts share: the names that each TensorRT has for it, on a stand-in."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

import pytest
import torch
from standin import TensorRT

from trtdiag.engine.tensorrt.context_memory import ContextMemory
from trtdiag.errors import PlatformError
from trtdiag.targets import TARGETS


def _address(capsule: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, None))


@pytest.mark.parametrize("version", [target.version for target in TARGETS])
def test_a_context_gets_memory_of_ours(version: str) -> None:
    trt = TensorRT(version)
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(b"bytes")
    engine.__dict__["facts"] = {"device_memory_size": 1531, "device_memory_size_v2": 1531}
    scratch = ContextMemory(trt, engine, torch.device("cpu"))
    assert scratch.size_bytes == 1531
    context = scratch.make()
    memory = torch.empty(2048, dtype=torch.uint8)
    scratch.give(context, memory)
    made = [name for name, _, _ in engine.calls]
    if version == "8.6":
        assert made == ["create_execution_context_without_device_memory"]
        assert context.seen["device_memory"] == memory.data_ptr()
    else:
        assert engine.calls == [
            ("create_execution_context", (trt.ExecutionContextAllocationStrategy.USER_MANAGED,), {})
        ]
        assert context.calls == [("set_device_memory", (memory.data_ptr(), 2048), {})]


class CapsuleContext:
    """A context that takes addresses as capsules only."""

    def __init__(self) -> None:
        self.address = 0

    def _take(self, value: Any) -> None:
        if isinstance(value, int):
            raise TypeError("incompatible function arguments")
        self.address = _address(value)

    device_memory = property(None, _take)


def test_an_address_may_be_wanted_as_a_capsule() -> None:
    context, memory = CapsuleContext(), torch.empty(600, dtype=torch.uint8)
    _scratch(600).give(context, memory)
    assert context.address == memory.data_ptr()


def _scratch(size_bytes: int) -> ContextMemory:
    trt = TensorRT("8.6")
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(b"bytes")
    engine.__dict__["facts"] = {"device_memory_size": size_bytes}
    return ContextMemory(trt, engine, torch.device("cpu"))


def test_engines_of_a_thread_and_stream_share_memory() -> None:
    small, large = _scratch(600), _scratch(70_001)
    first = small.shared(1)
    assert small.shared(1) is first
    assert small.shared(2) is not first
    assert small.own() is not first
    grown = large.shared(1)
    assert grown.nbytes == 70_001
    assert small.shared(1) is grown
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(small.shared(1) is grown))
    thread.start()
    thread.join()
    assert seen == [False]


def test_shared_memory_goes_with_the_last_context() -> None:
    scratch = _scratch(70_003)
    memory = scratch.shared(3)
    gone = weakref.ref(memory)
    del memory
    assert gone() is None
    assert scratch.shared(3).nbytes == 70_003


def test_an_engine_that_needs_none_has_an_address() -> None:
    assert _scratch(0).shared(4).data_ptr() != 0


def test_memory_that_is_not_there_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = _scratch(3 << 30)

    def full(*_: Any, **__: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. 1007.12 MiB is free. If reserved but unallocated, many words")

    monkeypatch.setattr(torch, "empty", full)
    for take in (scratch.own, lambda: scratch.shared(5)):
        with pytest.raises(PlatformError) as caught:
            take()
        assert caught.value.reference == "context-memory"
        assert "3,072 MiB" in caught.value.because
        assert "1007.12 MiB is free" in caught.value.because
        assert "many words" not in caught.value.because
        assert "ranges" in caught.value.fix
