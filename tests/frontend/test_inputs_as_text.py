"""Inputs as they are written on the command line."""

from __future__ import annotations

import pytest
import torch

from trtdiag import Input
from trtdiag.errors import ArgumentError
from trtdiag.frontend.written_inputs import written_inputs


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["1..8x3"], (Input((1, 3), max=(8, 3)),)),
        (["x=1x3x224x224"], {"x": Input((1, 3, 224, 224))}),
        (["x=1..4..8x3:float16"], {"x": Input((1, 3), (4, 3), (8, 3), dtype=torch.float16)}),
        (["ids=1..16x2..4096:int64, mask = 7:bool"], {
            "ids": Input((1, 2), max=(16, 4096), dtype=torch.int64),
            "mask": Input((7,), dtype=torch.bool),
        }),
        (["1", "2x0:torch.int32"], (Input((1,)), Input((2, 0), dtype=torch.int32))),
        (["scale="], {"scale": Input(())}),
        (["scale=:float64"], {"scale": Input((), dtype=torch.float64)}),
    ],
)  # fmt: skip
def test_sizes_are_read(words: list[str], found: object) -> None:
    assert written_inputs(words) == found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["x=1x", "y=2"], "'' of '1x' is no size"),
        (["x=1..2..3..4"], "'1..2..3..4' of '1..2..3..4' is no size"),
        (["x=-1"], "'-1' of '-1' is no size"),
        (["x=²"], "'²' of '²' is no size"),
        (["x=3:flot32"], "'flot32' is no dtype"),
        (["x=3:nn"], "'nn' is no dtype"),
        (["x=3", "4"], "names some inputs and others not"),
        (["x=3,x=4"], "has the name 'x'"),
        (["1x=3"], "has the name '1x'"),
        (["x=8..1"], "has no order"),
        ([""], None),
    ],
)
def test_what_is_not_written_so_is_refused(words: list[str], told: str | None) -> None:
    if told is None:
        assert written_inputs(words) == (Input(()),)  # a number without dims is a tensor, too
        return
    with pytest.raises(ArgumentError) as caught:
        written_inputs(words)
    assert told in caught.value.message
