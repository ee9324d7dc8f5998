"""Weights of four bits as TensorRT reads them."""

from __future__ import annotations

import torch
from network_cases import ORIGIN
from written import write

from trtdiag.engine.tensorrt.api_versions import in_half_bytes
from trtdiag.network import DType, NetworkBuilder
from trtdiag.network.layers.quantize import Dequantize


def test_the_first_of_two_has_the_lower_bits() -> None:
    packed = in_half_bytes(torch.tensor([1, -1, 7, -8, 3], dtype=torch.int8), DType.INT4)
    assert packed.tolist() == [0xF1, 0x87, 0x03]


def test_every_number_of_fp4() -> None:
    sizes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    packed = in_half_bytes(torch.cat([sizes, -sizes]).to(torch.float8_e4m3fn), DType.FP4)
    assert packed.tolist() == [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]


def test_a_constant_says_its_dtype_and_its_number_of_elements() -> None:
    builder = NetworkBuilder()
    stored = builder.constant(torch.tensor([[1, -1, 5]], dtype=torch.int8), ORIGIN, DType.INT4)
    scale = builder.constant(torch.tensor(0.5), ORIGIN)
    builder.output("y", builder.add_single(Dequantize(DType.FLOAT32), stored, scale, origin=ORIGIN))
    trt, emission = write(builder.build(), "11.4")
    dtype, _, count = trt.of("IConstantLayer")[0].given[0][1].given[0]
    assert (dtype, count) == (trt.DataType.INT4, 3)
    held = [one.tolist() for one in emission.alive if isinstance(one, torch.Tensor)]
    assert [0xF1, 0x05] in held
