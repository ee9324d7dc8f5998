"""What every test asks of torch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch._dynamo.config
import torch._ops

from tests.harness.logged import Logged, listening
from tests.random_cases import all_is_run
from tests.whole_float32 import in_whole_float32
from trtdiag.verification import limits

# Several test runs share a small machine: one thread each keeps them from slowing each other down.
torch.set_num_threads(1)
# Ops on fake tensors are looked up by their parts, which takes longer than an op of a small program with dynamic sizes:
# a quarter of an export.  The whole run has what users have.
torch._dynamo.config.fake_tensor_cache_enabled = all_is_run()
# Programs are compared at all sets of sizes, however busy the machine is.
limits.LEAST_TOTAL_S = 3600.0


@pytest.fixture(autouse=True)
def _modes_stay() -> Iterator[None]:
    """A test that leaves a mode of torch switched over changes what the tests after it trace."""
    before = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype())
    yield
    after = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype())
    # Each trace goes through all ops that were called since this was emptied, several times for each of its calls.
    for op in torch._ops.get_cached_ops():
        op._dispatch_cache.clear()
    torch._ops.reset_cached_ops()
    torch.set_grad_enabled(before[0])
    assert after == before, f"gradients, inference mode, default dtype were {before} and are {after}"


@pytest.fixture
def logged() -> Iterator[Logged]:
    """What the test logs."""
    with listening() as heard:
        yield heard


@pytest.fixture
def whole_float32() -> Iterator[None]:
    """What PyTorch computes is compared with engines, which compute float32 whole."""
    with in_whole_float32():
        yield
