"""Symbols with a definition: sizes keep the symbol, proofs look through it, running reads only what inputs give."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from network_cases import ORIGIN

from trtdiag.errors import ArtifactError, InternalError, ShapeOutOfRangeError
from trtdiag.network import (
    DType,
    Network,
    NetworkBuilder,
    ShapeConstraints,
    bind,
    canonical_hash,
    from_json,
    run,
    to_json,
)
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.symbolic import Range, parse_condition, parse_expr, to_text

SUM = ElementWise(ElementWiseOperation.SUM)
HEIGHT = {"h": Range(200, 400)}
DOWN = {"d": parse_expr("(h - 1)//8 + 1")}


def test_defined_symbol_has_the_range_that_follows() -> None:
    facts = ShapeConstraints(HEIGHT, (), DOWN)
    assert facts.ranges["d"] == Range(25, 50)
    assert ShapeConstraints({**HEIGHT, "d": Range(30, 99)}, (), DOWN).ranges["d"] == Range(30, 50)


def test_proofs_look_through_definitions() -> None:
    plain, facts = ShapeConstraints({**HEIGHT, "d": Range(25, 50)}), ShapeConstraints(HEIGHT, (), DOWN)
    whole, half = parse_expr("d//2"), parse_expr("((h - 1)//8 + 1)//2")
    assert facts.equal(whole, half)
    assert not plain.equal(whole, half)
    assert not facts.equal(whole, parse_expr("h//16"))
    assert facts.broadcast(whole, half) == whole
    assert facts.expanded(whole) == half
    assert facts.at_least(parse_expr("8*d - h"), 0)
    assert not facts.at_least(parse_expr("8*d - h"), 1)
    assert not plain.at_least(parse_expr("8*d - h"), 0)
    assert facts.never_at_least(parse_expr("8*d - h"), 8)
    assert not facts.never_at_least(parse_expr("8*d - h"), 7)


def test_proofs_use_guards_of_other_symbols() -> None:
    guard = [parse_condition("h % 16 == 1")]
    even = parse_expr("2*((d - 1)//2) + 1")
    assert ShapeConstraints(HEIGHT, guard, DOWN).equal(even, parse_expr("d"))
    assert not ShapeConstraints(HEIGHT, (), DOWN).equal(even, parse_expr("d"))
    assert ShapeConstraints(HEIGHT, guard, DOWN).quotient([parse_expr("d - 1")], [parse_expr("2")]) is not None
    assert ShapeConstraints(HEIGHT, (), DOWN).quotient([parse_expr("d - 1")], [parse_expr("2")]) is None


def test_guards_help_to_compare() -> None:
    ranges = {"h": Range(1, 9), "w": Range(1, 9)}
    guarded = ShapeConstraints(ranges, [parse_condition("h >= w + 2")])
    assert guarded.at_least(parse_expr("h - w"), 2)
    assert not guarded.at_least(parse_expr("h - w"), 3)
    assert not ShapeConstraints(ranges).at_least(parse_expr("h - w"), 2)


def test_narrower_range_of_a_defined_symbol_counts() -> None:
    facts = ShapeConstraints({**HEIGHT, "d": Range(25, 30)}, (), DOWN)
    assert facts.at_least(parse_expr("240 - h"), 0)
    assert not facts.at_least(parse_expr("239 - h"), 0)


def test_definitions_may_use_definitions() -> None:
    facts = ShapeConstraints(HEIGHT, (), {"e": parse_expr("d//2"), **DOWN, "f": parse_expr("e + 1")})
    assert facts.expanded(parse_expr("f")) == parse_expr("((h - 1)//8 + 1)//2 + 1")
    for circle in ({"a": parse_expr("a + 1")}, {"a": parse_expr("2*b"), "b": parse_expr("a//3")}):
        with pytest.raises(ValueError, match="a"):
            ShapeConstraints({}, (), circle)


def _network(*, definitions: bool = True, guard: str = "h % 16 == 1", other: str = "h//16") -> Network:
    """The sum of tensors of sizes ``(d - 1)//2`` and one that is the same only under the definition and the guard."""
    builder = NetworkBuilder(
        {**HEIGHT, "z": Range(1, 5)},
        [parse_condition(guard), parse_condition("z >= 2")],
        {"d": parse_expr("(h - 1)//8 + 1"), "e": parse_expr(other), "z2": parse_expr("2*z")} if definitions else None,
    )
    x = builder.input("x", DType.FLOAT32, [parse_expr("d")])
    y = builder.input("y", DType.FLOAT32, [parse_expr("e")])
    rows = builder.add_single(Shuffle(reshape=(-1, 1)), y, origin=ORIGIN)
    pairs = builder.input("p", DType.FLOAT32, [parse_expr("(d - 1)//2"), 1])
    builder.output("s", builder.add_single(SUM, pairs, rows, origin=ORIGIN))
    builder.output("x", x)
    return builder.build()


