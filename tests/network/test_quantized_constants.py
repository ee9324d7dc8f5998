"""Constants of dtypes that PyTorch holds in another one."""

from __future__ import annotations

import pytest
import torch
from network_cases import ORIGIN

from trtdiag.errors import InternalError
from trtdiag.network import DType, NetworkBuilder, canonical_hash, from_bytes, run, to_bytes
from trtdiag.network.layers.quantize import Dequantize, DynamicQuantize, LayerError, Quantize


def test_equal_bytes_of_two_dtypes_are_two_constants_and_stay_so_in_a_file() -> None:
    stored, builder = torch.tensor([[1, -8, 7]], dtype=torch.int8), NetworkBuilder()
    for dtype, scale in ((DType.INT8, 0.5), (DType.INT4, 2.0)):
        values = builder.constant(stored, ORIGIN, dtype), builder.constant(torch.tensor(scale), ORIGIN)
        builder.output(dtype.value, builder.add_single(Dequantize(DType.FLOAT32), *values, origin=ORIGIN))
    network = builder.build()
    again = from_bytes(to_bytes(network))
    assert canonical_hash(again) == canonical_hash(network)
    assert [tensor.dtype for tensor in again.tensors] == [tensor.dtype for tensor in network.tensors]
    assert {DType.INT8, DType.INT4} <= {tensor.dtype for tensor in again.tensors}
    for got, factor in zip(run(again, []), (0.5, 2.0), strict=True):
        assert torch.equal(got, stored * factor)


def test_a_weight_that_cannot_hold_the_dtype_is_refused() -> None:
    with pytest.raises(InternalError, match="Constant"):
        NetworkBuilder().constant(torch.ones(3), ORIGIN, DType.INT4)
    with pytest.raises(InternalError) as caught:
        NetworkBuilder().constant(torch.ones(3).to(torch.float8_e4m3fn), ORIGIN)
    assert "float8_e4m3fn" in caught.value.because


@pytest.mark.parametrize(
    ("value", "fits"),
    [(-9, False), (-8, True), (7, True), (8, False)],
)
def test_what_four_bits_hold(value: int, fits: bool) -> None:
    assert DType.INT4.holds(value) is fits


def test_impossible_attributes() -> None:
    for impossible in (
        lambda: Quantize(DType.E8M0),
        lambda: Dequantize(DType.INT8),
        lambda: DynamicQuantize(DType.INT8, 1, 16),
        lambda: DynamicQuantize(DType.FP4, 1, 32),
    ):
        with pytest.raises(LayerError):
            impossible()


def test_scales_that_do_not_fit() -> None:
    builder = NetworkBuilder()
    x = builder.input("x", DType.FLOAT32, [4, 6])
    for sizes in ((5,), (4, 4), (2, 3), (1, 1, 1)):
        with pytest.raises(InternalError):
            builder.add(Quantize(DType.INT8, 1), x, builder.constant(torch.ones(sizes), ORIGIN), origin=ORIGIN)
    assert builder.add(Quantize(DType.INT8, 1), x, builder.constant(torch.ones(4, 3), ORIGIN), origin=ORIGIN)
    for size in (33, 16):
        y = builder.input(f"y{size}", DType.FLOAT32, [2, size])
        with pytest.raises(InternalError):
            builder.add(DynamicQuantize(DType.FP8, 1, 32), y, origin=ORIGIN)
