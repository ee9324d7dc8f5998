"""Layers that choose elements by their values, so that the data decide how many come out."""

from __future__ import annotations

import torch
from network_cases import Case, In

from trtdiag.network import DType
from trtdiag.network.layers.non_zero import NonZero


def _places(x: torch.Tensor) -> torch.Tensor:
    """By counting up to each element: the place of the n-th true one is where the count first is n."""
    flat = x.flatten()
    place = torch.searchsorted(flat.long().cumsum(0), torch.arange(1, int(flat.sum()) + 1))
    return torch.stack(torch.unravel_index(place, x.shape))


CASES = [
    Case("non_zero", NonZero("n"), (In(("s",), DType.BOOL),), lambda x: _places(x).int()),
    Case("non_zero_4", NonZero("n", DType.INT64), (In(("b", 3, "s", "h"), DType.BOOL),), _places),
]
