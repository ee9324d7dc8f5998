"""Programs in which the data decide sizes, on TensorRT: inside of its engines, or from PyTorch into them."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.compiling.counting_models import MODELS, ROWS, asked, model, rows
from trtdiag.errors import UserError
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target, installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
# TensorRT sums in another order, in float32.
CLOSE = {"rtol": 1e-3, "atol": 1e-4}


@pytest.mark.parametrize("name", MODELS)
def test_it_agrees_with_the_model(name: str) -> None:
    module, args, kwargs, dims = asked(name)
    there = (module.cuda(), tuple(arg.cuda() for arg in args), kwargs, dims)
    options = CompileOptions(
        get_target(None).version,
        "tensorrt",
        verify=False,
        optimization_level=1,
        partition=PartitionOptions(min_segment_ops=1),
    )
    compiled = compile_in_stages(there, options).compiled
    own = model(name)
    for count in (1, 2, 31, ROWS):
        for which in ("some", "all", "none"):
            x = rows(count, which, seed=count)
            try:
                expected = own(x)
            except (IndexError, RuntimeError):  # of nothing there is no greatest element
                with pytest.raises((UserError, RuntimeError)):
                    compiled(x.cuda())
                continue
            actual = pytree.tree_leaves(compiled(x.cuda()))
            for got, wanted in zip(actual, pytree.tree_leaves(expected), strict=True):
                got = got.cpu() if isinstance(got, torch.Tensor) else got
                torch.testing.assert_close(got, wanted, **CLOSE)
