"""Layers with many attributes, drawn at random, against independent expressions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from network_cases import ORIGIN

from tests.harness.rows import each
from trtdiag.network import DType, Layer, NetworkBuilder, canonical_hash, from_bytes, run, to_bytes
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.layers.gather import Gather
from trtdiag.network.layers.pooling import PaddingMode, Pooling, PoolingType
from trtdiag.network.layers.reduce import Cumulative, Reduce, ReduceOperation
from trtdiag.network.layers.resize import InterpolationMode, Resize, ResizeCoordinateTransformation
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.symbolic import Range, symbol

SEEDS = range(25)
ODD = (1, 2, 3, 5, 7, 11)


def _run(layer: Layer, *inputs: torch.Tensor) -> torch.Tensor:
    """With every dim of the first input symbolic, the others static; through a file, so that attributes pass it."""
    first, *others = inputs
    names = [f"s{axis}" for axis in range(first.dim())]
    builder = NetworkBuilder({name: Range(1, 64) for name in names})
    static = isinstance(layer, Convolution | Deconvolution)  # channels must be proven equal to the kernel's
    sizes = [size if static and axis == 1 else symbol(names[axis]) for axis, size in enumerate(first.shape)]
    dtypes = [DType.of(tensor.dtype) or DType.FLOAT32 for tensor in inputs]
    values = [builder.input("x", dtypes[0], sizes)]
    values += [builder.input(f"c{i}", dtypes[i + 1], list(other.shape)) for i, other in enumerate(others)]
    builder.output("y", builder.add_single(layer, *values, origin=ORIGIN))
    network = builder.build()
    again = from_bytes(to_bytes(network))
    assert canonical_hash(again) == canonical_hash(network)
    return run(again, list(inputs))[0]


def _pads(before: Sequence[int], after: Sequence[int]) -> list[int]:
    return [number for pair in reversed(list(zip(before, after, strict=True))) for number in pair]


@each("seed", SEEDS)
@pytest.mark.slow  # quick: layers in test_layer_kinds.py, ops in tests/convert
def test_convolutions(seed: int) -> None:
    pick = random.Random(seed)
    torch.manual_seed(seed)
    dims, groups = pick.choice((2, 3)), pick.choice((1, 2, 3))
    window = tuple(pick.choice((1, 2, 3)) for _ in range(dims))
    stride, dilation = (tuple(pick.choice((1, 2, 3)) for _ in range(dims)) for _ in range(2))
    before, after = (tuple(pick.randrange(3) for _ in range(dims)) for _ in range(2))
    x = torch.randn(pick.choice((1, 3)), 2 * groups, *(pick.choice((7, 8, 11)) for _ in range(dims)))
    kernel, bias = torch.randn(3 * groups, 2, *window), torch.randn(3 * groups)
    convolve = F.conv2d if dims == 2 else F.conv3d
    expected = convolve(F.pad(x, _pads(before, after)), kernel, bias, stride, 0, dilation, groups)
    # Sums of up to 54 products in another order.
    torch.testing.assert_close(
        _run(Convolution(stride, before, after, dilation, groups), x, kernel, bias), expected, rtol=1e-4, atol=1e-4
    )
    kernel = torch.randn(2 * groups, 3, *window)
    transpose = F.conv_transpose2d if dims == 2 else F.conv_transpose3d
    full = transpose(x, kernel, bias, stride, 0, 0, groups, dilation)
    torch.testing.assert_close(
        _run(Deconvolution(stride, before, after, dilation, groups), x, kernel, bias),
        F.pad(full, [-number for number in _pads(before, after)]),
        rtol=1e-4,
        atol=1e-4,
    )


@each("seed", SEEDS)
@pytest.mark.slow  # quick: layers in test_layer_kinds.py, ops in tests/convert
def test_poolings(seed: int) -> None:
    pick = random.Random(seed)
    torch.manual_seed(seed)
    window = tuple(pick.choice((2, 3, 5)) for _ in range(2))
    stride = tuple(pick.randint(1, size) for size in window)  # PyTorch leaves windows of padding alone out
    pad = tuple(pick.randint(0, size // 2) for size in window)
    up, excludes = pick.random() < 0.5, pick.random() < 0.5
    x = torch.randn(2, 3, pick.choice((7, 11, 12)), pick.choice((6, 7, 13)))
    mode = PaddingMode.EXPLICIT_ROUND_UP if up else PaddingMode.EXPLICIT_ROUND_DOWN
    most = F.max_pool2d(x, window, stride, pad, ceil_mode=up)
    actual = _run(Pooling(PoolingType.MAX, window, stride, pad, pad, mode), x)
    kept = actual[:, :, : most.size(2), : most.size(3)]
    assert torch.equal(kept, most)
    # What PyTorch has left out are windows without an element of the input.
    assert all(actual[..., most.size(2) :, :].isinf().flatten())
    assert all(actual[..., most.size(3) :].isinf().flatten())
    # A window that reaches over the padding counts whole, in PyTorch as far as the padding.
    whole = math.prod(window) if up and not excludes else None
    mean = F.avg_pool2d(x, window, stride, pad, up, not excludes, divisor_override=whole)
    actual = _run(Pooling(PoolingType.AVERAGE, window, stride, pad, pad, mode, excludes), x)
    # Sums of up to 25 numbers in another order.
    torch.testing.assert_close(actual[:, :, : mean.size(2), : mean.size(3)], mean, rtol=1e-4, atol=1e-5)


@each("seed", SEEDS)
def test_resizes(seed: int) -> None:
    pick = random.Random(seed)
    torch.manual_seed(seed)
    x = torch.randn(2, 3, pick.choice(ODD), pick.choice(ODD))
    size = (pick.choice(ODD) + 1, pick.choice(ODD) + 2)
    half, corners = ResizeCoordinateTransformation.HALF_PIXEL, ResizeCoordinateTransformation.ALIGN_CORNERS
    for mode, name in ((InterpolationMode.LINEAR, "bilinear"), (InterpolationMode.CUBIC, "bicubic")):
        for coordinates in (half, corners):
            builder = NetworkBuilder()
            given = builder.input("x", DType.FLOAT32, list(x.shape))
            layer = Resize(mode, (2, 3, *size), coordinates=coordinates)
            builder.output("y", builder.add_single(layer, given, origin=ORIGIN))
            expected = F.interpolate(x, size, mode=name, align_corners=coordinates is corners)
            # Weights from coordinates below 16 in float32.
            torch.testing.assert_close(run(builder.build(), [x])[0], expected, rtol=1e-4, atol=1e-5)


@each("seed", SEEDS)
def test_slices(seed: int) -> None:
    pick = random.Random(seed)
    x = torch.arange(3 * 7 * 5, dtype=torch.float32).reshape(3, 7, 5)
    start, stride, size = [], [], []
    for length in x.shape:
        step = pick.choice((-2, -1, 0, 1, 2, 3))
        first = pick.randrange(length)
        room = first // -step if step < 0 else (length - 1 - first) // step if step else 4
        start.append(first)
        stride.append(step)
        size.append(pick.randint(0, room + 1))
    expected = [
        [
            [
                float(x[start[0] + i * stride[0], start[1] + j * stride[1], start[2] + k * stride[2]])
                for k in range(size[2])
            ]
            for j in range(size[1])
        ]
        for i in range(size[0])
    ]
    actual = _run(Slice(tuple(start), tuple(size), tuple(stride)), x)
    assert torch.equal(actual, torch.tensor(expected).reshape(size))


@each("seed", SEEDS)
def test_slices_beyond_the_ends(seed: int) -> None:
    pick = random.Random(seed)
    length = pick.choice(ODD)
    x = torch.arange(1.0, length + 1)
    start, step, count = pick.randint(-9, 9), pick.choice((-2, -1, 1, 2)), pick.randint(1, 12)
    places = [start + i * step for i in range(count)]
    mirrored = [*range(length), *range(length - 2, 0, -1)]
    expected = {
        SampleMode.FILL: [float(x[p]) if 0 <= p < length else 0.0 for p in places],
        SampleMode.CLAMP: [float(x[min(max(p, 0), length - 1)]) for p in places],
        SampleMode.WRAP: [float(x[p % length]) for p in places],
        SampleMode.REFLECT: [float(x[mirrored[p % len(mirrored)]]) for p in places],
    }
    for mode, numbers in expected.items():
        assert _run(Slice((start,), (count,), (step,), mode), x).tolist() == numbers


@each("seed", SEEDS)
def test_shuffles(seed: int) -> None:
    pick = random.Random(seed)
    sizes = [pick.choice((1, 2, 3, 4)) for _ in range(4)]
    x = torch.arange(torch.Size(sizes).numel(), dtype=torch.float32).reshape(sizes)
    first, second = (tuple(pick.sample(range(n), n)) for n in (4, 3))
    moved = torch.einsum(x, list(range(4)), list(first))
    flat = moved.flatten(1, 2)  # (0, -1, last) says the same where the last dim stays
    layer = Shuffle(first, (0, -1, moved.size(3)), second)
    builder = NetworkBuilder()
    builder.output("y", builder.add_single(layer, builder.input("x", DType.FLOAT32, sizes), origin=ORIGIN))
    assert torch.equal(run(builder.build(), [x])[0], torch.einsum(flat, list(range(3)), list(second)))


@each("seed", SEEDS)
def test_reductions_sums_and_gathers(seed: int) -> None:
    pick = random.Random(seed)
    torch.manual_seed(seed)
    x = torch.randint(-50, 50, [pick.choice(ODD) for _ in range(4)])
    axes = tuple(pick.sample(range(4), pick.randint(1, 4)))
    keep = pick.random() < 0.5
    expected = x.clone()
    for axis in sorted(axes, reverse=True):
        expected = torch.stack(expected.unbind(axis)).sum(0)
        expected = expected.unsqueeze(axis) if keep else expected
    assert torch.equal(_run(Reduce(ReduceOperation.SUM, axes, keep), x), expected)

    axis = pick.randrange(4)
    exclusive, reverse = pick.random() < 0.5, pick.random() < 0.5
    order = range(x.size(axis))[::-1] if reverse else range(x.size(axis))
    rows, total = {}, torch.zeros_like(x.select(axis, 0))
    for index in order:
        rows[index] = total if exclusive else total + x.select(axis, index)
        total = total + x.select(axis, index)
    expected = torch.stack([rows[index] for index in range(x.size(axis))], axis)
    assert torch.equal(_run(Cumulative(axis, exclusive, reverse), x), expected)

    batch = pick.randint(0, axis)
    indices = torch.randint(0, x.size(axis), (*x.shape[:batch], 3, 2))
    builder = NetworkBuilder()
    values = [builder.input(name, DType.INT64, list(t.shape)) for name, t in (("x", x), ("i", indices))]
    builder.output("y", builder.add_single(Gather(axis=axis, elementwise_dims=batch), *values, origin=ORIGIN))
    (actual,) = run(builder.build(), [x, indices])
    for place in torch.cartesian_prod(*(torch.arange(n) for n in actual.shape)).tolist()[::17]:
        before, inner, behind = place[:axis], place[axis : axis + 2], place[axis + 2 :]
        index = int(indices[(*before[:batch], *inner)])
        assert actual[tuple(place)] == x[(*before, index, *behind)]
