"""What programs quantize, by whoever quantized them, and the findings about it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram, export

import trtdiag
from tests.calibration.programs import calls, exported_net, images, net
from tests.harness.pt2e_quantizer import pt2e_quantized
from trtdiag.calibration.calibrate import calibrated
from trtdiag.calibration.insert import folded
from trtdiag.dtypes.facts import QuantizedTensor
from trtdiag.frontend.capture import capture
from trtdiag.graph.quantizers import decomposed_ops

NEW = ("TYP404", "TYP405", "TYP406", "TYP407", "PRT605")


def facts(program: ExportedProgram) -> tuple[tuple[QuantizedTensor, ...], list[str]]:
    report = trtdiag.analyze(program, target="11.4")
    assert report.analysis.dtypes is not None
    return report.analysis.dtypes.quantized, [f.rule for f in report.analysis.findings if f.rule in NEW]


@pytest.mark.slow  # quick: tests/compiling/test_compile_int8.py
def test_what_is_calibrated_here_has_nothing_to_find() -> None:
    made, _, _ = calibrated(folded(capture(exported_net())), calls(images(1)), (), lambda _step: None)
    assert made.exported is not None
    found, rules = facts(made.exported)
    assert rules == []
    assert sum(each.weight for each in found) == 7
    assert all(each.symmetric and not each.from_data and not each.odd_axis for each in found)
    readers = [reader for each in found for reader in each.readers]
    assert {reader.op for reader in readers} == {"aten.conv2d.default", "aten.linear.default", "aten.add_.Tensor"}
    assert not [reader for reader in readers if reader.floats or reader.beside]


@pytest.mark.slow  # quick: what is calibrated here has nothing to find
def test_nor_has_what_pt2e_makes_symmetrically() -> None:
    found, rules = facts(pt2e_quantized(net(), (torch.randn(2, 3, 17, 13),)))
    assert found
    assert rules == []


class Dynamic(nn.Module):
    """As torchao's dynamic activations are exported: the product is one of integers, and nothing dequantizes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (32, 32), dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax() / 127
        how = (scale, torch.zeros((), dtype=torch.int64), -128, 127, torch.int8)
        numbers = torch.ops.quantized_decomposed.quantize_per_tensor.tensor(x, *how)
        return torch._int_mm(numbers, self.weight).float() * scale


def test_scales_of_products_of_integers() -> None:
    decomposed_ops()  # registers them
    found, rules = facts(export(Dynamic(), (torch.randn(32, 32),)))
    assert [each.from_data for each in found] == [True]
    assert "TYP404" in rules


def test_a_program_without_quantizers() -> None:
    assert facts(exported_net()) == ((), [])
