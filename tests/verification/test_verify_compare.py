"""Differences of outputs: numbers, types, shapes, NaN and infinity."""

from __future__ import annotations

import pytest
import torch
from torch.fx import Graph

from trtdiag.graph.quantizers import decomposed_ops
from trtdiag.options import Precision
from trtdiag.verification.compare import BFLOAT, FLOAT32, HALF, QUANTIZED, compare, not_finite_notes, tolerance_for
from trtdiag.verification.facts import Point, PointResult

NAN, INF = float("nan"), float("inf")


def test_equal_tensors_differ_by_nothing() -> None:
    x = torch.randn(7)
    found = compare("y", x, x.clone(), FLOAT32)
    assert (found.passed, found.max_abs, found.max_rel) == (True, 0.0, 0.0)


def test_the_edge_of_the_tolerance() -> None:
    expected = torch.tensor([100.0, 1.0])
    allowed = FLOAT32.absolute + FLOAT32.relative * 100
    inside = compare("y", expected, expected + torch.tensor([0.0, 0.9 * allowed]), FLOAT32)
    outside = compare("y", expected, expected + torch.tensor([0.0, 1.1 * allowed]), FLOAT32)
    assert (inside.passed, outside.passed) == (True, False)
    assert outside.max_abs == pytest.approx(1.1 * allowed, rel=1e-2)  # float32 keeps the sum to 2**-24


def test_integers_are_exact() -> None:
    found = compare("index", torch.tensor([1, 2]), torch.tensor([1, 3]), HALF)
    assert (found.passed, found.max_abs, found.allowed) == (False, 1.0, 0.0)


@pytest.mark.parametrize(
    ("expected", "actual", "passed"),
    [
        ([NAN, 1.0], [NAN, 1.0], True),
        ([NAN, 1.0], [1.0, 1.0], False),
        ([1.0, 1.0], [NAN, 1.0], False),
        ([INF, 1.0], [INF, 1.0], True),
        ([INF, 1.0], [-INF, 1.0], False),
        ([1.0, 1.0], [INF, 1.0], False),
    ],
)
def test_what_is_not_finite_must_be_so_on_both_sides(expected: list[float], actual: list[float], passed: bool) -> None:
    found = compare("y", torch.tensor(expected), torch.tensor(actual), FLOAT32)
    assert found.passed is passed
    assert bool(found.why) is not passed


def test_dtype_and_shape_are_named() -> None:
    x = torch.zeros(2, 3)
    assert "float16" in compare("y", x, x.half(), FLOAT32).why
    assert "(3, 2)" in compare("y", x, x.T, FLOAT32).why


def test_no_elements_and_no_tensors() -> None:
    assert compare("y", torch.zeros(0, 4), torch.zeros(0, 4), FLOAT32).passed
    assert compare("n", 3, 3, FLOAT32).passed
    assert not compare("n", 3, 4, FLOAT32).passed
    assert not compare("n", True, 1, FLOAT32).passed


def test_zero_is_compared_absolutely() -> None:
    found = compare("y", torch.zeros(3), torch.full((3,), 2e-5), FLOAT32)
    assert not found.passed
    assert found.max_rel == 1.0


def test_complex_outputs() -> None:
    x = torch.tensor([1 + 2j])
    assert compare("y", x, x.clone(), FLOAT32).passed
    assert not compare("y", x, x + 1j, FLOAT32).passed


def _graph(*dtypes: torch.dtype, quantizes: bool = False) -> Graph:
    graph = Graph()
    for number, dtype in enumerate(dtypes):
        graph.placeholder(f"x{number}").meta["val"] = torch.zeros(2, dtype=dtype)
    if quantizes:
        how = (0.1, 0, -128, 127, torch.int8)
        graph.call_function(decomposed_ops().quantize_per_tensor.default, (next(iter(graph.nodes)), *how))
    return graph


def test_the_tolerance_follows_what_is_computed_in() -> None:
    assert tolerance_for(Precision.KEEP, _graph(torch.float32)) is FLOAT32
    assert tolerance_for(Precision.FP16, _graph(torch.float32)) is HALF
    assert tolerance_for(Precision.KEEP, _graph(torch.float32, torch.float16)) is HALF
    assert tolerance_for(Precision.BF16, _graph(torch.float16)) is BFLOAT
    assert tolerance_for(Precision.KEEP, _graph(torch.float32, quantizes=True)) is QUANTIZED
    assert tolerance_for(Precision.FP16, _graph(torch.float32, quantizes=True)) is HALF


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([[NAN, INF], [NAN]], "y has no finite number at any set of sizes that was compared"),
        ([[NAN, INF], [NAN, 1.0]], ""),
        ([[], [1.0]], ""),
        ([[], []], ""),
    ],
)
def test_agreement_of_what_is_not_finite_is_said_to_say_nothing(values: list[list[float]], told: str) -> None:
    """As of a model with weights of no meaning, or outside of what its ops take."""
    point = Point("example", {})
    results = [PointResult(point, (compare("y", torch.tensor(v), torch.tensor(v), FLOAT32),)) for v in values]
    assert all(result.passed for result in results)
    notes = not_finite_notes([*results, PointResult(point, skipped="no time"), PointResult(point, failed="it failed")])
    assert [note.partition(":")[0] for note in notes] == ([told] if told else [])