def test_network_keeps_what_its_proofs_rest_on() -> None:
    network = _network()
    assert set(network.definitions) == {"d", "e"}
    assert set(network.ranges) == {"d", "e", "h"}
    assert [to_text(condition) for condition in network.given] == ["h % 16 == 1"]
    assert from_json(to_json(network), b"") == network


def test_without_definition_nothing_is_proven() -> None:
    with pytest.raises(InternalError, match="does not fit"):
        _network(definitions=False)
    with pytest.raises(InternalError, match="does not fit"):
        _network(guard="h % 2 == 0")


def test_file_without_the_definition_is_refused() -> None:
    text = to_json(_network())
    assert '"definitions":{"d":"(h - 1) // 8 + 1"' in text
    for old, new in (('"d":"(h - 1) // 8 + 1",', ""), ('"h % 16 == 1"', ""), ('"e":"h // 16"', '"e":"e"')):
        assert old in text
        with pytest.raises(ArtifactError):
            from_json(text.replace(old, new), b"")


def _inputs(d: int, e: int) -> list[torch.Tensor]:
    return [torch.zeros(d), torch.ones(e), torch.ones((d - 1) // 2, 1)]


def test_run_reads_what_it_can() -> None:
    """``h`` is in no input: its guard cannot be checked, the sizes of the inputs still are."""
    network = _network()
    for d, e in ((27, 13), (49, 24)):  # h of 209 and 385
        assert run(network, _inputs(d, e))[0].shape == (e, 1)
        assert bind(network, [(d,), (e,), (e, 1)]) == {"d": d, "e": e}
    with pytest.raises(ShapeOutOfRangeError):
        run(network, _inputs(51, 25))


def test_definitions_are_checked_where_all_is_known() -> None:
    builder = NetworkBuilder(HEIGHT, (), DOWN)
    x = builder.input("x", DType.FLOAT32, [parse_expr("d")])
    builder.output("y", x)
    builder.output("z", builder.input("z", DType.FLOAT32, [parse_expr("h")]))
    network = builder.build()
    run(network, [torch.zeros(26), torch.zeros(201)])
    for d, h in ((25, 201), (27, 201)):
        with pytest.raises(ShapeOutOfRangeError, match="'x'") as caught:
            run(network, [torch.zeros(d), torch.zeros(h)])
        assert "does not hold" in caught.value.because


def test_symbol_that_only_a_definition_names_gives_no_shape() -> None:
    builder = NetworkBuilder(HEIGHT, (), DOWN)
    builder.input("x", DType.FLOAT32, [parse_expr("d")])
    y = builder.input("y", DType.FLOAT32, [parse_expr("h*d")])
    builder.output("y", y)
    with pytest.raises(InternalError) as caught:
        builder.build()
    assert "gives h" in caught.value.because


def test_hash_does_not_see_definitions() -> None:
    network = _network()
    assert canonical_hash(network) == canonical_hash(dataclasses.replace(network, definitions={}, given=()))
