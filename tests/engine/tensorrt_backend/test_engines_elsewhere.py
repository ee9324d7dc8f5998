"""Engines that were built for another GPU or TensorRT: refused where they are loaded, saying what differs."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
import torch
from host_engine import manifest
from standin import TensorRT

from trtdiag.engine.tensorrt import backend as module
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.errors import ArtifactError
from trtdiag.runtime.engine_cache import EngineCache, engine_tensor
from trtdiag.targets import get_target

BUILT = {"backend": "tensorrt", "tensorrt": "8.6.1", "gpu": "NVIDIA H200"}


class Machine:
    """A machine with GPUs of two models, the first of which is current unless told otherwise."""

    names = ("NVIDIA H200", "NVIDIA L4")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.current = 0
        self.entered: list[str] = []
        trt = TensorRT("8.6")
        monkeypatch.setattr(module, "import_tensorrt", lambda: InstalledTensorRT(trt, "8.6.1", get_target("8.6")))
        monkeypatch.setattr(module, "require_gpu", lambda: None)
        monkeypatch.setattr(module, "gpu_name", lambda: self.names[self.current])
        monkeypatch.setattr(module, "compute_capability", lambda: ("9.0", "8.9")[self.current])
        monkeypatch.setattr("trtdiag.engine.backend.installed_version", lambda: "8.6.1")
        monkeypatch.setattr(torch.cuda, "device", self.device)
        trt.answers["deserialize_cuda_engine"] = lambda *_: None

    def device(self, name: str) -> Machine:
        self.entered.append(name)
        return self

    def __enter__(self) -> None:
        self.current = int(self.entered[-1].partition(":")[2])

    def __exit__(self, *_: object) -> None:
        self.current = 0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def _load(device: str, **changes: str) -> ArtifactError:
    blob = engine_tensor(b"bytes of an engine")
    digest = hashlib.sha256(b"bytes of an engine").hexdigest()
    with pytest.raises(ArtifactError) as caught:
        EngineCache().get(replace(manifest(), engine_sha256=digest, **{**BUILT, **changes}), blob, device)
    return caught.value


def test_a_gpu_of_another_model(machine: Machine) -> None:
    error = _load("cuda:1")
    assert error.reference == "engine-elsewhere"
    assert error.because == "it was built for NVIDIA H200, and here is NVIDIA L4"
    assert machine.entered == ["cuda:1"]  # the GPU that it would run on is looked at


def test_another_tensorrt(machine: Machine) -> None:
    error = _load("cuda:0", tensorrt="8.6.0")
    assert error.because == "it was built by TensorRT 8.6.0, and here is 8.6.1"


def test_the_same_gpu_is_asked_to_read_it(machine: Machine) -> None:
    assert _load("cuda:0").reference == "engine-damaged"  # here TensorRT reads nothing
