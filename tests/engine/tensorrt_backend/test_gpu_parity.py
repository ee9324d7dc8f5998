"""The comparison itself, with the reference in the place of TensorRT: it draws inputs, runs, and sees differences."""

from __future__ import annotations

import pytest
import torch
from gpu_parity import PRECISIONS, Parity, _compare, layer_parity, program_parity, seed_parity
from layer_samples import CASES
from seed_models import SEEDS

from trtdiag.options import CompileOptions

OPTIONS = CompileOptions("8.6", "reference")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_layers(precision: str) -> None:
    found = {name: layer_parity(name, precision, OPTIONS) for name in list(CASES)[::5]}
    some = {name: parity for name, parity in found.items() if parity is not None}
    assert len(some) > len(found) // 2
    assert all(parity.agrees and parity.worst == 0 and parity.points >= 1 for parity in some.values()), some
    assert all(parity.half for parity in some.values()) == (precision == "float16")


@pytest.mark.parametrize("name", ["float_DIV", "float_FLOOR_DIV", "int_DIV"])
def test_integers_are_divided_by_something(name: str) -> None:
    found = layer_parity(name, "float32" if name == "int_DIV" else "int32", OPTIONS)
    assert found is not None
    assert found.agrees


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_models(name: str) -> None:
    found = seed_parity(name, "float32", OPTIONS)
    assert (found.agrees, found.worst, found.points) == (True, 0.0, 3 * max(1, found.points // 3))
    assert program_parity(name, "float32", OPTIONS).agrees


def test_differences_are_seen() -> None:
    x = torch.tensor([1.0, 200.0, torch.inf, torch.nan])
    same = Parity(points=1)
    _compare(same, 0, x.clone(), x)
    assert same.agrees
    for place, value in ((0, 1.5), (1, 201.0), (2, -torch.inf), (2, 1.0), (3, 0.0), (0, torch.nan)):
        other = x.clone()
        other[place] = value
        parity = Parity(points=1)
        _compare(parity, 0, other, x)
        assert not parity.agrees, (place, value)
    for wrong in (x.half(), x[:3], torch.zeros(4, dtype=torch.int32)):
        parity = Parity(points=1)
        _compare(parity, 0, wrong, x)
        assert not parity.agrees
    assert not Parity().agrees
