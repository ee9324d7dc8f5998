"""Random ops are never in an engine; what only could be random is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx import Graph, Node

from trtdiag.convert.limits import random_limit

aten = torch.ops.aten


def _call(op: Any, *args: Any) -> Node:
    graph = Graph()
    return graph.call_function(op, tuple(graph.placeholder("x") if arg is ... else arg for arg in args))


@pytest.mark.parametrize(
    "node",
    [
        _call(aten.rand.default, [3]),
        _call(aten.randn_like.default, ...),
        _call(aten.randint.low, 0, 7, [3]),
        _call(aten.bernoulli.p, ..., 0.5),
        _call(aten.dropout.default, ..., 0.5, True),
        _call(aten.native_dropout.default, ..., 0.5, True),
        _call(aten.multinomial.default, ..., 1),
        _call(aten.scaled_dot_product_attention.default, ..., ..., ..., None, 0.1),
    ],
    ids=lambda node: str(node.target),
)
def test_random(node: Node) -> None:
    limit = random_limit(node)
    assert limit is not None
    assert limit.code == "random"


@pytest.mark.parametrize(
    "node",
    [
        _call(aten.dropout.default, ..., 0.5, False),
        _call(aten.native_dropout.default, ..., 0.5, False),
        _call(aten.scaled_dot_product_attention.default, ..., ..., ...),
        _call(aten.relu.default, ...),
        _call(aten.arange.default, 7),
    ],
    ids=lambda node: str(node.target),
)
def test_not_random(node: Node) -> None:
    assert random_limit(node) is None
