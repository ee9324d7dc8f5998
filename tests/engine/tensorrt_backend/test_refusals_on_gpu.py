"""Refusals on purpose, by the real TensorRT; needs a GPU and TensorRT."""

from __future__ import annotations

import os

import pytest
import torch
from gpu_refusals import refusal_of
from refusal_networks import REFUSALS

from trtdiag.errors import EngineBuildError, PlatformError, ShapeOutOfRangeError
from trtdiag.targets import installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]


@pytest.mark.parametrize("name", ["layer-topk", "layer-rank", "profile-below-kernel"])
def test_a_layer_that_cannot_be_names_op_and_line(name: str) -> None:
    error = refusal_of(REFUSALS[name])
    assert isinstance(error, EngineBuildError)
    assert REFUSALS[name].names in str(error)


@pytest.mark.parametrize("name", ["profile-turned", "profile-disagrees", "volume-profile"])
def test_sizes_that_cannot_be_are_refused_with_advice_about_ranges(name: str) -> None:
    error = refusal_of(REFUSALS[name])
    assert isinstance(error, EngineBuildError)
    assert "ranges" in error.fix


def test_a_size_outside_of_the_profile_is_refused_before_the_run() -> None:
    error = refusal_of(REFUSALS["run-outside"])
    assert isinstance(error, ShapeOutOfRangeError)
    assert "'x'" in error.message


def test_too_small_a_workspace_names_the_op_and_the_option() -> None:
    # Which of them need scratch memory is TensorRT's choice of kernels, so one that does is enough.
    errors = [refusal_of(REFUSALS[name]) for name in REFUSALS if name.startswith("workspace-")]
    refused = [str(error) for error in errors if isinstance(error, EngineBuildError)]
    assert refused
    assert all("model.py:" in text and "workspace_mib" in text for text in refused)


@pytest.mark.skipif(
    "PYTEST_XDIST_WORKER" in os.environ,
    reason="it takes the GPU's memory from the tests in processes beside it: run this file by itself",
)
@pytest.mark.parametrize("name", ["memory-builder", "memory-build", "memory-context", "memory-network"])
def test_too_little_memory_is_said(name: str) -> None:
    error = refusal_of(REFUSALS[name])
    if error is None and name == "memory-builder":
        pytest.skip("TensorRT took no more memory: this process had built before")
    assert isinstance(error, (EngineBuildError, PlatformError))
    assert "memory" in str(error)
    assert "memory" in error.fix
