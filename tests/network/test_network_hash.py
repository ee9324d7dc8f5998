"""The canonical hash: equal for renamed and rebuilt networks, different wherever results may differ."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sample_networks import small_network

from trtdiag.network import DType, NetworkBuilder, Origin, canonical_hash, from_bytes, to_bytes
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.reduce import TopK, TopKOperation
from trtdiag.symbolic import Range, parse_expr

DIFFERENT: dict[str, dict[str, Any]] = {
    "softmax_axis": {"axis": 0},
    "stride": {"stride": 2},
    "operand_order": {"swapped": True},
    "exponent": {"exponent": 2.0000002384185791},
    "weight_bit": {"bit": 1},
    "dtype": {"dtype": DType.FLOAT16},
    "attribute_ulp": {"fill": 1.0000000000000002},
    "one_symbol_for_two": {"square": True},
}
EQUAL: dict[str, dict[str, Any]] = {
    "rebuilt": {},
    "symbols_renamed": {"names": ("s7", "s3")},
    "symbols_swapped": {"names": ("w", "h")},
    "tensors_and_origins_renamed": {"label": "_again"},
    "unused_layer": {"unused": True},
    "order_of_layers": {"late_constant": True},
    "ranges": {"most": 41},
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_hash_tells_apart(name: str) -> None:
    assert canonical_hash(small_network(**DIFFERENT[name])) != canonical_hash(small_network())


def test_all_differences_differ_from_each_other() -> None:
    hashes = {canonical_hash(small_network(**change)) for change in DIFFERENT.values()}
    assert len(hashes) == len(DIFFERENT)


@pytest.mark.parametrize("name", EQUAL)
def test_hash_does_not_see(name: str) -> None:
    assert canonical_hash(small_network(**EQUAL[name])) == canonical_hash(small_network())


def test_hash_survives_a_file() -> None:
    network = small_network()
    assert canonical_hash(from_bytes(to_bytes(network))) == canonical_hash(network)


def _pair(first: str, second: str) -> str:
    builder = NetworkBuilder({"a": Range(1, 9), "b": Range(1, 9)})
    left = builder.input("l", DType.FLOAT32, [parse_expr("a"), parse_expr(first)])
    right = builder.input("r", DType.FLOAT32, [parse_expr("b"), parse_expr(second)])
    for index, value in enumerate((left, right)):
        builder.output(str(index), value)
    return canonical_hash(builder.build())


def test_hash_sees_how_sizes_hang_together() -> None:
    assert _pair("2*a + 1", "b") != _pair("2*a", "b")
    assert _pair("a", "a") != _pair("a", "b")
    assert _pair("a + b", "3") == _pair("b + a", "3")


def _outputs(order: tuple[int, int]) -> str:
    builder = NetworkBuilder()
    made = builder.add(TopK(TopKOperation.MAX, 2, 0), builder.input("x", DType.INT32, [5]), origin=Origin("a", "b"))
    for index in order:
        builder.output(str(index), made[index])
    return canonical_hash(builder.build())


def test_hash_sees_which_output_of_a_layer() -> None:
    assert _outputs((0, 1)) != _outputs((1, 0))


def _sum(first: torch.Tensor, second: torch.Tensor) -> str:
    builder = NetworkBuilder()
    values = [builder.constant(weight, Origin("a", "b")) for weight in (first, second)]
    builder.output("y", builder.add_single(ElementWise(ElementWiseOperation.SUM), *values, origin=Origin("a", "b")))
    return canonical_hash(builder.build())


def test_equal_bytes_of_another_shape_are_another_weight() -> None:
    assert _sum(torch.zeros(1, 2), torch.zeros(1, 1)) != _sum(torch.zeros(2, 1), torch.zeros(1, 1))
    assert _sum(torch.zeros(2), torch.zeros(2)) != _sum(torch.zeros(2).int(), torch.zeros(2).int())
    assert _sum(torch.tensor([0.0]), torch.tensor([0.0])) != _sum(torch.tensor([-0.0]), torch.tensor([0.0]))
