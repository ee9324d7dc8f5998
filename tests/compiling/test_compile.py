"""``trtdiag.compile``: options, refusals, and programs that agree with the original."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

import trtdiag
from tests.compiling.programs import mlp, refused, registry_with_wrong_relu, saved, unbounded
from tests.harness.rows import thinned
from trtdiag.convert import registry
from trtdiag.errors import DiagnosisError, DimsError, ShapeOutOfRangeError, UnsupportedOpError, UserError
from trtdiag.options import CompileOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages, with_changes
from trtdiag.pipeline.verify import verify_saved


@cache
def plain() -> trtdiag.CompiledProgram:
    """The model, compiled once for all that only run or save it."""
    return trtdiag.compile(mlp(), backend="reference", verify=False)


# Quick: the oldest and the newest.
@thinned("target", ["8.6", "10.16", "11.4"], every=2)
def test_compiled_like_the_module(target: str) -> None:
    module, args, _, _ = asked = mlp()
    compiled = trtdiag.compile(asked, backend="reference", target=target)
    # The same products summed in another order.
    torch.testing.assert_close(compiled(*args), module(*args), rtol=1e-5, atol=1e-6)
    assert [manifest.target for manifest in compiled.manifests] == [target]


@pytest.mark.parametrize("sizes", [(1, 2), (9, 33), (7, 31)])
def test_every_size_in_the_range_runs(sizes: tuple[int, int]) -> None:
    module, _, _, _ = mlp()
    x = torch.randn(*sizes, 5)
    torch.testing.assert_close(plain()(x=x), module(x), rtol=1e-5, atol=1e-6)


def test_a_size_outside_is_refused_by_name() -> None:
    with pytest.raises(ShapeOutOfRangeError) as caught:
        plain()(torch.randn(10, 6, 5))
    assert "x.shape[0] is 10" in str(caught.value)
    assert "1 to 9" in str(caught.value)


def test_it_is_verified_at_both_ends_of_every_range() -> None:
    found = compile_in_stages(mlp(), CompileOptions(backend="reference"))
    assert found.verification is not None
    assert found.verification.passed
    seen = {tuple(sorted(result.point.sizes.values())) for result in found.verification.results}
    assert {(1, 2), (9, 33), (1, 33), (2, 9), (4, 6)} <= seen
    names = [stage.name for stage in found.stages]
    assert names[-4:] == ["convert", "build", "assemble", "verify"]
    assert names.count("partition") == 1


@pytest.mark.slow  # quick: test_it_is_verified_at_both_ends_of_every_range
def test_it_is_verified_at_the_sizes_that_it_is_tuned_for() -> None:
    found = compile_in_stages(mlp(), CompileOptions(backend="reference", opt=(("x.shape[0]", 8), ("x.shape[1]", 13))))
    assert found.verification is not None
    tuned = [result for result in found.verification.results if result.point.label == "tuned for"]
    assert [sorted(result.point.sizes.values()) for result in tuned] == [[8, 13]]
    assert tuned[0].passed


@pytest.mark.slow  # quick: tests/cli/test_compile_cli.py
def test_errors_stop_it_unless_forced() -> None:
    with pytest.raises(DiagnosisError) as caught:
        trtdiag.compile(unbounded(), backend="reference")
    assert caught.value.because == (  # equal findings once
        "SYM201 x2: A dynamic dim has no upper bound, so no optimization profile can be made"
    )
    assert caught.value.report is not None
    assert caught.value.exit_code == 1
    compiled = trtdiag.compile(unbounded(), backend="reference", force=True)
    assert compiled(torch.randn(3, 101, 5)).shape == (3, 101, 3)


def test_a_refused_export_has_nothing_to_compile() -> None:
    with pytest.raises(DiagnosisError, match="severity ERROR") as caught:
        trtdiag.compile(refused(), backend="reference")
    assert "ART802: torch.export refused" in caught.value.because
    assert ".;" not in f"{caught.value.because};", "sentences of one list end in no full stop"


@pytest.mark.slow  # quick: test_sizes_to_tune_for, in tests/cli/test_compile_cli.py
def test_usual_sizes_are_the_users() -> None:
    compiled = trtdiag.compile(mlp(), backend="reference", opt={"batch": 8, "steps": 31}, verify=False)
    ((_, *dims),) = [(port.name, *port.profile) for port in compiled.manifests[0].inputs]
    assert [(dim.min, dim.opt, dim.max) for dim in dims] == [(1, 8, 9), (2, 31, 33), (5, 5, 5)]


@pytest.mark.slow  # quick: tests/shapes/test_profile.py
def test_a_usual_size_outside_the_range_is_refused() -> None:
    with pytest.raises(DimsError, match="batch"):
        trtdiag.compile(mlp(), backend="reference", opt={"batch": 10})


@pytest.mark.slow  # quick: tests/convert/test_engine_plan.py, tests/partition/test_partition_options.py
def test_full_or_not_at_all() -> None:
    with pytest.raises(UnsupportedOpError, match=r"aten\.relu"):
        trtdiag.compile(mlp(), backend="reference", keep_in_torch="aten.relu", require_full=True)
    compiled = trtdiag.compile(mlp(), backend="reference", keep_in_torch="aten.relu", min_segment_ops=1)
    assert len(compiled.manifests) == 2


def test_unknown_options_are_named() -> None:
    with pytest.raises(UserError, match="no option 'precison'"):
        trtdiag.compile(mlp(), precison="fp16")
    with pytest.raises(UserError, match="no precision 'fp17'"):
        trtdiag.compile(mlp(), precision="fp17")
    with pytest.raises(UserError, match="no backend 'cuda'"):
        trtdiag.compile(mlp(), backend="cuda")


def test_changes_reach_both_kinds_of_options() -> None:
    options = with_changes(
        CompileOptions(), {"precision": "fp16", "min_segment_ops": 1, "keep_in_torch": ["a", "b"], "opt": {"h": 3}}
    )
    assert options.precision is Precision.FP16
    assert options.partition.min_segment_ops == 1
    assert options.partition.keep_in_torch == ("a", "b")
    assert options.opt == (("h", 3),)
    assert with_changes(options, {}) == options


def test_a_wrong_converter_is_named_by_op_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = registry_with_wrong_relu()
    monkeypatch.setattr(registry, "converters", lambda: wrong)
    found = compile_in_stages(mlp(), CompileOptions(backend="reference"))
    assert found.verification is not None
    assert not found.verification.passed
    culprit = found.verification.culprit
    assert culprit is not None
    assert culprit.origin is not None
    assert culprit.origin.op == "aten.relu.default"
    assert culprit.origin.frame is not None
    assert "torch.relu(self.first(x))" in culprit.origin.frame.code


@pytest.mark.slow  # quick: a saved program differs from another model
def test_a_saved_program_is_verified_against_its_source(tmp_path: Path) -> None:
    original, path = tmp_path / "model.pt2", tmp_path / "model_trt.pt2"
    original.write_bytes(saved(mlp))
    trtdiag.save(trtdiag.compile(str(original), backend="reference", verify=False), path)
    found = verify_saved(path)
    assert found.verification.passed
    assert found.compiled.source == str(original)
    assert found.compiled.options == CompileOptions(backend="reference", verify=False)


@pytest.mark.slow  # quick: a wrong converter differs; files of programs are verified in test_compiled_again.py
def test_a_saved_program_differs_from_another_model(tmp_path: Path) -> None:
    path = tmp_path / "model_trt.pt2"
    trtdiag.save(plain(), path)
    module, args, kwargs, dims = mlp()
    with torch.no_grad():
        module.second.bias.add_(1)  # type: ignore[union-attr,operator]
    assert not verify_saved(path, (module, args, kwargs, dims)).verification.passed
    assert verify_saved(path, mlp()).verification.passed


def test_without_an_original_it_says_what_to_give(tmp_path: Path) -> None:
    path = tmp_path / "model_trt.pt2"
    trtdiag.save(plain(), path)
    with pytest.raises(UserError, match="--model"):
        verify_saved(path)


def test_an_original_that_is_gone_is_named(tmp_path: Path) -> None:
    original, path = tmp_path / "model.pt2", tmp_path / "model_trt.pt2"
    original.write_bytes(saved(mlp))
    trtdiag.save(trtdiag.compile(str(original), backend="reference", verify=False), path)
    original.unlink()
    with pytest.raises(UserError, match=r"model\.pt2"):
        verify_saved(path)
