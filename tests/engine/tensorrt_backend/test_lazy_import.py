"""What is missing is named, with what to install."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from standin import TensorRT

from tests.engine.linear_network import PROFILE, linear, linear_engine, linear_network
from trtdiag.engine.backend import BuiltBy, get_backend
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.tensorrt import backend as home, build as building, lazy_import
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT, import_tensorrt, require_gpu
from trtdiag.errors import ArtifactError, PlatformError
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target, target_of


def test_no_tensorrt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(PlatformError) as caught:
        import_tensorrt()
    assert caught.value.reference == "tensorrt-missing"
    assert "pip install" in caught.value.fix


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "libnvinfer.so.8: cannot open shared object file: No such file or directory"

    def fail(name: str) -> ModuleType:
        raise ImportError(said)

    monkeypatch.setattr(lazy_import, "import_module", fail)
    with pytest.raises(PlatformError) as caught:
        import_tensorrt()
    assert (caught.value.reference, caught.value.because) == ("tensorrt-libraries", said)


@pytest.mark.parametrize(
    ("version", "target"), [("8.6.0", "8.6"), ("8.5.3", "8.6"), ("10.3.0", "10.16"), ("11.4.0.106", "11.4")]
)
def test_the_nearest_target_of_the_major_version(version: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace(__version__=version))
    installed = import_tensorrt()
    assert (installed.version, installed.target.version) == (version, target)


def test_a_version_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_of("7.2.3") is None
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace(__version__="7.2.3"))
    with pytest.raises(PlatformError, match=r"7\.2\.3") as caught:
        import_tensorrt()
    assert caught.value.reference == "tensorrt-version"


@pytest.mark.parametrize(
    ("cuda", "said", "reference"),
    [
        (None, "", "torch-without-cuda"),
        ("13.0", "The NVIDIA driver on your system is too old (found version 11040).", "driver-too-old"),
        ("13.0", "Found no NVIDIA driver on your system.", "no-gpu"),
    ],
)
def test_no_gpu(cuda: str | None, said: str, reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError(f"{said}\nmore")

    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "init", fail)
    with pytest.raises(PlatformError) as caught:
        require_gpu()
    assert caught.value.reference == reference
    assert said in caught.value.because


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> TensorRT:
    """TensorRT 8.6 and a GPU, as far as the backend asks."""
    trt = TensorRT("8.6")
    monkeypatch.setattr(home, "import_tensorrt", lambda: InstalledTensorRT(trt, "8.6.1", get_target("8.6")))
    monkeypatch.setattr(home, "require_gpu", lambda: None)
    monkeypatch.setattr(home, "gpu_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(home, "compute_capability", lambda: "9.0")
    monkeypatch.setattr(building, "compute_capability", lambda: "9.0")
    monkeypatch.setattr(building, "check_agreement", lambda *_: None)
    monkeypatch.setattr("trtdiag.engine.backend.installed_version", lambda: "8.6.1")
    return trt


@pytest.mark.usefixtures("old")
def test_the_registry_takes_tensorrt_where_it_is_installed() -> None:
    made = get_backend(None)
    assert (made.name, made.device, made.built_by()) == ("tensorrt", "cuda", BuiltBy("8.6.1", "NVIDIA H200", "9.0"))
    assert made.build(linear_network(linear()), PROFILE, CompileOptions(), get_target("8.6"), Watch())


@pytest.mark.usefixtures("old")
def test_another_target_is_refused_before_anything_else() -> None:
    get_backend("tensorrt").require(get_target("8.6"))
    with pytest.raises(PlatformError) as caught:
        compile_in_stages("no_such_file.pt2", CompileOptions(target="10.16"))
    assert caught.value.reference == "engine-target"


@pytest.mark.usefixtures("old")
def test_a_network_for_another_version_is_not_built() -> None:
    with pytest.raises(PlatformError, match=r"8\.6\.1 cannot build an engine for TensorRT 11\.4") as caught:
        get_backend("tensorrt").build(linear_network(linear()), PROFILE, CompileOptions(), get_target("11.4"), Watch())
    assert "target='8.6'" in caught.value.fix


@pytest.mark.usefixtures("old")
def test_an_engine_of_another_machine_is_refused() -> None:
    manifest = linear_engine(linear()).manifest  # of the reference: no TensorRT, no GPU
    assert len(get_backend("tensorrt").differences(manifest)) == 2
    with pytest.raises(ArtifactError) as caught:
        get_backend("tensorrt").load(b"", manifest)
    assert "here is NVIDIA H200" in caught.value.because


def test_without_tensorrt_every_engine_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    found = home.backend().differences(linear_engine(linear()).manifest)
    assert len(found) == 1
    assert "not installed" in found[0]
