"""VITS: how long the speech is, the durations decide that the model finds; half of its ops come behind that."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from tests.models.library import needs_library
from tests.models.torchvision_ops import declare_missing_ops
from trtdiag.errors import ShapeOutOfRangeError
from trtdiag.report.report import Report

MOST_FRAMES = 400
WIDTHS = {"hidden_size": 32, "ffn_dim": 32, "flow_size": 32, "spectrogram_bins": 33, "upsample_initial_channel": 64}
"""Of a fourth of the usual channels and less: the same ops, in seconds."""
TOKENS = torch.randint(1, 37, (1, 24), generator=torch.Generator().manual_seed(0))


class Vits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with needs_library("VITS"):
            from transformers import VitsConfig, VitsModel

            torch.manual_seed(0)
            self.net = VitsModel(VitsConfig(**WIDTHS)).eval()
        self.net.noise_scale = self.net.noise_scale_duration = 0.0  # else no two runs are alike

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.net(input_ids=tokens, attention_mask=mask).waveform  # type: ignore[no-any-return]


def inside(report: object) -> int:
    assert isinstance(report, Report)
    partition = report.analysis.partition
    assert partition is not None
    return sum(segment.work_ops for segment in partition.plan.partitioned.segments)


@pytest.mark.slow
@pytest.mark.zoo
def test_what_comes_behind_the_length_of_the_speech_is_in_engines() -> None:
    declare_missing_ops()
    length = Dim("_t", min=5, max=31) + 1
    model = Vits()
    asked = model, (TOKENS, torch.ones_like(TOKENS)), {}, {"tokens": {1: length}, "mask": {1: length}}
    without = trtdiag.analyze(asked, target="11.4")
    (proposed,) = [each for each in without.findings if each.rule == "SYM204"]
    assert proposed.fix is not None
    name = proposed.fix.title.partition("--assume '")[2].partition("<=")[0]
    assert any("modeling_vits.py:" in each.fact for each in proposed.evidence)
    assert "4,096 takes" in proposed.fix.title
    program = trtdiag.compile(asked, backend="reference", target="11.4", assume={name: MOST_FRAMES})
    assert inside(program.report) > 1.5 * inside(without)
    assert isinstance(program.report, Report)
    left = program.report.analysis.partition
    assert left is not None
    assert {each.op for each in left.plan.partitioned.fallback if each.computes} == {
        "aten.item.default",
        "aten.randn.default",
        "aten.randn_like.default",
    }
    short = TOKENS[:, :7]
    torch.testing.assert_close(
        program(short, torch.ones_like(short)), model(short, torch.ones_like(short)), rtol=1e-3, atol=1e-4
    )  # hundreds of convolutions and tangents in another order
    small = trtdiag.compile(asked, backend="reference", target="11.4", assume={name: 5}, verify=False)
    with pytest.raises(ShapeOutOfRangeError, match=f"{name} is [0-9]+, and the program was compiled with --assume"):
        small(TOKENS, torch.ones_like(TOKENS))
