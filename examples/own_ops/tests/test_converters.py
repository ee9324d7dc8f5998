"""The converters do what the ops do, at static and dynamic sizes, for the oldest and the newest TensorRT."""

from __future__ import annotations

import acme_ops
import acme_ops.converters
import pytest
import torch

from trtdiag.testing import check_converter


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_swiglu(dtype: torch.dtype) -> None:
    checked = check_converter(acme_ops.swiglu, (torch.randn(3, 5, 8).to(dtype) * 4, 1.5))
    assert len(checked.sizes) > 1


def test_masked_sum() -> None:
    x = torch.randn(4, 7)
    check_converter(acme_ops.masked_sum, (x, x > 0))
