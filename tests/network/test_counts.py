"""Sizes that the data decide: computed, counted, refused, saved, hashed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from counting_networks import COLUMNS, MOST, NETWORKS, ROWS, S, inputs
from network_cases import ORIGIN

from tests.harness.rows import each
from trtdiag.errors import UserError
from trtdiag.network import DType, LayerError, NetworkBuilder, canonical_hash, from_bytes, run, to_bytes, to_json
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.non_zero import NonZero
from trtdiag.network.run import PreparedRun
from trtdiag.symbolic import Range, symbol


@each("which", ["none", "one", "half", "all"])
@each("rows", [1, 17, ROWS])
@each("name", NETWORKS)
def test_a_network_gives_what_pytorch_does(name: str, rows: int, which: str) -> None:
    case = NETWORKS[name]
    x, mask = inputs(rows, which)
    network = case.network()
    for made, wanted in zip(run(network, (x, mask)), case.expected(x, mask), strict=True):
        # Sums of at most 31 terms in another order.
        torch.testing.assert_close(made, wanted, rtol=1e-5, atol=1e-5)
    again = from_bytes(to_bytes(network))
    assert to_json(again) == to_json(network)
    assert again.counts == network.counts


@pytest.mark.parametrize("name", MOST)
def test_a_count_has_an_upper_bound(name: str) -> None:
    assert NETWORKS[name].network().counts == {"n": MOST[name]}


def test_what_one_call_counts_is_not_the_next_ones() -> None:
    prepared = PreparedRun(NETWORKS["computed"].network())
    for which, count in (("none", 0), ("all", 5), ("one", 1), ("none", 0)):
        assert prepared(inputs(5, which))[0].shape == (count, COLUMNS)


def _two(counts: tuple[str, str], most: int = ROWS, name: str = "mask"):
    b = NetworkBuilder({"s": Range(1, ROWS), "n": Range(0, most), "m": Range(0, ROWS), "k": Range(0, ROWS)})
    one, other = b.input(name, DType.BOOL, (S,)), b.input("other", DType.BOOL, (S,))
    with b.at(ORIGIN):
        places = [b.add_single(NonZero(count), mask) for count, mask in zip(counts, (one, other), strict=True)]
        b.output(
            "sum", b.add_single(ElementWise(ElementWiseOperation.SUM), *places) if counts[0] == counts[1] else places[0]
        )
        b.output("last", places[1])
    return b.build()


def test_two_counts_of_one_name_must_be_the_same() -> None:
    network = _two(("n", "n"))
    mask = torch.tensor([True, False, True, False, False])
    total, last = run(network, (mask, mask.flip(0)))
    assert total.tolist() == [[2, 6]]
    assert last.tolist() == [[2, 4]]
    with pytest.raises(UserError, match="finds 3 elements, and the program allows 2") as caught:
        run(network, (mask, ~mask))
    assert caught.value.reference == "layer-failed"


def test_a_count_outside_of_its_range_is_refused() -> None:
    network = _two(("n", "m"), most=2)
    mask = torch.tensor([True, False, True])
    assert run(network, (mask, mask))[0].tolist() == [[0, 2]]
    with pytest.raises(UserError, match="finds 3 elements"):
        run(network, (torch.ones(3).bool(), mask))


def test_different_counts_do_not_fit_together() -> None:
    builder = NetworkBuilder({"s": Range(1, ROWS)})
    mask = builder.input("mask", DType.BOOL, (S,))
    places = [builder.add_single(NonZero(count), mask, origin=ORIGIN) for count in ("n", "m")]
    with pytest.raises(Exception, match="neither proven to be equal"):
        builder.add(ElementWise(ElementWiseOperation.SUM), *places, origin=ORIGIN)


def test_a_symbol_that_is_said_to_be_equal() -> None:
    builder = NetworkBuilder({"s": Range(1, ROWS), "n": Range(0, ROWS)})
    masks = [builder.input(name, DType.BOOL, (S,)) for name in ("mask", "other")]
    own = builder.facts.same_as("k", symbol("n"))
    with builder.at(ORIGIN):
        places = [builder.add_single(NonZero(c), mask) for c, mask in zip(("n", own.name), masks, strict=True)]
        builder.output("sum", builder.add_single(ElementWise(ElementWiseOperation.SUM), *places))
    network = from_bytes(to_bytes(builder.build()))
    assert network.ranges["k"] == Range(0, ROWS)
    mask = torch.tensor([True, False, True, False])
    assert run(network, (mask, mask.flip(0)))[0].tolist() == [[1, 5]]
    with pytest.raises(UserError, match="finds 1 elements, and the program allows k where"):
        run(network, (mask, torch.tensor([True, False, False, False])))


def test_the_hash_does_not_hang_on_names() -> None:
    first, renamed = _two(("n", "m")), _two(("k", "n"), name="another")
    assert canonical_hash(first) == canonical_hash(renamed)
    assert to_json(first) != to_json(renamed)
    wide = replace(first.layers[0].layer, indices=DType.INT64)
    builder = NetworkBuilder({"s": Range(1, ROWS)})
    one, other = builder.input("mask", DType.BOOL, (S,)), builder.input("other", DType.BOOL, (S,))
    builder.output("sum", builder.add_single(wide, one, origin=ORIGIN))
    builder.output("last", builder.add_single(NonZero("m"), other, origin=ORIGIN))
    assert canonical_hash(builder.build()) != canonical_hash(first)


def test_impossible_attributes_and_inputs() -> None:
    with pytest.raises(LayerError, match="float32"):
        NonZero("n", DType.FLOAT32)
    with pytest.raises(LayerError, match="no symbol"):
        NonZero("n + 1")
    builder = NetworkBuilder({"s": Range(1, ROWS)})
    scalar = builder.input("x", DType.BOOL, ())
    with pytest.raises(Exception, match="no dims"):
        builder.add(NonZero("n"), scalar, origin=ORIGIN)
    assert symbol("n") == builder.add_single(NonZero("n"), builder.input("m", DType.BOOL, (S,)), origin=ORIGIN).shape[1]
