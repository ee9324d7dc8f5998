"""The harness itself: it sees a wrong converter, a wrong shape and a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from tests.convert.op_check import check_op
from trtdiag.convert import registry
from trtdiag.convert.call import Call
from trtdiag.convert.refusal import refuse
from trtdiag.network.layers.activation import ActivationType
from trtdiag.network.value import Value

RELU = torch.ops.aten.relu.default


@contextmanager
def _relu_as(run: Callable[[Call], Value], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    found = dict(registry.converters())
    found["aten.relu.default"] = replace(found["aten.relu.default"], run=run)
    with monkeypatch.context() as patch:
        patch.setattr(registry, "converters", lambda: found)
        yield


def test_other_values_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def tanh(call: Call) -> Value:
        return call.write.activation(ActivationType.TANH, call.tensor("self"))

    with _relu_as(tanh, monkeypatch), pytest.raises(AssertionError, match="not close"):
        check_op(RELU, (torch.randn(3, 5),))


def test_another_shape_is_a_limit_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def flat(call: Call) -> Value:
        return call.write.reshape(call.tensor("self"), [15])

    with _relu_as(flat, monkeypatch):
        outcome = check_op(RELU, (torch.randn(3, 5),))
    (limit,) = outcome.limits.values()
    assert limit.code == "converter-failed"
    assert "the layers give 1 dims, the op 2" in limit.why


def test_a_refusal_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(call: Call) -> Value:
        raise refuse("too-cold", "it is too cold", "wait for spring")

    with _relu_as(never, monkeypatch):
        outcome = check_op(RELU, (torch.randn(3, 5),))
    (limit,) = outcome.limits.values()
    assert (limit.code, limit.why, limit.fix) == ("too-cold", "it is too cold", "wait for spring")


def test_dynamic_dims_are_compared_at_other_sizes() -> None:
    assert check_op(RELU, (torch.randn(3, 5),)).sizes == 1
    assert check_op(RELU, (torch.randn(3, 5),), dynamic=True).sizes == 4
