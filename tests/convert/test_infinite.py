"""Infinite numbers for TensorRT 8.6, which takes 1e38 for one that is compared with or chosen."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.convert.op_check import check_op
from tests.harness.rows import thinned
from trtdiag.network import DType, Network
from trtdiag.network.layers.constant import Constant
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation as Op, Select
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import Slice
from trtdiag.network.layers.unary import Unary, UnaryOperation

ATEN = torch.ops.aten
INF, NAN, GREATEST = float("inf"), float("nan"), torch.finfo(torch.float32).max
# 2e38 is finite, and above what 8.6 takes for infinity.
X = torch.tensor([[0.0, -0.0, 1.5, -7.3, 2e38, -2e38, GREATEST, -GREATEST, INF, -INF, NAN, 1e-8]] * 2)
ROWS = torch.tensor([[1.0, -INF, 2.0], [-INF, -INF, -INF], [-2e38, 2e38, 0.5], [-GREATEST, -INF, -INF]])
MASK = torch.arange(24).reshape(2, 12) % 3 == 0
BOUNDS = (INF, -INF)
CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{f"where_{b}_self": (ATEN.where.ScalarSelf, (MASK, b, X)) for b in BOUNDS},
    **{f"where_{b}_other": (ATEN.where.ScalarOther, (MASK, X, b)) for b in BOUNDS},
    **{f"masked_fill_{b}": (ATEN.masked_fill.Scalar, (X, MASK, b)) for b in BOUNDS},
    **{f"masked_fill_wide_{b}": (ATEN.masked_fill.Scalar, (X, MASK[:1], b)) for b in BOUNDS},
    **{
        f"{name}_{b}": (getattr(ATEN, name).Scalar, (X, b))
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for b in BOUNDS
    },
    "isposinf": (ATEN.isposinf.default, (X,)),
    "isneginf": (ATEN.isneginf.default, (X,)),
    "isfinite": (ATEN.isfinite.default, (X,)),
    "nan_to_num": (ATEN.nan_to_num.default, (X,)),
    "safe_softmax": (ATEN._safe_softmax.default, (ROWS, 1)),
    "where_expanded": (ATEN.where.self, (MASK, torch.tensor(-INF), X)),
}
_CHOOSES = (Op.EQUAL, Op.LESS, Op.GREATER)


def _infinite(network: Network) -> list[str]:
    """Layers of float32 that choose or compare with an infinite constant of one element."""
    makers = {number: placed for placed in network.layers for number in placed.outputs}

    def is_infinite(number: int) -> bool:
        placed = makers.get(number)
        if placed is None or network.tensors[number].dtype is not DType.FLOAT32:
            return False
        if isinstance(placed.layer, Constant):
            weight = network.weights[placed.layer.weights]
            return weight.numel() == 1 and bool(weight.isinf())
        return isinstance(placed.layer, (Shuffle, Slice)) and is_infinite(placed.inputs[0])

    return [
        str(placed.layer)
        for placed in network.layers
        if isinstance(placed.layer, Select) or (isinstance(placed.layer, ElementWise) and placed.layer.op in _CHOOSES)
        if any(is_infinite(number) for number in placed.inputs)
    ]


def _networks(name: str, target: str, *, dynamic: bool, half: bool = False) -> list[Network]:
    op, args = CALLS[name]
    given = [arg.half() if half and isinstance(arg, torch.Tensor) and arg.is_floating_point() else arg for arg in args]
    networks: list[Network] = []
    found = check_op(
        op, given, dynamic=dynamic, target=target, also=lambda converted, _: networks.append(converted.network)
    )
    assert not found.limits
    return networks


# Quick: sizes that change.
@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.slow), True], ids=["static", "dynamic"])
@thinned("name", CALLS, every=3)
def test_no_layer_of_86_is_given_one(name: str, dynamic: bool) -> None:
    """Equal to PyTorch on the reference, and written without what 8.6 takes for another number."""
    (network,) = _networks(name, "8.6", dynamic=dynamic)
    assert _infinite(network) == []


@pytest.mark.parametrize("name", ["where_-inf_self", "masked_fill_inf", "eq_-inf", "safe_softmax"])
def test_others_are_given_it_as_it_is(name: str) -> None:
    (network,) = _networks(name, "11.4", dynamic=False)
    assert _infinite(network)


@pytest.mark.parametrize("name", ["where_-inf_self", "eq_-inf"])
def test_float16_is_given_it_as_it_is(name: str) -> None:
    (half,) = _networks(name, "8.6", dynamic=False, half=True)
    assert not any("LOG" in str(placed.layer) or "GREATER" in str(placed.layer) for placed in half.layers)


def test_a_network_is_found_out() -> None:
    """The search itself sees a choice and a comparison that were written plainly."""
    for name in ("where_-inf_self", "eq_inf"):
        (network,) = _networks(name, "10.16", dynamic=True)
        assert len(_infinite(network)) == 1


@pytest.mark.parametrize("near", [1e-8, 1e-3, 0.031, 0.0319, 0.5, 7.25])
def test_the_sine_cardinal_near_zero(near: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its series and its ratio meet at 0.1 / pi; here with the sine of 8.6, which is 0 for small numbers."""
    sine = torch.sin
    monkeypatch.setattr(torch, "sin", lambda x: torch.where(x.abs() < 1e-6, torch.zeros_like(x), sine(x)))
    x = torch.tensor([near, -near, 0.0])
    found = check_op(ATEN.sinc.default, (x,), target="8.6", tolerance=(1e-6, 1e-7))
    assert not found.limits


def test_the_sign_of_nan_is_no_layer_of_its_own() -> None:
    """8.6 gives NaN for it; PyTorch gives 0."""
    networks: list[Network] = []
    for x in (X, X.half(), torch.tensor([3, 0, -3])):
        found = check_op(ATEN.sign.default, (x,), target="8.6", also=lambda made, _: networks.append(made.network))
        assert not found.limits
    signs = [sum(layer.layer == Unary(UnaryOperation.SIGN) for layer in network.layers) for network in networks]
    assert signs == [0, 0, 1]
