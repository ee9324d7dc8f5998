"""Guards that torch asks for by itself are known by torch's own line, never by a name in somebody's model."""

from __future__ import annotations

import pytest

from trtdiag.analysis.guard_groups import needless
from trtdiag.graph.source import NO_STACK, Frame, Stack

USER = Frame("/models/net.py", 7, "forward", "y = max_pool2d(x, 2)")
TORCH = "/usr/lib/python3/site-packages/torch/_meta_registrations.py"


def test_the_question_of_a_pooling_is_known() -> None:
    assert "pooling" in needless(Stack((USER, Frame(TORCH, 4596, "div_rtn"))))


@pytest.mark.parametrize(
    "stack",
    [
        NO_STACK,
        Stack((USER,)),
        Stack((USER, Frame(TORCH, 4580, "pool2d_shape_check"))),
        Stack((Frame("/models/net.py", 9, "div_rtn"),)),
        Stack((Frame(TORCH, 4596, "div_rtn"), USER)),
    ],
)
def test_other_guards_are_the_models(stack: Stack) -> None:
    assert needless(stack) == ""
