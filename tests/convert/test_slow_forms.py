"""Forms that a target runs slowly are written another way there, with the same result."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from tests.convert import op_check
from tests.convert.op_check import Outcome, check_op
from tests.harness.rows import thinned
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.network.layers.activation import Activation
from trtdiag.network.layers.convolution import Deconvolution
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.reduce import Reduce
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.options import CompileOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target

aten = torch.ops.aten
SIZES = ((1, 4, 2, 3), (2, 4, 16, 16), (3, 4, 13, 31))


class Normed(nn.Module):
    def __init__(self, norm: nn.Module | None, act: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Conv2d(4, 6, 3, padding=1)
        self.norm, self.act = norm or nn.Identity(), act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.inner(x)))


class Grown(nn.Module):
    def __init__(self, channels: int, factor: int) -> None:
        super().__init__()
        self.inner = nn.Conv2d(4, channels * factor**2, 1)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.pixel_shuffle(self.inner(x), self.factor)


def segment_of(module: nn.Module, target: str, precision: Precision = Precision.KEEP) -> ConvertedSegment:
    """Its one network, which agrees with PyTorch at the corners of its ranges."""
    torch.manual_seed(0)
    dims = {0: Dim("batch", min=1, max=3), 2: Dim("rows", min=2, max=17), 3: Dim("columns", min=2, max=31)}
    program = export(module.eval(), (torch.randn(2, 4, 16, 13),), dynamic_shapes=(dims,))
    found = compile_in_stages(program, CompileOptions(target, "reference", precision))
    assert found.verification is not None
    assert found.verification.passed
    (segment,) = found.converted
    return segment


def activations(segment: ConvertedSegment) -> int:
    return sum(isinstance(placed.layer, Activation) for placed in segment.network.layers)


NORMS = {"instance": nn.InstanceNorm2d(6, affine=True), "group": nn.GroupNorm(2, 6)}
ACTS = {"relu": nn.ReLU(), "leaky": nn.LeakyReLU(0.1), "identity": nn.LeakyReLU(1.0), "random": nn.RReLU()}
# Each norm and precision, with the activations that are not written as such; the other pairs are slow.
QUICK = {
    ("instance", "identity", Precision.KEEP),
    ("group", "random", Precision.FP16),
}
FOLLOWING = [
    pytest.param(NORMS[norm], ACTS[act], precision, marks=[] if (norm, act, precision) in QUICK else pytest.mark.slow)
    for norm in NORMS
    for act in ACTS
    for precision in (Precision.KEEP, Precision.FP16)
]


# Quick: the ends.
@thinned(("norm", "act", "precision"), FOLLOWING, every=9)
def test_what_follows_a_normalization_is_elementwise_on_8_6(
    norm: nn.Module, act: nn.Module, precision: Precision
) -> None:
    assert activations(segment_of(Normed(norm, act), "8.6", precision)) == 0


# Quick: each third: another target, another norm, another dtype.
@thinned(
    ("norm", "act", "target"),
    [
        (nn.InstanceNorm2d(6), nn.LeakyReLU(0.1), "10.16"),
        (nn.InstanceNorm2d(6), nn.ReLU(), "11.4"),
        (None, nn.LeakyReLU(0.1), "8.6"),  # behind a convolution TensorRT fuses it
        (nn.BatchNorm2d(6), nn.ReLU(), "8.6"),  # which becomes part of the convolution
        (nn.InstanceNorm2d(6), nn.LeakyReLU(1.5), "8.6"),  # the greater of both is not it
        (nn.InstanceNorm2d(6), nn.LeakyReLU(0.0), "8.6"),  # 0 times an infinite element is NaN
        (nn.InstanceNorm2d(6), nn.Sigmoid(), "8.6"),
    ],
    every=3,
)
def test_elsewhere_it_stays_a_layer(norm: nn.Module | None, act: nn.Module, target: str) -> None:
    assert activations(segment_of(Normed(norm, act), target)) == 1


# Quick: eight channels and a factor that is odd.
@pytest.mark.slow  # quick: test_what_follows_a_normalization_is_elementwise_on_8_6
@pytest.mark.parametrize(
    ("channels", "factor"),
    [
        pytest.param(8, 2, marks=pytest.mark.slow),
        (8, 3),
        pytest.param(24, 4, marks=pytest.mark.slow),
        pytest.param(16, 2, marks=pytest.mark.slow),
    ],
)
def test_float16_pixels_move_by_weights_on_8_6(channels: int, factor: int) -> None:
    layers = [placed.layer for placed in segment_of(Grown(channels, factor), "8.6", Precision.FP16).network.layers]
    assert [layer.stride for layer in layers if isinstance(layer, Deconvolution)] == [(factor, factor)]
    assert not any(isinstance(layer, Shuffle) for layer in layers)


# Quick: another precision, and another target.
@thinned(
    ("target", "precision"), [("8.6", Precision.KEEP), ("11.4", Precision.FP16), ("10.16", Precision.FP16)], every=9
)
@pytest.mark.slow  # quick: moved pixels are exactly the same
def test_other_pixels_are_shuffled(target: str, precision: Precision) -> None:
    layers = [placed.layer for placed in segment_of(Grown(8, 2), target, precision).network.layers]
    assert not any(isinstance(layer, Deconvolution) for layer in layers)


# Quick: the least and the greatest.
@thinned("channels", [1, 3, 7, 12], every=4)
@pytest.mark.slow  # quick: moved pixels are exactly the same
def test_channels_that_are_no_eights_are_shuffled(channels: int) -> None:
    layers = [placed.layer for placed in segment_of(Grown(channels, 2), "8.6", Precision.FP16).network.layers]
    assert not any(isinstance(layer, Deconvolution) for layer in layers)


@pytest.mark.parametrize("shape", [(1, 32, 1, 1), (2, 64, 3, 7), (3, 96, 13, 5)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_moved_pixels_are_exactly_the_same(shape: tuple[int, ...], dynamic: bool) -> None:
    x = torch.randn(shape).half() * 1000
    x.view(-1)[:2] = torch.tensor([65504.0, 6e-8]).half()  # the greatest and the smallest that float16 has
    check_op(aten.pixel_shuffle.default, (x, 2), dynamic=dynamic, target="8.6", tolerance=(0, 0))


@pytest.mark.parametrize("shape", [(4, 3, 5), (2, 3, 4, 3, 5)])
def test_pixels_without_a_batch_or_with_two_are_shuffled(shape: tuple[int, ...]) -> None:
    found = check_op(aten.pixel_shuffle.default, (torch.randn(shape).half(), 2), target="8.6", tolerance=(0, 0))
    assert found.converted is not None
    assert not any(isinstance(placed.layer, Deconvolution) for placed in found.converted.network.layers)


@pytest.mark.slow
def test_too_many_weights_are_not_made() -> None:
    """1,024 channels that become 256 are 1 Mi weights; 4 times as many would be 16 Mi."""
    inner = segment_of(Grown(256, 2), "8.6", Precision.FP16)
    assert any(isinstance(placed.layer, Deconvolution) for placed in inner.network.layers)
    outer = segment_of(Grown(1024, 2), "8.6", Precision.FP16)
    assert not any(isinstance(placed.layer, Deconvolution) for placed in outer.network.layers)


def normalizations(found: Outcome) -> tuple[list[tuple[int, ...]], int]:
    """The axes of each Normalization, and how many Reduce layers there are."""
    assert found.converted is not None
    layers = [placed.layer for placed in found.converted.network.layers]
    axes = [layer.axes for layer in layers if isinstance(layer, Normalization)]
    return axes, sum(isinstance(layer, Reduce) for layer in layers)


def spread(shape: tuple[int, ...], mean: float = 0.0, deviation: float = 1.0) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(3)) * deviation + mean).half()


HALF = (2e-3, 2e-3)
"""Two steps of float16: the result is rounded once, from float32 in another order."""
LIKE_PYTORCH = (2e-2, 3e-2)
"""What PyTorch computes of float16 on a CPU is up to 0.028 from the exact result where the mean is 50 deviations."""


def exact(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    dims, shape = list(range(2, x.dim())), [1, -1, *[1] * (x.dim() - 2)]
    wide = x.double()
    centred = wide - wide.mean(dims, keepdim=True)
    normal = centred / (wide.var(dims, keepdim=True, unbiased=False) + 1e-5).sqrt()
    return normal * scale.double().reshape(shape) + bias.double().reshape(shape)


def norm_args(x: torch.Tensor) -> tuple[object, ...]:
    scale = torch.linspace(0.5, 2.0, x.shape[1]).half()
    return x, scale, scale - 1, None, None, True, 0.1, 1e-5, False


# Quick: the plainest and the largest.
@thinned(("mean", "deviation"), [(0.0, 1.0), (50.0, 1.0), (-7.0, 400.0), (0.0, 1e-3), (1000.0, 5.0)], every=4)
@pytest.mark.parametrize("shape", [(1, 2, 129, 128), (2, 3, 31, 1021), (1, 2, 3, 97, 113), (1, 1, 20000)])
def test_a_large_norm_is_taken_in_parts_on_8_6(shape: tuple[int, ...], mean: float, deviation: float) -> None:
    args = norm_args(spread(shape, mean, deviation))

    def compare(_: object, made: torch.Tensor) -> None:
        torch.testing.assert_close(made.double(), exact(*args[:3]), rtol=HALF[0], atol=HALF[1])

    found = check_op(aten.instance_norm.default, args, target="8.6", compare=compare)
    assert normalizations(found) == ([(2,)], 4)


# Quick: one; known sizes of each form below.
@pytest.mark.parametrize(
    "shape",
    [
        (2, 3, 129, 128),
        pytest.param((3, 2, 1021, 31), marks=pytest.mark.slow),
        pytest.param((2, 2, 5, 97, 113), marks=pytest.mark.slow),
    ],
)
def test_rows_are_the_parts_where_sizes_are_not_known(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_check, "GREATEST", 16)  # five dims of more are too many elements
    x = spread(shape, 5.0)
    found = check_op(aten.instance_norm.default, norm_args(x), target="8.6", dynamic=True, tolerance=LIKE_PYTORCH)
    ((outer,), reduced) = normalizations(found)
    assert outer[0] == 2
    assert reduced == 4


@pytest.mark.parametrize("dynamic", [False, True])
def test_groups_are_taken_in_parts(dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_check, "GREATEST", 512)  # rows of groups may be more than are taken at once
    x = spread((1, 12, 61, 97), 2.0, 3.0)
    scale = torch.linspace(0.5, 2.0, 12).half()
    args = (x, 3, scale, scale - 1, 1e-5, False)
    ((outer,), reduced) = normalizations(
        check_op(aten.group_norm.default, args, target="8.6", dynamic=dynamic, tolerance=LIKE_PYTORCH)
    )
    assert outer == ((2, 3) if dynamic else (2,))
    assert reduced == 4


@pytest.mark.parametrize(
    ("shape", "target", "half"),
    [
        ((1, 2, 128, 128), "8.6", True),  # as many as are taken at once
        ((1, 1, 16411), "8.6", True),  # a prime: there are no equal parts
        ((1, 2, 129, 128), "8.6", False),
        ((1, 2, 129, 128), "10.16", True),
        ((1, 2, 129, 128), "11.4", True),
    ],
)
def test_other_norms_are_one_layer(shape: tuple[int, ...], target: str, half: bool) -> None:
    x = spread(shape) if half else spread(shape).float()
    args = [each.to(x.dtype) if isinstance(each, torch.Tensor) else each for each in norm_args(x)]
    found = check_op(aten.instance_norm.default, args, target=target, tolerance=LIKE_PYTORCH)
    assert normalizations(found) == ([tuple(range(2, len(shape)))], 0)


@pytest.mark.slow
def test_what_follows_a_norm_in_parts_is_elementwise() -> None:
    class Large(Normed):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x.repeat(1, 1, 40, 40))

    segment = segment_of(Large(nn.InstanceNorm2d(6), nn.LeakyReLU(0.1)), "8.6", Precision.FP16)
    assert activations(segment) == 0
    assert sum(isinstance(placed.layer, Reduce) for placed in segment.network.layers) == 4


def test_an_infinite_element_stays_what_it_is_behind_a_leaky_relu() -> None:
    """No product of 0 stands in the way; NaN stays NaN, as with the layer."""
    x = torch.tensor([torch.inf, -torch.inf, torch.nan, -2.0, 0.0, 3.0])
    taken = torch.maximum(x, x * 0.1)
    torch.testing.assert_close(taken, nn.functional.leaky_relu(x, 0.1), equal_nan=True)


def test_a_target_names_forms_that_there_are() -> None:
    with pytest.raises(ValueError, match="no form is called shuffle"):
        replace(get_target("8.6"), slow=frozenset({"shuffle"}))
