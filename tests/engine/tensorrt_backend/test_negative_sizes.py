"""Ranges at whose ends a tensor inside of an engine would have fewer than no elements."""

from __future__ import annotations

import pytest
from refusal_networks import REFUSALS, convolution

from trtdiag.engine.tensorrt.network_checks import check_sizes
from trtdiag.errors import EngineBuildError
from trtdiag.shapes.profile import DimProfile


def test_an_end_below_the_kernel_is_refused_with_op_and_line() -> None:
    asked = REFUSALS["profile-below-kernel"]
    with pytest.raises(EngineBuildError) as caught:
        check_sizes(asked.network(), asked.profile)
    assert caught.value.reference == "profile-impossible"
    assert "a size of 3 in dim 2 of 'x'" in caught.value.message
    assert asked.names in caught.value.because
    assert "size of -3" in caught.value.because
    assert "ranges" in caught.value.fix


@pytest.mark.parametrize("least", [6, 7, 64])
def test_the_least_size_that_is_possible_is_taken(least: int) -> None:
    fixed = (DimProfile(1, 1, 1), DimProfile(4, 4, 4))
    profile = {"x": (*fixed, DimProfile(least, 64, 64), DimProfile(64, 64, 64))}
    check_sizes(convolution(4, 7, (3, 64)), profile)


@pytest.mark.parametrize("name", [name for name in REFUSALS if name != "profile-below-kernel"])
def test_other_networks_have_no_such_size(name: str) -> None:
    check_sizes(REFUSALS[name].network(), REFUSALS[name].profile)
