"""Scratch memory that contexts share: the names that each TensorRT has for it, on a stand-in."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from standin import TensorRT

from trtdiag.engine.tensorrt.scratch import Scratch
from trtdiag.targets import TARGETS


def _address(capsule: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, None))


@pytest.mark.parametrize("version", [target.version for target in TARGETS])
def test_a_context_gets_memory_of_ours(version: str) -> None:
    trt = TensorRT(version)
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(b"bytes")
    engine.__dict__["facts"] = {"device_memory_size": 1021, "device_memory_size_v2": 1021}
    scratch = Scratch(trt, engine)
    assert scratch.size_bytes == 1021
    context = scratch.make()
    memory = torch.empty(2048, dtype=torch.uint8)
    scratch.give(context, memory)
    made = [name for name, _, _ in engine.calls]
    if version == "8.6":
        assert made == ["create_execution_context_without_device_memory"]
        assert _address(context.seen["device_memory"]) == memory.data_ptr()
    else:
        assert engine.calls == [
            ("create_execution_context", (trt.ExecutionContextAllocationStrategy.USER_MANAGED,), {})
        ]
        assert context.calls == [("set_device_memory", (memory.data_ptr(), 2048), {})]
