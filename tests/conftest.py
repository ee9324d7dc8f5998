"""Settings for every test."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest
import torch

from tests.random_cases import take_fewer
from tests.whole_float32 import in_whole_float32

# Several test runs share a small machine: one thread each keeps them from slowing each other down.
torch.set_num_threads(1)
# pytest 9 listens to loggers that do not propagate, and torch writes its traces as soon as somebody listens to this
# one: the text of every graph and the stack of every symbol.
logging.getLogger("torch.__trace").propagate = True
# Libraries and test modules stay until the end: looking through millions of their objects for garbage, again with each
# import, took a third of collecting the tests.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    if "not slow" in config.option.markexpr:
        take_fewer()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on, only what the tests make is looked through."""
    gc.freeze()
    # The first round of garbage begins after 700 new objects otherwise: an export makes hundreds of thousands.
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


def pytest_sessionfinish() -> None:
    """What is left goes with the process: pytest collects it five times otherwise."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _modes_stay() -> Iterator[None]:
    """A test that leaves a mode of torch switched over changes what the tests after it trace."""
    before = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype())
    yield
    after = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype())
    torch.set_grad_enabled(before[0])
    assert after == before, f"gradients, inference mode, default dtype were {before} and are {after}"


@pytest.fixture
def whole_float32() -> Iterator[None]:
    """What PyTorch computes is compared with engines, which compute float32 whole."""
    with in_whole_float32():
        yield
