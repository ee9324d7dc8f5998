"""The backend ``tensorrt-rtx``: engines for GPUs that are not here, built by the real builder where it is installed."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import trtdiag
from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import Engine
from trtdiag.engine.manifest import Compatibility
from trtdiag.engine.manifest_text import manifest_from_text, manifest_to_text
from trtdiag.engine.tensorrt.engine_per_gpu import packed, unpacked
from trtdiag.engine.tensorrt.rtx import backend
from trtdiag.errors import ArtifactError, PlatformError, UserError
from trtdiag.options import CompileOptions
from trtdiag.report.compile_text import gpus_line
from trtdiag.targets import GENERATIONS, RTX_TARGETS, chosen_gpus, get_rtx_target, get_target, installed_rtx_version

BUILDS = pytest.mark.skipif(installed_rtx_version() is None, reason="tensorrt-rtx is not installed")


class Small(torch.nn.Module):
    """A convolution, a product and what lies between them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Five numbers a picture."""
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))


def _program() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    batch, height = torch.export.Dim("batch", min=1, max=7), torch.export.Dim("height", min=3, max=31)
    dims = {"x": {0: batch, 2: height}}
    return torch.export.export(Small().eval(), (torch.randn(2, 3, 13, 8),), dynamic_shapes=dims)


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return _program()


def _installed(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", SimpleNamespace(__version__=version))


@pytest.mark.parametrize("target", RTX_TARGETS, ids=lambda target: target.version)
def test_a_release_has_the_builder_of_a_tensorrt_without_what_has_no_kernels(target):
    base = get_target(target.api)
    assert target.release == base.release
    scaled = {"Quantize", "Dequantize", "DynamicQuantize"} if target.version == "rtx-1.4" else set()
    assert base.layers - target.layers == {"NonZero"} | scaled
    assert not target.counts
    assert set(target.gpus) <= set(GENERATIONS)
    assert {gpu for gpu, _ in target.gpu_lacks} | {limit.gpu for limit in target.gpu_limits} <= set(target.gpus)
    assert all(source for _, source in target.sources)


def test_a_target_for_several_generations_has_what_all_of_them_have():
    target = get_target("rtx-1.7")
    assert "bfloat16" in target.on(("sm80", "sm120")).dtypes
    assert "bfloat16" not in target.on(("sm75", "sm120")).dtypes
    assert target.on(("sm75", "sm120")).name_without("bfloat16") == "TensorRT-RTX 1.7 on sm75"
    assert target.on(("sm80",)).name_without("complex64") == "TensorRT-RTX 1.7"
    assert target.on(()) is target


@pytest.mark.parametrize(
    ("text", "version"), [("rtx-1.7", "rtx-1.7"), ("rtx-1.4.0.76", "rtx-1.4"), (" rtx-1.7.1 ", "rtx-1.7")]
)
def test_a_target_is_taken_by_its_name(text, version):
    assert get_target(text).version == version == get_rtx_target(text).version


@pytest.mark.parametrize("text", ["rtx-", "rtx-1", "rtx-9.9", "RTX 1.7", "rtx-11.4", "1.7"])
def test_an_unknown_target_lists_the_known_ones(text):
    with pytest.raises(UserError, match="is not a known target") as caught:
        get_target(text)
    assert "rtx-1.4, rtx-1.7" in caught.value.because


def test_generations_are_named_checked_and_ordered():
    target = get_target("rtx-1.7")
    assert chosen_gpus(target, ("sm120", "sm89", "sm89")) == ("sm89", "sm120")
    assert chosen_gpus(target, ("all",)) == tuple(GENERATIONS)
    assert chosen_gpus(target, ()) == ()
    with pytest.raises(UserError, match="builds nothing for the GPU generation 'sm90'") as caught:
        chosen_gpus(target, ("sm89", "sm90"))
    assert "sm89 (Ada Lovelace)" in caught.value.because


def test_an_older_release_builds_for_fewer_generations():
    target = get_target("rtx-1.4")
    assert "sm121" not in chosen_gpus(target, ("all",))
    with pytest.raises(UserError, match="sm121"):
        chosen_gpus(target, ("sm121",))


def test_unless_asked_no_generation_takes_products_from_the_others():
    target = get_target("rtx-1.7")
    if not torch.cuda.is_available():
        assert backend().chosen_gpus(target, ()) == tuple(gpu for gpu in target.gpus if gpu != "sm75")
    assert backend().chosen_gpus(target, ("sm75",)) == ("sm75",)


@pytest.mark.parametrize("action", ["compile", "analyze"])
def test_only_tensorrt_rtx_builds_for_other_gpus(program, action):
    options = {"backend": "reference"} if action == "compile" else {}
    with pytest.raises(UserError, match=r"TensorRT 11\.4 does not build for GPUs that are not here: sm89"):
        getattr(trtdiag, action)(program, target="11.4", gpu="sm89", **options)


def test_a_target_of_tensorrt_is_refused(monkeypatch):
    _installed(monkeypatch, "1.7.1.116")
    with pytest.raises(UserError, match=r"builds nothing for TensorRT 11\.4"):
        backend().target("11.4")
    with pytest.raises(PlatformError, match=r"cannot build for TensorRT-RTX 1\.4"):
        backend().require(get_target("rtx-1.4"))
    backend().require(get_target("11.4"))  # its builder is tried for networks of that version


@pytest.mark.skipif(installed_rtx_version() is not None, reason="tensorrt-rtx is installed")
def test_without_the_package_it_is_told_how_to_get_it():
    with pytest.raises(PlatformError, match="'tensorrt-rtx' cannot be used here") as caught:
        get_backend("tensorrt-rtx")
    assert "pip install tensorrt-rtx" in caught.value.fix


def test_an_engine_for_each_generation_comes_back_as_it_was():
    engines = {"sm89": b"ada", "sm120": b"", "sm75": bytes(range(256))}
    found = unpacked(packed(engines))
    assert found is not None
    assert {gpu: bytes(blob) for gpu, blob in found.items()} == engines
    assert unpacked(b"ftrt, one engine") is None
    assert unpacked(b"") is None


@pytest.mark.parametrize(
    "change",
    [
        lambda blob: blob[:-1],
        lambda blob: blob[:18] + b"\xff" * 8 + blob[26:],
        lambda blob: blob[:26] + b"[" + blob[27:],
        lambda blob: blob[:20],
    ],
    ids=["cut", "long head", "no object", "only the beginning"],
)
def test_damaged_engines_are_refused(change):
    with pytest.raises(ArtifactError, match="several GPU generations cannot be read"):
        unpacked(change(packed({"sm89": b"engine"})))


def _engine(blob: bytes, *gpus: str) -> Engine:
    given: Any = SimpleNamespace(compatibility=Compatibility("none", False, None, gpus))
    return Engine(blob, given)


def test_the_output_of_compile_says_for_which_gpus_and_how_large():
    assert gpus_line([]) == gpus_line([_engine(bytes(9))]) == ""
    two = [_engine(bytes(1024), "sm89", "sm120"), _engine(bytes(2048), "sm89", "sm120")]
    assert gpus_line(two) == "for sm89, sm120: 3.0 KiB of engines"
    each = [_engine(packed({"sm75": bytes(1024), "sm89": bytes(size)}), "sm75", "sm89") for size in (1024, 2048)]
    assert gpus_line(each) == "for sm75 2.0 KiB, sm89 3.0 KiB of engines"


@BUILDS
@pytest.mark.parametrize(
    "each", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["one engine", "one a generation"]
)
def test_what_is_built_here_is_compared_by_its_network_and_refused_when_called(program, tmp_path, each):
    compiled = trtdiag.compile(
        program, backend="tensorrt-rtx", gpu=("sm89", "sm120"), engine_per_gpu=each, min_segment_ops=0
    )
    (manifest,) = compiled.manifests
    assert manifest.compatibility == Compatibility("none", False, None, ("sm89", "sm120"))
    assert manifest_from_text(manifest_to_text(manifest)) == manifest
    facts: Any = compiled.report
    verification = facts.analysis.compilation.verification
    assert verification.passed
    assert {point.point.label for point in verification.results} >= {"example", "min", "max"}
    assert "no engine was run" in verification.notes[0]
    path = tmp_path / "small_trt.pt2"
    trtdiag.save(compiled, path)
    if torch.cuda.is_available():
        pytest.skip("what follows is told where there is no GPU")
    with pytest.raises(ArtifactError, match="it was built for sm89, sm120"):
        trtdiag.load(path)
    with pytest.raises(ArtifactError, match="an engine cannot run here") as caught:
        compiled(torch.randn(2, 3, 13, 8))
    assert "backend='reference'" in caught.value.fix
    assert trtdiag.verify(path, program).passed
    with pytest.raises(UserError, match="cannot be compared here"):
        trtdiag.verify(path, _other())


def _other() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.Linear(3, 3), (torch.randn(2, 3),))


@BUILDS
def test_what_a_generation_lacks_stays_in_pytorch_with_the_reason(program):
    if "sm75" not in {limit.gpu for limit in backend().target(None).gpu_limits}:
        pytest.skip("this release has products of float32 on all generations")
    compiled = trtdiag.compile(program, backend="tensorrt-rtx", gpu=("sm75",), min_segment_ops=0, build_in_process=True)
    report: Any = compiled.report
    left = {entry.op: entry.limit.why for entry in report.analysis.partition.partitioned.fallback if entry.computes}
    assert list(left) == ["aten.linear.default"]
    assert "has no MatrixMultiply of float32 on sm75" in left["aten.linear.default"]


@BUILDS
def test_the_engine_cache_tells_generations_apart(program, tmp_path):
    def built(*gpus: str) -> bool | None:
        options = CompileOptions(
            backend="tensorrt-rtx", gpu=gpus, engine_cache=str(tmp_path), verify=False, build_in_process=True
        )
        report: Any = trtdiag.compile(program, options, min_segment_ops=0).report
        return report.analysis.compilation.engines[0].saved

    assert [built("sm89"), built("sm89"), built("sm120"), built("sm89", "sm120")] == [False, True, False, False]
