"""The memory of weights' keys: each weight is read once, and never taken for another."""

from __future__ import annotations

import pytest
import torch

from trtdiag.graph.values import memory_state
from trtdiag.network import NetworkBuilder, WeightKeys, weights
from trtdiag.network.weights import weight_key


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """Every weight that is hashed, in order."""
    seen: list[torch.Tensor] = []

    def key(weight: torch.Tensor) -> str:
        seen.append(weight)
        return weight_key(weight)

    monkeypatch.setattr(weights, "weight_key", key)
    return seen


def test_weight_is_hashed_once_for_all_networks(hashed: list[torch.Tensor]) -> None:
    keys, weight = WeightKeys(), torch.nn.Parameter(torch.randn(7, 5))
    for _ in range(3):
        builder = NetworkBuilder(keys=keys)
        assert builder.constant(weight) == builder.constant(weight.detach())
        builder.output("y", builder.constant(weight))
        assert list(builder.build().weights) == [weight_key(weight)]
    assert len(hashed) == 1
    NetworkBuilder().constant(weight)
    assert len(hashed) == 2


def test_every_view_has_its_own_key() -> None:
    keys, weight = WeightKeys(), torch.arange(36.0).reshape(6, 6)
    views = [weight, weight.t(), weight[1:], weight[:-1], weight[::2], weight.view(torch.int32), weight.view(4, 9)]
    views += [torch.resolve_conj(weight), weight[0], weight[0, 0], weight[:0], weight[:0, :2]]
    for view in views + views:
        assert keys.of(view) == weight_key(view)


def test_change_is_noticed() -> None:
    keys, weight = WeightKeys(), torch.zeros(5)
    before = keys.of(weight)
    weight[2] = 1
    assert keys.of(weight) == weight_key(weight) != before


def test_freed_memory_is_not_mistaken() -> None:
    keys = WeightKeys()
    for number in range(50):
        weight = torch.full((64,), float(number))
        assert keys.of(weight) == weight_key(weight)
        del weight


def test_tensor_whose_writes_are_not_counted_is_read_every_time(hashed: list[torch.Tensor]) -> None:
    with torch.inference_mode():
        weight = torch.zeros(5)
    assert memory_state(weight) is None
    keys = WeightKeys()
    before = keys.of(weight)
    with torch.inference_mode():
        weight[2] = 1
    assert keys.of(weight) != before
    assert len(hashed) == 2
