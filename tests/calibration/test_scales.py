"""Scales that half precision holds, and what they make of tensors."""

from __future__ import annotations

import torch

from trtdiag.calibration.scales import (
    after_quantizing,
    after_quantizing_weight,
    channel_scales,
    held_by_half,
    quantized_weight,
)


def test_the_next_number_of_float16() -> None:
    wanted = torch.cat([2.0 ** torch.empty(2000).uniform_(-14, 15.9), torch.tensor([1.0, 0.5, 65504.0, 2.0**-14])])
    found = held_by_half(wanted)
    assert torch.equal(found, found.half().float())
    assert bool((found >= wanted).all())
    below = (found.half().view(torch.int16) - 1).view(torch.half).float()
    assert bool((below < wanted).all())
    # Beside a usual scale a tiny one becomes a normal number of float16, which Dequantize layers in float16 take.
    assert held_by_half(torch.tensor([0.0, 1e-9, 1e9])).tolist() == [2.0**-14, 2.0**-14, 65504.0]
    assert held_by_half(torch.tensor([0.0, 1e-9, 2.0**-16])).tolist() == [2.0**-20, 2.0**-20, 2.0**-16]


def test_weights_by_channel() -> None:
    weight = torch.randn(5, 3, 2, 2) * torch.tensor([1e-3, 1.0, 1e3, 0.0, 3e-9]).reshape(-1, 1, 1, 1)
    for axis in (0, 1):
        moved = weight.transpose(0, axis)
        scales = channel_scales(moved, axis)
        numbers = quantized_weight(moved, scales, axis)
        assert scales.shape == (5,)
        assert numbers.dtype == torch.int8
        assert numbers.abs().amax().item() == 127
        back = after_quantizing_weight(moved, axis)
        along = scales.reshape([-1 if dim == axis else 1 for dim in range(4)])
        assert bool(((back - moved).abs() <= along / 2 * 1.0001).all())
        assert torch.equal(back, numbers.float() * along)


def test_a_tensor_is_clipped_at_both_ends() -> None:
    x = torch.tensor([-1000.0, -128.4, -0.5, 0.0, 0.5, 1.5, 127.4, 1000.0])
    assert after_quantizing(x, 1.0).tolist() == [-128, -128, 0, 0, 0, 2, 127, 127]
    assert after_quantizing(x.half(), 0.25).dtype == torch.half
    # As torch's own op has it.
    from trtdiag.graph.quantizers import decomposed_ops

    ops, y = decomposed_ops(), torch.randn(1000) * 40
    how = (0.25, 0, -128, 127, torch.int8)
    expected = ops.dequantize_per_tensor(ops.quantize_per_tensor(y, *how), *how)
    assert torch.equal(after_quantizing(y, 0.25), expected)
