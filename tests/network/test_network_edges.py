"""Corners that the tables of cases do not reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import pytest
import torch
from network_cases import ORIGIN

from trtdiag.errors import InternalError
from trtdiag.network import (
    DType,
    Layer,
    LayerError,
    Network,
    NetworkBuilder,
    ShapeConstraints,
    Tensor,
    canonical_hash,
    run,
)
from trtdiag.network.layers.attention import Attention, CausalMaskKind
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.resize import InterpolationMode, Resize, ResizeCoordinateTransformation
from trtdiag.network.layers.scatter import Scatter, ScatterMode
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import Slice
from trtdiag.network.tensor import shape_of
from trtdiag.symbolic import Expr


def _network(layer: Layer, *types: tuple[tuple[int, ...], DType]) -> Network:
    builder = NetworkBuilder()
    values = [builder.input(f"x{index}", dtype, shape) for index, (shape, dtype) in enumerate(types)]
    builder.output("y", builder.add_single(layer, *values, origin=ORIGIN))
    return builder.build()


def test_zero_is_an_empty_dim_where_it_is_no_placeholder() -> None:
    network = _network(Shuffle(reshape=(0, 3), zero_is_placeholder=False), ((5, 0), DType.FLOAT32))
    assert run(network, [torch.zeros(5, 0)])[0].shape == (0, 3)


@pytest.mark.parametrize("mode", ScatterMode)
def test_scatter_takes_no_negative_index(mode: ScatterMode) -> None:
    indices = torch.tensor([-1]) if mode is ScatterMode.ELEMENT else torch.tensor([[-1]])
    with pytest.raises(IndexError, match="negative"):
        Scatter(mode).reference(torch.zeros(3), indices, torch.ones(1))


def test_hash_tells_inputs_of_one_type_apart() -> None:
    def difference(first: int, second: int) -> str:
        builder = NetworkBuilder()
        values = [builder.input(name, DType.FLOAT32, [3]) for name in ("a", "b")]
        layer = ElementWise(ElementWiseOperation.SUB)
        builder.output("y", builder.add_single(layer, values[first], values[second], origin=ORIGIN))
        return canonical_hash(builder.build())

    assert len({difference(0, 1), difference(1, 0), difference(0, 0)}) == 3


def test_constants_of_equal_bytes_keep_their_shapes() -> None:
    builder = NetworkBuilder()
    shapes = [(1, 6), (6, 1), (2, 3), (6,)]
    values = [builder.constant(torch.zeros(shape)) for shape in shapes]
    assert [value.tensor.static_shape for value in values] == shapes


class _NoFacts(ShapeConstraints):
    """Proves nothing, and tells that it was asked."""

    def at_least(self, expr: Expr, least: int) -> bool:
        raise AssertionError(f"asked for {expr} >= {least}")

    def never_at_least(self, expr: Expr, least: int) -> bool:
        raise AssertionError(f"asked for {expr} < {least}")


def test_a_slice_whose_numbers_are_known_asks_for_no_proof() -> None:
    """An unrolled recurrence has thousands, and proofs took most of the time to read its network."""
    facts = _NoFacts({})
    for start, size, step in (((0, 5), (2, 3), (1, -1)), ((1, 0), (2, 0), (1, 9)), ((2, 6), (1, 4), (0, 0))):
        (found,) = Slice(start, size, step).infer([Tensor(DType.FLOAT32, shape_of((3, 7)))], facts)
        assert found.static_shape == size


def test_a_slice_that_leaves_a_known_dim_is_refused() -> None:
    x = [Tensor(DType.FLOAT32, shape_of((3, 7)))]
    for start, size, step in (((0, 5), (3, 3), (1, 1)), ((-1, 0), (1, 7), (1, 1)), ((0, 1), (3, 3), (1, -1))):
        with pytest.raises(LayerError, match="is outside of"):
            Slice(start, size, step).infer(x, ShapeConstraints({}))


@dataclass(frozen=True)
class _Wrong(Layer):
    """States another type than it computes."""

    stated: Tensor

    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        return (self.stated,)

    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (torch.tensor([2, 3]),)


def test_result_other_than_inferred_is_our_bug() -> None:
    right = _network(_Wrong(_tensor([2, 3])), ((1,), DType.FLOAT32))
    assert run(right, [torch.zeros(1)])[0].tolist() == [2, 3]
    for wrong in (_tensor([2, 4]), _tensor([2, 3, 4]), _tensor([2, 3], DType.INT32)):
        with pytest.raises(InternalError) as caught:
            run(_network(_Wrong(wrong), ((1,), DType.FLOAT32)), [torch.zeros(1)])
        assert caught.value.reference == "wrong-inference"
        assert "aten.test.default" in caught.value.message


def _tensor(numbers: list[int], dtype: DType = DType.INT64) -> Tensor:
    builder = NetworkBuilder()
    return builder.constant(torch.tensor(numbers, dtype=dtype.torch), ORIGIN).tensor


def test_query_without_keys_gives_zero() -> None:
    shapes = [((1, 1, 3, 2), DType.FLOAT32), ((1, 1, 1, 2), DType.FLOAT32), ((1, 1, 1, 2), DType.FLOAT32)]
    network = _network(Attention(causal=CausalMaskKind.LOWER_RIGHT), *shapes)
    (y,) = run(network, [torch.ones(1, 1, 3, 2), torch.ones(1, 1, 1, 2), torch.full((1, 1, 1, 2), 7.0)])
    assert y[0, 0].tolist() == [[0, 0], [0, 0], [7, 7]]


@pytest.mark.parametrize(("old", "new"), [(2, 5), (5, 3), (7, 11), (1, 4)])
def test_cubic_without_what_lies_outside(old: int, new: int) -> None:
    x = torch.randn(old, generator=torch.Generator().manual_seed(old))
    layer = Resize(
        InterpolationMode.CUBIC,
        (new,),
        coordinates=ResizeCoordinateTransformation.HALF_PIXEL,
        cubic_coeff=-0.5,
        exclude_outside=True,
    )
    expected = []
    for index in range(new):
        at = (index + 0.5) * old / new - 0.5
        weights = {k: _keys(abs(at - k)) for k in range(floor(at) - 1, floor(at) + 3) if 0 <= k < old}
        expected.append(sum(float(x[k]) * weight for k, weight in weights.items()) / sum(weights.values()))
    # Weights from coordinates in float32 here, in double there.
    torch.testing.assert_close(
        run(_network(layer, ((old,), DType.FLOAT32)), [x])[0], torch.tensor(expected), rtol=1e-4, atol=1e-5
    )


def _keys(d: float) -> float:
    """The kernel for a = -1/2 in its published form."""
    return 1.5 * d**3 - 2.5 * d**2 + 1 if d <= 1 else -0.5 * d**3 + 2.5 * d**2 - 4 * d + 2
