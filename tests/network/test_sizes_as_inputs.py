"""Inputs that hold sizes: their symbols are read off elements, and checked like sizes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from network_cases import ORIGIN

from trtdiag.errors import InternalError, ShapeOutOfRangeError
from trtdiag.network import INPUT, DType, Network, NetworkBuilder, bind, canonical_hash, from_bytes, run, to_bytes
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.constant import Fill
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.symbolic import Condition, Expr, Range, parse_condition, parse_expr, to_text

RANGES = {"u": Range(2, 40), "b": Range(1, 9)}


def _ones(value: str = "u", given: Sequence[Condition] = (), name: str = "u") -> Network:
    """``full((b, value), 1)`` for ``b`` of a tensor and a size that enters."""
    builder = NetworkBuilder({**RANGES, name: RANGES["u"]}, given)
    x = builder.input("x", DType.FLOAT32, [parse_expr("b")])
    size = builder.input("n", DType.INT64, [], [parse_expr(value)])
    more = builder.input("m", DType.INT64, [1], [parse_expr("b")])
    width = builder.add_single(Shuffle(reshape=(1,)), size, origin=ORIGIN)
    shape = builder.add_single(Concatenation(0), more, width, origin=ORIGIN)
    builder.output("y", builder.add_single(Fill(INPUT, DType.FLOAT32, 1.0, (0.0, 0.0)), shape, origin=ORIGIN))
    builder.output("x", x)
    return builder.build()


def _run(network: Network, b: int, n: int, m: int | None = None) -> tuple[int, ...]:
    inputs = [torch.zeros(b), torch.tensor(n), torch.tensor([b if m is None else m])]
    return tuple(run(network, inputs)[0].shape)


@pytest.mark.parametrize("n", [2, 13, 40])
def test_shape_follows_an_element(n: int) -> None:
    network = _ones()
    assert [to_text(size) for size in network.output_types[0].shape] == ["b", "u"]
    assert _run(network, 7, n) == (7, n)


def test_symbol_is_solved_for() -> None:
    network = _ones("2*u + 1")
    assert _run(network, 1, 81) == (1, 81)
    for n in (80, 3, 83):  # even, below, above
        with pytest.raises(ShapeOutOfRangeError, match="'n'"):
            _run(network, 1, n)


def test_elements_are_checked_like_sizes() -> None:
    network = _ones(given=[parse_condition("u % 3 == 2")])
    assert _run(network, 1, 38) == (1, 38)
    for b, n, m in ((1, 1, None), (1, 41, None), (1, 39, None), (5, 2, 4)):
        with pytest.raises(ShapeOutOfRangeError, match=r"'[nm]'"):
            _run(network, b, n, m)


def test_binding_without_elements_reads_only_sizes() -> None:
    network = _ones(given=[parse_condition("u % 3 == 2")])
    sizes = [(7,), (), (1,)]
    assert bind(network, sizes) == {"b": 7}
    assert bind(network, sizes, [None, [5], [7]]) == {"b": 7, "u": 5}
    with pytest.raises(ShapeOutOfRangeError):
        bind(network, [(10,), (), (1,)])


def test_saved_and_loaded() -> None:
    network = _ones("2*u + 1")
    again = from_bytes(to_bytes(network))
    assert again == network
    assert _run(again, 3, 5) == (3, 5)


def test_hash_sees_what_elements_say() -> None:
    assert canonical_hash(_ones()) == canonical_hash(_ones("s", name="s"))
    assert canonical_hash(_ones()) != canonical_hash(_ones("2*u"))
    assert canonical_hash(_ones()) != canonical_hash(_ones("b"))


REFUSED: dict[str, tuple[DType, list[int | Expr], list[int | Expr]]] = {
    "float": (DType.FLOAT32, [], [1]),
    "two_for_a_scalar": (DType.INT64, [], [1, 2]),
    "too_few": (DType.INT64, [3], [1, 2]),
    "too_many": (DType.INT64, [65], [1] * 65),
    "two_dims": (DType.INT64, [1, 1], [1]),
    "dynamic_length": (DType.INT64, [parse_expr("b")], [1]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_elements_are_refused(name: str) -> None:
    dtype, shape, values = REFUSED[name]
    with pytest.raises(InternalError) as caught:
        NetworkBuilder(RANGES).input("n", dtype, shape, values)
    assert caught.value.reference == "wrong-layer"


def test_most_elements_are_taken() -> None:
    builder = NetworkBuilder()
    builder.output("y", builder.input("n", DType.INT32, [64], list(range(64))))
    numbers = torch.arange(64, dtype=torch.int32)
    assert torch.equal(run(builder.build(), [numbers])[0], numbers)
    with pytest.raises(ShapeOutOfRangeError):
        run(builder.build(), [numbers + 1])


def test_element_that_gives_no_symbol_is_refused() -> None:
    builder = NetworkBuilder(RANGES)
    builder.output("y", builder.input("n", DType.INT64, [], [parse_expr("b*u")]))
    with pytest.raises(InternalError, match="network") as caught:
        builder.build()
    assert "gives b, u" in caught.value.because


def test_input_may_come_after_layers() -> None:
    builder = NetworkBuilder(RANGES)
    first = builder.constant(torch.tensor([3]))
    size = builder.input("n", DType.INT64, [1], [parse_expr("u")])
    shape = builder.add_single(Concatenation(0), first, size, origin=ORIGIN)
    y = builder.add_single(Fill(INPUT, DType.INT32, 1, (0, 0)), shape, origin=ORIGIN)
    late = builder.input("x", DType.INT32, [2])
    builder.output("y", y)
    builder.output("x", late)
    network = builder.build()
    assert [port.tensor for port in network.inputs] == [0, 1]
    assert from_bytes(to_bytes(network)) == network
    given = torch.tensor([4, 5], dtype=torch.int32)
    ones, x = run(network, [torch.tensor([11]), given])
    assert torch.equal(ones, torch.ones(3, 11, dtype=torch.int32))
    assert torch.equal(x, given)
