"""Programs in which the data decide sizes: compiled, saved, loaded, exported again, compiled by torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

import trtdiag
from tests.compiling.counting_models import MODELS, ROWS, asked, model, rows
from tests.harness.rows import thinned
from trtdiag.errors import UserError
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages

# The engine sums in PyTorch's own order; a product of few terms may be fused differently.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def _options(target: str = "11.4", **split: Any) -> CompileOptions:
    return CompileOptions(
        target=target, backend="reference", partition=PartitionOptions(**{"min_segment_ops": 1, **split})
    )


def _assert_agrees(actual: Any, expected: Any) -> None:
    for got, wanted in zip(pytree.tree_leaves(actual), pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(got, wanted, **CLOSE)


# Slow: the same layers as for 11.4, where each model is quick.
OLDER = [pytest.param("10.16", marks=pytest.mark.slow), "11.4"]
# Slow: they cross an engine's border as this one does.
QUICK = ("cloud",)
SAVED = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]


@pytest.mark.parametrize("target", OLDER)
# Quick: the ends and each fourth; others are saved below or in tests/convert/test_choosing_ops.py.
@thinned("name", MODELS, every=4)
def test_it_agrees_with_the_model(name: str, target: str) -> None:
    found = compile_in_stages(asked(name), _options(target))
    assert len(found.engines) == MODELS[name].engines
    assert found.verification is not None
    assert found.verification.passed, found.verification
    own = model(name)
    for count in (1, 2, 31, ROWS):
        for which in ("some", "all", "none"):
            x = rows(count, which, seed=count)
            try:
                expected = own(x)
            except (IndexError, RuntimeError):  # of nothing there is no greatest element
                assert not MODELS[name].takes_none
                with pytest.raises(UserError, match="finds 0 elements"):
                    found.compiled(x)
                continue
            _assert_agrees(found.compiled(x), expected)


def _saved(name: str, folder: Path) -> tuple[Any, Path]:
    compiled = compile_in_stages(asked(name), _options()).compiled
    trtdiag.save(compiled, folder / "counted.ep")
    return compiled, folder / "counted.ep"


@pytest.mark.parametrize("name", SAVED)
@pytest.mark.slow  # quick: what the manifest says
def test_saved_loaded_and_exported_again(name: str, tmp_path: Path) -> None:
    compiled, path = _saved(name, tmp_path)
    own, x = model(name), rows(29, "some", seed=3)
    expected = own(x)
    loaded = trtdiag.load(path)
    assert [manifest.counts for manifest in loaded.manifests] == [manifest.counts for manifest in compiled.manifests]
    _assert_agrees(loaded(x), expected)
    plain = torch.export.load(path)
    _assert_agrees(plain.module()(x), expected)
    again = torch.export.export(plain.module(), (x,), dynamic_shapes=({0: Dim("rows", min=1, max=ROWS)},))
    for count, which in ((1, "all"), (31, "some"), (ROWS, "some")):
        other = rows(count, which, seed=5)
        _assert_agrees(again.module()(other), own(other))
    trtdiag.save(trtdiag.load(path), tmp_path / "again.ep")
    _assert_agrees(trtdiag.load(tmp_path / "again.ep")(x), expected)


@pytest.mark.slow
@pytest.mark.parametrize("captures", [False, True])
@pytest.mark.parametrize("name", ["cloud", "marked"])
def test_torch_compiles_over_it(name: str, captures: bool, tmp_path: Path) -> None:
    """Without ``capture_dynamic_output_shape_ops`` the graph breaks at the engine, which runs as it does alone."""
    module = torch.export.load(_saved(name, tmp_path)[1]).module()
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=captures):
        over = torch.compile(module, backend="eager", dynamic=True, fullgraph=captures)
        for count in (17, 5):
            x = rows(count, "some", seed=count)
            _assert_agrees(over(x), model(name)(x))


@pytest.mark.slow  # quick: test_an_engine_behind_takes_any_count
def test_what_the_manifest_says() -> None:
    found = compile_in_stages(asked("cloud"), _options())
    (manifest,) = found.compiled.manifests
    (name,) = manifest.counts
    assert manifest.counts[name] == manifest.inputs[0].dims[0]  # at most all points
    assert (manifest.ranges[name].min, manifest.ranges[name].max) == (0, ROWS)
    assert all(manifest.is_counted(port) for port in manifest.outputs)
    assert not found.plan.partitioned.fallback
    assert not [finding for finding in found.report.findings if finding.rule.startswith("OPS")]


@pytest.mark.slow  # quick: tests/convert/test_never_negative.py
def test_a_size_that_a_program_asserts_leaves_the_engine() -> None:
    found = compile_in_stages(asked("boxes"), _options())
    (converted,) = found.converted
    assert len(converted.counts) == 1
    assert len(found.compiled.manifests[0].outputs) == len(converted.outputs) + 1
    with pytest.raises(UserError, match="finds 0 elements"):
        found.compiled(rows(5, "none"))


def test_a_dim_that_hangs_on_a_count_keeps_its_meaning() -> None:
    """``u0 + 1`` rows leave, and u0 beside them, so that whoever loads the program knows what they are."""
    found = compile_in_stages(asked("marked"), _options())
    (converted,) = found.converted
    assert [count.columns for count in converted.counts] == [1]
    compiled = found.compiled.exported_program
    (call,) = [node for node in compiled.graph.nodes if "execute_engine" in str(node.target)]
    assert {str(symbol) for symbol in call.meta["unbacked_bindings"]} == set(found.compiled.manifests[0].counts)


@pytest.mark.slow  # quick: an engine behind it takes any count
def test_left_to_pytorch_it_splits_the_program() -> None:
    options = _options(keep_in_torch=("aten.index.Tensor", "aten.nonzero.default"))
    found = compile_in_stages(asked("cloud"), options)
    assert len(found.engines) == 2
    assert not any(manifest.counts for manifest in found.compiled.manifests)
    for which in ("some", "all", "none"):
        _assert_agrees(found.compiled(rows(13, which)), model("cloud")(rows(13, which)))


def test_an_engine_behind_takes_any_count() -> None:
    """The sizes of one engine's outputs are those of the next one's inputs, none included."""
    found = compile_in_stages(asked("cloud"), _options(keep_in_torch=("aten.mean.dim",)))
    assert len(found.engines) == 2
    first, second = found.compiled.manifests
    assert first.counts
    (port,) = [port for port in second.inputs if port.name == "mean"]
    assert (port.profile[0].min, port.profile[0].max) == (0, ROWS)
    for which in ("some", "all", "none"):
        _assert_agrees(found.compiled(rows(13, which)), model("cloud")(rows(13, which)))


class Asserting(torch.nn.Module):
    """What it asserts of its mask's count is more than follows: another mask finds as many."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x[:, 0] > 0] + x[x[:, 1] > 0]


