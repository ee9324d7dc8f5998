"""Products of more than 2**31 bytes that repeat an operand; needs a GPU with some 16 GiB and TensorRT."""

from __future__ import annotations

import pytest
import torch
from large_products import CASES, program, results, wrong

from trtdiag.targets import installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]


@pytest.mark.parametrize("name", CASES)
def test_every_element_is_right(name: str) -> None:
    assert not torch.backends.cuda.matmul.allow_tf32  # it is expected in float32
    if torch.cuda.mem_get_info()[0] < 16 << 30:
        pytest.skip("less than 16 GiB of the GPU's memory are free")
    module, compiled = program(name)
    assert len(compiled.manifests) == 1
    actual, expected = results(name, module, compiled)
    assert actual.nbytes > 2**31
    found = wrong(actual, expected)
    assert not found.count, found
