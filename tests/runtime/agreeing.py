"""A compiled program against its model: equal structure, dtypes, shapes and values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


def assert_agrees(run: Callable[..., Any], model: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
    """Call both on copies of the same arguments; what they change in their arguments must agree, too."""
    theirs, ours = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
    with torch.no_grad():
        wanted = model(*theirs[0], **theirs[1])
        got = run(*ours[0], **ours[1])
    _same(wanted, got)
    _same(theirs, ours)


def _same(wanted: Any, got: Any) -> None:
    assert pytree.tree_structure(wanted) == pytree.tree_structure(got)
    for one, other in zip(pytree.tree_leaves(wanted), pytree.tree_leaves(got), strict=True):
        if isinstance(one, torch.Tensor):
            # The reference computes the same operations, in another order where ops were decomposed: torch's defaults.
            torch.testing.assert_close(other.detach(), one.detach(), check_stride=False)
        else:
            assert one == other
