"""The programs that tests of calls run, one after the other, and what PyTorch gives on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from engines_to_run import MODELS, model, several
from torch import Tensor


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def expected(name: str) -> Callable[[Tensor], tuple[Tensor, ...]]:
    made = model(name, "cpu")

    def of(x: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return several(made(x.detach().cpu()))

    return of