def test_that_two_masks_agree_is_made_sure_of() -> None:
    example = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [-2.0, -2.0]])
    asked_for = (Asserting(), (example,), {}, {"x": {0: Dim("n", min=2, max=9)}})
    found = compile_in_stages(asked_for, _options())
    _assert_agrees(found.compiled(example), Asserting()(example))
    assert len({name for manifest in found.compiled.manifests for name in manifest.counts}) == 2
    with pytest.raises((RuntimeError, UserError)):
        found.compiled(torch.tensor([[1.0, -1.0], [-1.0, 1.0], [2.0, -2.0], [3.0, -3.0]]))


class Endless(torch.nn.Module):
    """A size that is a number in the data, without a greatest value."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        count = x.sum().abs().to(torch.int64).item()
        torch._check(count >= 0)
        made = torch.zeros(count, 3)
        return (made + 1).relu() * 2, (x + 1).relu() * 2


@pytest.mark.slow  # quick: test_an_engine_behind_takes_any_count
def test_a_size_without_an_end_stays_with_pytorch() -> None:
    found = compile_in_stages((Endless(), (rows(5, "some"),), {}, {"x": {0: Dim("n", min=1, max=9)}}), _options())
    codes = {entry.op: entry.limit.code for entry in found.plan.partitioned.fallback}
    assert codes["aten.relu.default"] == "unbounded-size"
    assert all(size.max is not None for m in found.compiled.manifests for port in m.inputs for size in port.profile)
    _assert_agrees(found.compiled(rows(7, "some")), Endless()(rows(7, "some")))
    # All ops for the want of one end are one finding, under that about the size.
    told = {f.rule: f for f in found.report.findings if f.rule in ("OPS502", "SYM204")}
    assert len([f for f in found.report.findings if f.rule == "OPS502"]) == 1
    assert told["OPS502"].root == told["SYM204"].id
    assert "a size that follows from item" in told["OPS502"].message


@pytest.mark.slow  # quick: test_an_engine_behind_takes_any_count
@pytest.mark.parametrize("name", SAVED)
def test_a_target_that_does_not_build_them(name: str) -> None:
    found = compile_in_stages(asked(name), _options("8.6"))
    assert found.verification is not None
    assert found.verification.passed
    assert not any(manifest.counts for manifest in found.compiled.manifests)
    assert "data-dependent-shape" in {entry.limit.code for entry in found.plan.partitioned.fallback}


class ManyExperts(torch.nn.Module):
    """Each expert has an op in the middle that stays with PyTorch, and puts rows back to the places of its mask."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        choice = (x[:, 0] * 1000).long() % 60
        for number in range(60):
            mine = choice == number
            out[mine] = torch.sinh(x[mine] + 1) * 2
        return out


@pytest.mark.slow
def test_many_masks_behind_a_fallback() -> None:
    asked_for = (ManyExperts(), (rows(17, "some"),), {}, {"x": {0: Dim("n", min=1, max=31)}})
    found = compile_in_stages(asked_for, _options(keep_in_torch=("aten.sinh.default",)))
    assert found.verification is not None
    assert found.verification.passed, found.verification
    codes = {entry.limit.code for entry in found.plan.partitioned.fallback}
    assert codes <= {"kept-in-torch", "segment-too-small"}
