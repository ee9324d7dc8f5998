"""Weights of few bits that are on another device than the numbers of the graph."""

from __future__ import annotations

import pytest
import torch

from trtdiag.convert.layer_writers.quantized import _floats
from trtdiag.graph.quantizer import Grain, Quantizer, Step
from trtdiag.network.dtype import DType


@pytest.mark.parametrize("zero", [None, 3, torch.tensor([1, 2, 3])])
def test_scales_go_to_the_weights(zero: object) -> None:
    # "meta" stands for a GPU: PyTorch refuses its tensors beside those of the CPU, too.
    content = torch.empty(3, 4, dtype=torch.int8, device="meta")
    how = Quantizer(Step.DEQUANTIZE, Grain.CHANNEL, None, zero, -128, 127, torch.int8, axis=0)
    made = _floats(content, how, torch.tensor([0.5, 0.25, 0.125], dtype=torch.float64), DType.FLOAT16)
    assert made.device.type == "meta"
    assert made.dtype is torch.float16
    assert made.shape == (3, 4)
