"""Engines for other GPUs and versions: what each TensorRT has, what is refused, and where such an engine runs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from standin import TensorRT

from tests.engine.linear_network import linear, linear_engine
from trtdiag.engine.manifest import Compatibility, Manifest
from trtdiag.engine.manifest_text import manifest_from_text, manifest_to_text
from trtdiag.engine.saved_engines import note_built
from trtdiag.engine.tensorrt.compatibility import (
    HOST_CODE,
    allow_host_code,
    gpu_difference,
    set_compatibility,
    version_difference,
)
from trtdiag.errors import ArtifactError, TrtdiagError, UserError
from trtdiag.options import CompileOptions

VERSIONS = ["8.6", "10.16", "11.4"]


def _ask(
    version: str, sources: tuple[str, ...] = (), capability: str = "9.0", without: str = "", **options: Any
) -> tuple[TensorRT, Any]:
    trt = TensorRT(version)
    trt.BuilderFlag.__members__.pop(without, None)
    config = trt.Builder(trt.Logger()).create_builder_config()
    set_compatibility(trt, trt.__version__, config, CompileOptions(**options), sources, capability)
    return trt, config


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_asked_for_by_default(version: str) -> None:
    _, config = _ask(version)
    assert config.seen == {}
    assert config.calls == []


@pytest.mark.parametrize("version", VERSIONS)
def test_ampere_and_other_versions_are_asked_for(version: str) -> None:
    trt, config = _ask(version, hardware_compatibility="ampere+", version_compatible=True)
    assert config.seen["hardware_compatibility_level"] is trt.HardwareCompatibilityLevel.AMPERE_PLUS
    assert [(name, args) for name, args, _ in config.calls] == [("set_flag", (trt.BuilderFlag.VERSION_COMPATIBLE,))]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_compute_capability_where_the_version_has_it(version: str) -> None:
    if version == "8.6":
        with pytest.raises(UserError, match=r"8\.6\.1 has none, ampere\+") as caught:
            _ask(version, hardware_compatibility="same-compute-capability")
        assert caught.value.reference == "hardware-compatibility"
    else:
        trt, config = _ask(version, hardware_compatibility="same-compute-capability")
        assert config.seen["hardware_compatibility_level"] is trt.HardwareCompatibilityLevel.SAME_COMPUTE_CAPABILITY


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"capability": "7.5"}, r"compute capability 7\.5"),
        ({"sources": ("JIT_CONVOLUTIONS", "CUDNN", "CUBLAS")}, "from CUDNN, CUBLAS"),
    ],
)
def test_what_forbids_ampere(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why) as caught:
        _ask("8.6", hardware_compatibility="ampere+", **asked)
    assert caught.value.reference == "hardware-compatibility"
    _ask("8.6", **asked)


def test_unknown_words_and_versions_without_it_are_refused() -> None:
    with pytest.raises(UserError, match=r"none, ampere\+, same-compute-capability") as caught:
        _ask("8.6", hardware_compatibility="AMPERE_PLUS")
    assert caught.value.reference == "wrong-option"
    with pytest.raises(UserError) as caught:
        _ask("8.6", version_compatible=True, without="VERSION_COMPATIBLE")
    assert caught.value.reference == "version-compatibility"


def _manifest(tensorrt: str | None = "10.16.1", gpu: str = "A", **compatible: Any) -> Manifest:
    return replace(
        linear_engine(linear()).manifest,
        tensorrt=tensorrt,
        gpu=gpu,
        compatibility=Compatibility(**{"compute_capability": "8.6", **compatible}),
    )


@pytest.mark.parametrize(
    ("versions", "here", "runs"),
    [
        (False, "10.16.1", True),
        (False, "10.16.2", False),
        (True, "10.16.1", True),
        (True, "10.16.2", True),
        (True, "10.99", True),
        (True, "10.3.0", False),
        (True, "10.16.0", False),
        (True, "11.4.0", False),
        (True, "8.6.1", False),
    ],
)
def test_versions_that_run_an_engine(versions: bool, here: str, runs: bool) -> None:
    assert (version_difference(_manifest(versions=versions), here) == "") is runs


@pytest.mark.parametrize(
    ("hardware", "here", "capability", "runs"),
    [
        ("none", "A", "8.6", True),
        ("none", "B", "8.6", False),
        ("ampere+", "B", "8.0", True),
        ("ampere+", "B", "12.0", True),
        ("ampere+", "A", "7.5", False),
        ("same-compute-capability", "B", "8.6", True),
        ("same-compute-capability", "B", "8.9", False),
        ("of a later trtdiag", "A", "8.6", True),
        ("of a later trtdiag", "B", "8.6", False),
    ],
)
def test_gpus_that_run_an_engine(hardware: str, here: str, capability: str, runs: bool) -> None:
    found = gpu_difference(_manifest(hardware=hardware), here, capability)
    assert (found == "") is runs
    assert runs or here in found


def test_an_engine_of_no_tensorrt_differs() -> None:
    assert "TensorRT None" in version_difference(_manifest(tensorrt=None, versions=True), "8.6.1")


def test_manifests_keep_it_and_those_of_before_have_none() -> None:
    plain = replace(_manifest(), compatibility=Compatibility())
    assert "compatibility" not in manifest_to_text(plain)
    assert manifest_from_text(manifest_to_text(plain)) == plain
    wide = _manifest(hardware="ampere+", versions=True)
    text = manifest_to_text(wide)
    assert manifest_from_text(text) == wide
    for wrong in ('["ampere+",1,"8.6"]', '["ampere+"]', "7", '[null,true,"8.6"]'):
        with pytest.raises(ArtifactError):
            manifest_from_text(text.replace('["ampere+",true,"8.6"]', wrong))


def test_code_of_an_engine_runs_only_where_it_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOST_CODE, raising=False)
    plain, bringing = _manifest(), replace(_manifest(versions=True), engine_sha256="ab" * 32)
    runtime = SimpleNamespace(engine_host_code_allowed=False)
    allow_host_code(runtime, plain)
    assert not runtime.engine_host_code_allowed
    with pytest.raises(TrtdiagError) as caught:
        allow_host_code(runtime, bringing)
    assert caught.value.reference == "engine-host-code"
    assert f"{HOST_CODE}=allow" in caught.value.fix
    assert not runtime.engine_host_code_allowed
    monkeypatch.setenv(HOST_CODE, "allow")
    allow_host_code(runtime, bringing)
    assert runtime.engine_host_code_allowed
    monkeypatch.delenv(HOST_CODE)
    runtime.engine_host_code_allowed = False
    note_built("ab" * 32)
    allow_host_code(runtime, bringing)
    assert runtime.engine_host_code_allowed


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_takes_that_permission(version: str) -> None:
    trt = TensorRT(version)
    runtime = trt.Runtime(trt.Logger())
    note_built("cd" * 32)
    allow_host_code(runtime, replace(_manifest(versions=True), engine_sha256="cd" * 32))
    assert runtime.seen["engine_host_code_allowed"] is True
