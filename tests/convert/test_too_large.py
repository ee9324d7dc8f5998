"""Ops that are left to PyTorch since a layer of theirs would make a tensor that the target cannot have."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import trtdiag
from trtdiag.analysis.finding import Severity
from trtdiag.report.report import Report
from trtdiag.symbolic import Num


class Attention(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x)
        return F.scaled_dot_product_attention(y, y, y) + y


def _report(batch: int, length: int, target: str) -> Report:
    dims = {"x": {0: Dim("batch", min=1, max=batch), 2: Dim("length", min=2, max=length)}}
    exported = torch.export.export(Attention(), (torch.randn(2, 4, 6, 8),), dynamic_shapes=dims)
    return trtdiag.analyze(exported, target=target)


def _limits(report: Report) -> dict[str, str]:
    partition = report.analysis.partition
    assert partition is not None
    fallback = partition.partitioned.fallback
    return {entry.op: entry.limit.code for entry in fallback if entry.limit.code != "segment-too-small"}


# 4 heads and 4096 positions are 2**26 scores an image: 31 images are below 2**31, 32 are 2**31 itself, one too many.
@pytest.mark.parametrize(("batch", "stays"), [(31, False), (32, True)])
def test_scores_of_attention(batch: int, stays: bool) -> None:
    limits = _limits(_report(batch, 4096, "8.6"))
    assert limits == ({"aten.scaled_dot_product_attention.default": "too-many-elements"} if stays else {})


def test_the_words_have_the_sizes_and_what_to_do() -> None:
    report = _report(32, 4096, "8.6")
    found = [finding for finding in report.findings if finding.rule == "OPS502"]
    assert len(found) == 1
    told = " ".join([found[0].message, *(evidence.fact for evidence in found[0].evidence)])
    assert "MatrixMultiply makes 32 x 4 x 4096 x 4096, 2,147,483,648 elements" in told
    assert "at most 2,147,483,647" in told
    assert not [finding for finding in report.findings if finding.severity is Severity.ERROR]


@pytest.mark.parametrize("target", ["10.16", "11.4"])
def test_versions_with_a_layer_for_it_hold_no_scores(target: str) -> None:
    assert not _limits(_report(32, 4096, target))


class Upsampled(torch.nn.Module):
    """16 channels of up to 32 x 2048 x 2048: 2**31 elements after the second convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 16, 3, 1, 1), torch.nn.Conv2d(16, 3, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.interpolate(torch.relu(self.first(x)), scale_factor=4.0)
        return self.last(torch.relu(y))


def _upsampled(most: int, target: str) -> tuple[dict[str, str], list[str]]:
    torch.manual_seed(0)
    dims = {"x": {0: Dim("batch", min=1, max=most), 2: Dim("h", min=1, max=512), 3: Dim("w", min=1, max=512)}}
    exported = torch.export.export(Upsampled().eval(), (torch.randn(2, 3, 5, 7),), dynamic_shapes=dims)
    report = trtdiag.analyze(exported, target=target)
    assert not [finding for finding in report.findings if finding.severity is Severity.ERROR]
    said = [finding.message for finding in report.findings if finding.rule == "SYM205"]
    return _limits(report), said


# Quick: both sides of the limit.
@pytest.mark.slow  # quick: test_what_reads_or_makes_a_large_tensor_runs_in_pytorch
@pytest.mark.parametrize(
    ("most", "target", "stays"),
    [
        (31, "8.6", []),
        (32, "8.6", ["aten.conv2d.default", "aten.relu.default", "aten.upsample_nearest2d.vec"]),
        pytest.param(31, "11.4", [], marks=pytest.mark.slow),
        pytest.param(
            32, "11.4", ["aten.conv2d.default"], marks=pytest.mark.slow
        ),  # the last one alone; other layers take it
    ],
)
def test_large_tensors_of_the_program(most: int, target: str, stays: list[str]) -> None:
    limits, said = _upsampled(most, target)
    assert sorted(limits) == stays
    assert set(limits.values()) <= {"too-many-elements"}

    assert any("stay in PyTorch" in message for message in said) is bool(stays)


def test_what_reads_or_makes_a_large_tensor_runs_in_pytorch() -> None:
    torch.manual_seed(0)
    model = Upsampled().eval()
    dims = {"x": {0: Dim("batch", min=1, max=32), 2: Dim("h", min=1, max=512), 3: Dim("w", min=1, max=512)}}
    exported = torch.export.export(model, (torch.randn(2, 3, 5, 7),), dynamic_shapes=dims)
    compiled = trtdiag.compile(exported, target="8.6", min_segment_ops=1, verify=False)
    (manifest,) = compiled.manifests
    (result,) = manifest.outputs  # the first convolution, before the image grows
    assert result.dims[1:2] == (Num(16),)
    for sizes in ((1, 3, 1, 1), (3, 3, 17, 5)):
        x = torch.randn(sizes)
        # One convolution of 27 terms in another order.
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_compiled_program_runs_attention_in_pytorch() -> None:
    dims = {"x": {0: Dim("batch", min=1, max=32), 2: Dim("length", min=2, max=4096)}}
    exported = torch.export.export(Attention(), (torch.randn(2, 4, 6, 8),), dynamic_shapes=dims)
    compiled = trtdiag.compile(exported, target="8.6", min_segment_ops=1, verify=False)
    assert len(compiled.manifests) == 2
    for batch, length in ((1, 2), (3, 37)):
        x = torch.randn(batch, 4, length, 8)
        # The same kernel for attention; a sum and a sigmoid in float32.
        torch.testing.assert_close(compiled(x), Attention()(x), rtol=1e-6, atol=1e-6)
