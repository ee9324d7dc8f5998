"""The tests on a GPU compare with float32 that is computed whole, and leave torch as it was."""

from __future__ import annotations

import pytest
import torch

from tests.whole_float32 import in_whole_float32


def _switches() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("before", [True, False])
def test_what_was_chosen_comes_back(before: bool) -> None:
    cudnn, kept = torch.backends.cudnn, _switches()
    others = {"enabled": cudnn.enabled, "benchmark": cudnn.benchmark, "deterministic": cudnn.deterministic}
    try:
        torch.backends.cuda.matmul.allow_tf32 = before
        with cudnn.flags(**others, allow_tf32=before):
            with in_whole_float32():
                assert _switches() == (False, False)
                assert {name: getattr(cudnn, name) for name in others} == others
            assert _switches() == (before, before)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = kept[0]
    assert _switches() == kept


def test_it_works_where_global_flags_are_disabled() -> None:
    """As they are in every process that has imported torch's testing modules."""
    import torch.testing._internal.common_utils  # noqa: F401

    with in_whole_float32():
        assert _switches() == (False, False)


@pytest.mark.usefixtures("whole_float32")
def test_a_test_can_ask_for_it() -> None:
    assert _switches() == (False, False)
