"""Every layer kind against an independent expression, at the least, prime and greatest sizes, and after a round trip.

``run`` compares each result with the inferred dtype and shape, so each run here is a test of the inference too.
"""

from __future__ import annotations

import choosing_cases
import language_cases
import pointwise_cases
import pytest
import quantized_cases
import reducing_cases
import spatial_cases
import torch
from network_cases import Case, In

from tests.harness.rows import each
from trtdiag.network import canonical_hash, from_bytes, run, size_at, to_bytes, to_json
from trtdiag.network.layers import KINDS
from trtdiag.network.symbol_values import bind
from trtdiag.symbolic import Sym

CASES = {
    case.name: case
    for module in (choosing_cases, language_cases, pointwise_cases, quantized_cases, reducing_cases, spatial_cases)
    for case in module.CASES
}


def _inputs(case: Case, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor for one, tensor in zip(case.inputs, tensors, strict=True) if isinstance(one, In)]


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Without NaN, which is not equal to itself; PyTorch looks for none in eight bits."""
    return (tensor.float() if tensor.dtype.itemsize == 1 else tensor).nan_to_num()


@each("name", CASES)
def test_kind_computes_what_pytorch_does(name: str) -> None:
    case = CASES[name]
    network = case.network()
    for seed, point in enumerate(case.points):
        tensors = case.tensors(point, seed)
        before = [tensor.clone() for tensor in tensors]
        actual = run(network, _inputs(case, tensors))
        assert all(torch.equal(_numbers(a), _numbers(b)) for a, b in zip(before, tensors, strict=True))
        expected = case.expected(*tensors)
        expected = expected if isinstance(expected, tuple) else (expected,)
        assert len(actual) == len(expected)
        for got, want in zip(actual, expected, strict=True):
            torch.testing.assert_close(got, want, rtol=case.close, atol=case.close, equal_nan=True)


@each("name", CASES)
@pytest.mark.slow  # quick: run compares them with each result, above
def test_inferred_shape_is_that_of_a_run(name: str) -> None:
    case = CASES[name]
    network = case.network()
    for seed, point in enumerate(case.points):
        inputs = _inputs(case, case.tensors(point, seed))
        symbols = bind(network, [tuple(tensor.shape) for tensor in inputs])
        assert all(point[name] == value for name, value in symbols.items())
        for tensor, actual in zip(network.output_types, run(network, inputs), strict=True):
            born = {size.name: n for size, n in zip(tensor.shape, actual.shape, strict=True) if isinstance(size, Sym)}
            known = {**{name: n for name, n in born.items() if name in network.counts}, **symbols}
            assert tuple(size_at(size, known) for size in tensor.shape) == tuple(actual.shape)
            assert tensor.dtype.torch is actual.dtype


@each("name", CASES)
def test_round_trip_keeps_everything(name: str) -> None:
    network = CASES[name].network()
    again = from_bytes(to_bytes(network))
    assert to_json(again) == to_json(network)
    assert canonical_hash(again) == canonical_hash(network)
    for field in ("inputs", "layers", "outputs", "tensors", "ranges", "given"):
        assert getattr(again, field) == getattr(network, field)
    assert all(torch.equal(again.weights[key], weight) for key, weight in network.weights.items())


def test_every_kind_has_a_case() -> None:
    tested = {case.layer.kind for case in CASES.values()}
    assert tested | {"Constant"} == set(KINDS)
    assert any(placed.layer.kind == "Constant" for case in CASES.values() for placed in case.network().layers)
