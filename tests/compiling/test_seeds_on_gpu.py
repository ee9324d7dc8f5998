"""Whole models on TensorRT: verified at every corner, saved, loaded by torch alone, and run; needs a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import trtdiag
from tests.compiling.programs import Asked, mlp
from tests.compiling.seed_models import decoder, instance_norm, linear, unet, wide_types
from trtdiag.engine.backend import get_backend
from trtdiag.errors import UserError
from trtdiag.network import DType
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State
from trtdiag.targets import get_target, installed_version
from trtdiag.verification.facts import PointResult

BACKEND, DEVICE = "tensorrt", "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("whole_float32"),
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
SEEDS = [decoder, unet, instance_norm, linear]


def _on(device: str, tree: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), tree)


def _options(**changes: Any) -> CompileOptions:
    # Level 1: half of the time of the default for models as small as these.
    given = {"target": get_target(None).version, "backend": BACKEND, "optimization_level": 1, **changes}
    return CompileOptions(**given)


def _compiled(asked: Asked, **changes: Any) -> State:
    found = compile_in_stages(asked, _options(**changes))
    assert found.verification is not None
    # As text: pytest cuts what it prints of anything else.
    wrong = [_words(result) for result in found.verification.results if not result.passed]
    assert not wrong, "; ".join([*wrong, str(found.verification.culprit)])
    return found


def _words(result: PointResult) -> str:
    off = [f"{out.output} {out.max_abs:.3g} allowed {out.allowed:.3g}" for out in result.outputs if not out.passed]
    return f"{result.point.label} {dict(result.point.sizes)}: {result.failed or result.skipped or ', '.join(off)}"


@pytest.mark.parametrize("model", SEEDS, ids=lambda model: model.__name__)
def test_a_model_that_was_exported_on_the_cpu(model: Callable[[], Asked], tmp_path: Path) -> None:
    """One engine, right at every corner; its file loads by torch alone and agrees with the model on the GPU."""
    module, args, _, _ = asked = model()
    found = _compiled(asked)
    assert len(found.engines) == 1, [f"{entry.op}: {entry.limit.why}" for entry in found.plan.partitioned.fallback]
    assert found.verification is not None
    assert len(found.verification.results) >= 4

    trtdiag.save(found.compiled, tmp_path / "compiled.ep")
    with (tmp_path / "compiled.ep").open("rb") as file:
        loaded = torch.export.load(file)
    with torch.no_grad():
        expected, actual = module(*args), loaded.module()(*_on(DEVICE, args))
    for left, right in zip(pytree.tree_leaves(expected), pytree.tree_leaves(actual), strict=True):
        assert right.device.type == DEVICE
        # Sums of some hundred float32 products in another order, through two to four layers.
        torch.testing.assert_close(right.cpu(), left, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", SEEDS, ids=lambda model: model.__name__)
def test_a_model_in_half_precision(model: Callable[[], Asked]) -> None:
    _, args, _, _ = asked = model()
    found = _compiled(asked, precision=Precision.FP16)
    given = pytree.tree_leaves(found.compiled(*_on(DEVICE, args)))
    assert {tensor.dtype for tensor in given} == {torch.float32}  # as in the program; float16 is inside
    assert any(tensor.dtype is DType.FLOAT16 for one in found.converted for tensor in one.network.tensors)


@pytest.mark.parametrize("model", [linear, instance_norm], ids=lambda model: model.__name__)
def test_a_model_that_was_exported_on_the_gpu(model: Callable[[], Asked]) -> None:
    module, args, kwargs, dims = model()
    found = _compiled((module.to(DEVICE), _on(DEVICE, args), kwargs, dims))
    assert len(found.engines) == 1


def test_a_model_that_was_exported_on_the_gpu_for_the_cpu() -> None:
    module, args, kwargs, dims = instance_norm()
    expected = module(*args)
    found = _compiled((module.to(DEVICE), _on(DEVICE, args), kwargs, dims), backend="reference")
    assert {manifest.device for manifest in found.compiled.manifests} == {"cpu"}
    torch.testing.assert_close(found.compiled(*args), expected, rtol=1e-4, atol=1e-4)


def test_integers_and_doubles_with_truncation() -> None:
    """What 8.6 has no dtype for is narrowed where it is proven, told, and gives the same integers."""
    module, args, _, _ = asked = wide_types()
    found = _compiled(asked, truncate_double=True)
    assert len(found.engines) == 1
    (y, doubled), (expected, whole) = found.compiled(*_on(DEVICE, args)), module(*args)
    assert (y.dtype, doubled.dtype) == (torch.float64, torch.int64)
    assert torch.equal(doubled.cpu(), whole)
    # float32 in the place of float64: 24 bits, three roundings of values below 8, and tanh within a few of its last.
    torch.testing.assert_close(y.cpu(), expected, rtol=0, atol=1e-5)

    narrow = get_target(None).version == "8.6"
    inside = {str(port.dtype) for port in (*found.engines[0].manifest.inputs, *found.engines[0].manifest.outputs)}
    assert inside == {"torch.int32" if narrow else "torch.int64", "torch.float32"}
    types = {entry["node"]: entry for entry in json.loads(found.report.to_json())["partition"]["types"]}
    assert types["b_table"]["engine_dtype"] == types["x"]["engine_dtype"] == "float32"
    assert types["x"]["why"] == "truncate_double"
    if narrow:
        assert types["index"]["engine_dtype"] == types["b_order"]["engine_dtype"] == "int32"
        assert "used as an index into table of size 10" in types["index"]["why"]
        assert types["b_order"]["why"] == "values read: 0..3"
        told = [finding.message for finding in found.report.findings if finding.rule == "TYP401"]
        assert told == ["5 int64 tensors become int32 on TensorRT 8.6; every value is shown to fit"]


def test_integers_and_doubles_without_truncation_are_exact() -> None:
    module, args, _, _ = asked = wide_types()
    found = _compiled(asked, partition=PartitionOptions(min_segment_ops=1))
    doubles = {entry.op for entry in found.plan.partitioned.fallback if entry.limit.code == "double-precision"}
    assert {"aten.tanh.default", "aten.mul.Tensor", "aten.sub.Tensor"} <= doubles
    (y, doubled), (expected, whole) = found.compiled(*_on(DEVICE, args)), module(*args)
    # The same op of PyTorch on another device: the last bits of tanh differ.
    torch.testing.assert_close(y.cpu(), expected, rtol=1e-14, atol=1e-14)
    assert torch.equal(doubled.cpu(), whole)


def test_an_input_on_the_cpu_is_refused() -> None:
    compiled = trtdiag.compile(mlp(), _options(verify=False))
    with pytest.raises(UserError, match="the input x") as caught:
        compiled(*mlp()[1])
    assert caught.value.reference == "input-device"
    assert f"it is on cpu; it takes {DEVICE}" in caught.value.because


def test_engines_of_the_reference_are_rebuilt_for_the_gpu(tmp_path: Path) -> None:
    module, args, _, _ = asked = mlp()
    here = trtdiag.compile(asked, backend="reference", target=get_target(None).version, portable=True)
    there = trtdiag.rebuild(here, get_backend(BACKEND), _options(), get_target(None))
    trtdiag.save(there, tmp_path / "there.ep")
    loaded = trtdiag.load(tmp_path / "there.ep")
    with torch.no_grad():
        torch.testing.assert_close(loaded(*_on(DEVICE, args)).cpu(), module(*args), rtol=1e-4, atol=1e-4)


def test_a_saved_program_is_verified_against_the_file_from_the_cpu(tmp_path: Path) -> None:
    module, args, kwargs, dims = mlp()
    torch.export.save(torch.export.export(module, args, kwargs, dynamic_shapes=dims), tmp_path / "model.pt2")
    compiled = trtdiag.compile(tmp_path / "model.pt2", _options(verify=False))
    trtdiag.save(compiled, tmp_path / "compiled.ep")
    found = trtdiag.verify(tmp_path / "compiled.ep", tmp_path / "model.pt2")
    assert found.passed, found.worst
    assert len(found.results) >= 5
