"""Whole models: one engine each, verified at every corner, saved, loaded by torch alone, and run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

import trtdiag
from tests.compiling.programs import Asked
from tests.compiling.seed_models import decoder, instance_norm, linear, unet, wide_types
from tests.convert.op_check import OLD_THEN_NEW
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State

TARGETS = ("8.6", "11.4")


def _compiled(asked: Asked, target: str, **options: object) -> State:
    found = compile_in_stages(asked, CompileOptions(target=target, backend="reference", **options))  # type: ignore[arg-type]
    assert found.verification is not None
    assert found.verification.passed, found.verification.worst
    assert not [limit for limit in found.plan.support.limits.values() if limit.code == "converter-failed"]
    return found


# The newest target is quick in the tests below, and in test_compile.py at every size.
@pytest.mark.parametrize("target", ["8.6", pytest.param("11.4", marks=pytest.mark.slow)])
# Quick: norms and the linear layer; images are in test_layer_programs.py, decoders in tests/runtime and tests/examples.
@pytest.mark.parametrize(
    "model",
    [*(pytest.param(model, marks=pytest.mark.slow) for model in (decoder, unet)), instance_norm, linear],
    ids=lambda model: model.__name__,
)
def test_a_model_is_one_engine_and_agrees_at_every_corner(model: Callable[[], Asked], target: str) -> None:
    found = _compiled(model(), target)
    assert len(found.engines) == 1, [f"{entry.op}: {entry.limit.why}" for entry in found.plan.partitioned.fallback]
    assert not [entry for entry in found.plan.partitioned.fallback if entry.computes]
    assert found.verification is not None
    assert len(found.verification.results) >= 4


@pytest.mark.slow  # quick: test_a_model_is_one_engine_and_agrees_at_every_corner
@pytest.mark.parametrize(
    "model",
    [
        linear,
        # Slow: one engine each, as the linear layer's; the decoder is quick above, at every corner.
        *(pytest.param(model, marks=pytest.mark.slow) for model in (decoder, unet, instance_norm)),
    ],
    ids=lambda model: model.__name__,
)
def test_saved_loaded_by_torch_and_run(model: Callable[[], Asked], tmp_path: Path) -> None:
    module, args, _, _ = asked = model()
    path = tmp_path / "compiled.ep"
    trtdiag.save(trtdiag.compile(asked, backend="reference", verify=False), path)
    with path.open("rb") as file:
        loaded = torch.export.load(file)
    with torch.no_grad():
        expected, actual = module(*args), loaded.module()(*args)
    for left, right in zip(pytree.tree_leaves(expected), pytree.tree_leaves(actual), strict=True):
        # Sums of some hundred float32 products in another order, through two to four layers.
        torch.testing.assert_close(right, left, rtol=1e-4, atol=1e-5)


@pytest.mark.slow  # the quick run compares that decoder at every corner, above
def test_the_caches_of_a_decoder_have_a_step_more(tmp_path: Path) -> None:
    compiled = trtdiag.compile(decoder(), backend="reference", verify=False)
    for batch, seq in ((1, 2), (4, 64), (3, 31)):
        logits, caches = compiled(torch.randint(0, 101, (batch, seq)))
        assert logits.shape == (batch, seq, 101)
        assert [tuple(cache.shape) for cache in caches] == [(2, batch, 2, seq + 1, 8)] * 2


@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_wide_types_with_truncation_are_one_engine(target: str) -> None:
    module, args, _, _ = asked = wide_types()
    found = compile_in_stages(
        asked, CompileOptions(target=target, backend="reference", truncate_double=True, verify=False)
    )
    assert len(found.engines) == 1
    (y, doubled), (expected, whole) = found.compiled(*args), module(*args)
    assert (y.dtype, doubled.dtype) == (torch.float64, torch.int64)
    assert torch.equal(doubled, whole)
    # float32 in the place of float64: 24 bits, three roundings of values below 8.
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-5)
    assert not torch.equal(y, expected)
    inside = {str(port.dtype) for port in (*found.engines[0].manifest.inputs, *found.engines[0].manifest.outputs)}
    assert inside == ({"torch.int32", "torch.float32"} if target == "8.6" else {"torch.int64", "torch.float32"})


@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_wide_types_without_truncation_stay_in_pytorch_and_are_exact(target: str) -> None:
    module, args, _, _ = asked = wide_types()
    options = CompileOptions(target=target, backend="reference", partition=PartitionOptions(min_segment_ops=1))
    found = compile_in_stages(asked, options)
    doubles = [entry for entry in found.plan.partitioned.fallback if entry.limit.code == "double-precision"]
    assert {"aten.tanh.default", "aten.mul.Tensor", "aten.sub.Tensor"} <= {entry.op for entry in doubles}
    assert all("truncate_double" in entry.limit.fix for entry in doubles)
    y, doubled = found.compiled(*args)
    expected, whole = module(*args)
    assert torch.equal(y, expected)
    assert torch.equal(doubled, whole)
