"""``inputs=[...]`` from a module to a compiled program, and what fix-dims proposes where torch refuses them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import trtdiag
from trtdiag import Input
from trtdiag.fixdims.interrupted_exports import FAILS_ITSELF
from trtdiag.pipeline import compile_errors
from trtdiag.shapes.profile import DimProfile


class Add(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x) + y


class Quarters(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x.view(x.shape[0], -1, 4))


def test_a_module_compiles_with_inputs_and_is_tuned_for_their_opt() -> None:
    small = Input(min=(1, 8), opt=(1, 8), max=(6, 8))
    compiled = trtdiag.compile(Add(), inputs=[small, small], backend="reference", min_segment_ops=0)
    (manifest,) = compiled.manifests
    assert {port.profile[0] for port in manifest.inputs} == {DimProfile(1, 1, 6)}
    x, y = torch.randn(3, 8), torch.randn(3, 8)
    assert torch.equal(compiled(x, y=y), torch.relu(x) + y)
    with pytest.raises(trtdiag.ShapeOutOfRangeError):
        compiled(torch.randn(7, 8), torch.randn(7, 8))


@pytest.mark.slow  # quick: the same sizes in tests/report/test_sizes_in_words.py
def test_analyze_reports_what_torch_refuses_of_inputs() -> None:
    report = trtdiag.analyze(Quarters(), inputs=[Input((1, 4), (2, 8), (4, 64))])
    assert report.errors
    assert "x_dim1" in report.verdict


@pytest.mark.slow  # quick: analyze reports what torch refuses of inputs
def test_compile_says_what_fix_dims_says_of_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    known = trtdiag.fix_dims("Constraints violated (x_dim1)!\nSuggested fixes:\n  x_dim1 = 4*_x_dim1\n")
    monkeypatch.setattr(
        compile_errors, "fix_dims", lambda *args, **kwargs: known
    )  # no exports in processes of their own
    with pytest.raises(trtdiag.DiagnosisError) as caught:
        trtdiag.compile(Quarters(), inputs=[Input((1, 4), (2, 8), (4, 64))], backend="reference")
    assert caught.value.reference == "inputs-refused"
    assert "4*_x_dim1" in caught.value.fix
    assert "GRD" in caught.value.because


@pytest.mark.slow
def test_compile_says_what_fix_dims_proposes() -> None:
    asked = [Input((1, 4), (2, 8), (4, 64))]
    with pytest.raises(trtdiag.DiagnosisError) as caught:
        trtdiag.compile(Quarters(), inputs=asked, backend="reference")
    assert caught.value.reference == "inputs-refused"
    assert "fix-dims proposes x_dim1: 4..64 -> 4*_x_dim1, _x_dim1: 2..16" in caught.value.fix
    assert caught.value.report is not None
    fix = trtdiag.fix_dims(Quarters(), inputs=asked)
    assert trtdiag.compile(fix.program, backend="reference", min_segment_ops=0)(torch.ones(3, 12)).shape == (3, 3, 4)


def test_inputs_that_the_model_itself_refuses_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = f"{FAILS_ITSELF}: RuntimeError: mat1 and mat2"
    known = replace(trtdiag.fix_dims("Constraints violated (n)!\nSuggested fixes:\n  n = 4*_n\n"), notes=(refused,))
    monkeypatch.setattr(
        compile_errors, "fix_dims", lambda *args, **kwargs: known
    )  # no exports in processes of their own
    with pytest.raises(trtdiag.DiagnosisError) as caught:
        trtdiag.compile(nn.Linear(3, 2), inputs=[Input((1, 4))], backend="reference")
    assert caught.value.fix == f"give other inputs, or change the model: {refused}"


def test_other_errors_of_a_compilation_stay_as_they_are() -> None:
    class Doubles(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.fft(x).real.double()

    with pytest.raises(trtdiag.UnsupportedOpError):
        trtdiag.compile(Doubles(), inputs=[Input((4, 8))], backend="reference", require_full=True)
