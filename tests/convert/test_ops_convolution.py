"""Convolutions: samples, one dim of space, paddings by name, transposed with what they add at the end."""

from __future__ import annotations

import pytest
import torch

from tests.convert.family_samples import Row, check_row, converted, missing, near
from tests.convert.function_program import converted as program_of
from tests.convert.op_check import check_op
from tests.convert.op_samples import overload
from tests.harness.rows import thinned

# PyTorch on the CPU adds the terms of a float16 convolution in another order.
HALF = {torch.float16: 8e-3}
_F = "nn.functional."


def _row(*infos: str) -> Row:
    return Row(tuple(_F + info for info in infos), constants=True, near=HALF)


ROWS = {
    "aten.conv1d.default": _row("conv1d"),
    "aten.conv2d.default": _row("conv2d"),
    "aten.conv3d.default": _row("conv3d"),
    "aten.conv1d.padding": _row("conv1d"),
    "aten.conv2d.padding": _row("conv2d"),
    "aten.conv3d.padding": _row("conv3d"),
    "aten.conv_transpose1d.default": _row("conv_transpose1d"),
    "aten.conv_transpose2d.input": _row("conv_transpose2d"),
    "aten.conv_transpose3d.input": _row("conv_transpose3d"),
    "aten.convolution.default": _row("conv1d", "conv_transpose2d", "conv3d"),
}
BY_HAND = {"aten._convolution.default", "aten._convolution_mode.default"}


def test_every_converter_has_samples() -> None:
    assert not missing({"convolution"}, {*ROWS, *BY_HAND})


@pytest.mark.parametrize("name", sorted(ROWS))
def test_samples(name: str) -> None:
    assert check_row(name, ROWS[name], 1, "11.4", dynamic=True, dtypes=1)[0] > 0
    assert check_row(name, ROWS[name], 1, "8.6", dynamic=False)[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROWS))
def test_all_samples(name: str) -> None:
    for target in ("8.6", "10.16", "11.4"):
        for dynamic in (False, True):
            check_row(name, ROWS[name], 100, target, dynamic=dynamic)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (3, 2, 2)])
@pytest.mark.parametrize("batched", [True, False])
def test_one_dim_of_space(stride: int, padding: int, dilation: int, batched: bool) -> None:
    x = torch.randn(2, 3, 13) if batched else torch.randn(3, 13)
    rest = (torch.randn(6, 3, 3), torch.randn(6), [stride], [padding], [dilation])
    assert converted("aten.conv1d.default", x, *rest, dynamic=True, constants=True) == 4


def test_same_padding_puts_the_odd_element_after() -> None:
    x = torch.randn(2, 3, 11, 7)
    even = (torch.randn(4, 3, 4, 3), None, [1], "same", [2])
    assert converted("aten.conv2d.padding", x, *even, dynamic=True, constants=True) == 4
    assert converted("aten.conv1d.padding", x[:, :, 0], torch.randn(4, 3, 4), None, [1], "same", constants=True) == 1
    named = (torch.randn(4, 1, 2, 5), None, [1, 1], "same", [1, 1])
    assert converted("aten._convolution_mode.default", x[:, :1], *named, 1, dynamic=True, constants=True) == 4


# Quick: one that adds nothing, and one more than its padding.
@pytest.mark.parametrize(
    ("padding", "more"),
    [
        pytest.param(0, 0, marks=pytest.mark.slow),
        (0, 1),
        pytest.param(1, 1, marks=pytest.mark.slow),
        pytest.param(2, 1, marks=pytest.mark.slow),
        (1, 2),
    ],
)
def test_what_a_transposed_convolution_adds_at_its_end(padding: int, more: int) -> None:
    """Where more is added than the padding cut off, only the bias is left there."""
    x, weight, bias = torch.randn(2, 4, 5, 1), torch.randn(4, 2, 3, 2), torch.randn(4)
    rest = ([3, 3], [padding, 0], [more, 0], 2, [2, 1])
    name = "aten.conv_transpose2d.input"
    assert converted(name, x, weight, bias, *rest, dynamic=True, constants=True) == 4
    assert converted(name, x, weight, None, *rest, constants=True, target="8.6") == 1
    one = (torch.randn(4, 3, 3), bias[:3], [3], [padding], [more])
    assert converted("aten.conv_transpose1d.default", x[..., 0], *one, dynamic=True, constants=True) == 4


@pytest.mark.slow  # quick: test_samples
def test_the_general_form_of_either_kind() -> None:
    x = torch.randn(2, 4, 5, 6, 3)
    shared = ([2, 1, 1], [1, 0, 1], [1, 2, 1])
    plain = (x, torch.randn(6, 2, 3, 2, 3), torch.randn(6), *shared, False, [0, 0, 0], 2)
    turned = (x, torch.randn(4, 3, 3, 2, 3), None, *shared, True, [1, 0, 0], 2)
    for args in (plain, turned):
        assert converted("aten.convolution.default", *args, dynamic=True, constants=True) == 4
        assert converted("aten._convolution.default", *args, False, False, False, False, constants=True) == 1


def test_a_kernel_that_is_an_input_needs_known_sizes_of_space() -> None:
    x, weight = torch.randn(2, 3, 11, 7), torch.randn(4, 3, 3, 2)
    assert converted("aten.conv2d.default", x, weight) == 1
    assert converted("aten.conv2d.default", x, torch.randn(4, 3, 1, 1), dynamic=True) == 4
    converted("aten.conv2d.default", x, weight, dynamic=True, refused="dynamic-kernel")
    one = (x[..., 0], weight[..., 0], None, [1], "same")
    converted("aten.conv1d.padding", *one, dynamic=True, refused="dynamic-kernel")


def test_integers_are_refused() -> None:
    x, weight = torch.ones(1, 1, 5, 5, dtype=torch.int64), torch.ones(1, 1, 3, 3, dtype=torch.int64)
    converted("aten.conv2d.default", x, weight, refused="integer-convolution")


def test_bfloat16_is_computed_in_bfloat16() -> None:
    x, weight = torch.randn(2, 3, 5, 5).bfloat16(), torch.randn(4, 3, 3, 3).bfloat16()
    assert converted("aten.conv2d.default", x, weight, dynamic=True, constants=True) == 4


def test_a_transposed_convolution_goes_other_ways_where_bfloat16_has_no_kernel() -> None:
    """By float32 where it is strided and its kernel known, else as a Convolution."""
    x, kernel, bias = (torch.randn(size).bfloat16() for size in ((2, 4, 6, 5), (4, 3, 3, 3), (3,)))
    for more in ([], [[2, 2], [1, 1], [1, 1]]):
        args = ("aten.conv_transpose2d.input", x, kernel, bias, *more)
        for target in ("rtx-1.7", "11.4"):
            for constants in (True, False):
                assert converted(*args, constants=constants, target=target) == 1


def test_windows_of_bfloat16_are_summed_for_tensorrt_rtx() -> None:
    windows = torch.randn(2, 12, 6).bfloat16()
    assert converted("aten.col2im.default", windows, [3, 4], [2, 2], [1, 1], [0, 0], [1, 1], target="rtx-1.7") == 1


def test_windows_with_gaps_are_summed_by_tensorrt_rtx() -> None:
    windows = torch.randn(2, 12, 6)
    args = (windows, [5, 6], [2, 2], [2, 2], [0, 1], [1, 3])
    assert converted("aten.col2im.default", *args, target="rtx-1.7") == 1


# Output, kernel, dilation, padding, stride: windows that overlap by one element, by several windows, not at all, that
# leave gaps, of one element, with taps apart by a divisor of the stride and by none, and a strip of them along one dim.
_WINDOWS = [
    ([13, 7], [3, 3], [1, 1], [1, 1], [2, 2]),
    ([11, 5], [7, 4], [1, 1], [3, 0], [1, 1]),
    ([12, 6], [4, 3], [1, 1], [0, 0], [4, 3]),
    ([9, 11], [2, 1], [1, 1], [0, 1], [3, 5]),
    ([5, 3], [1, 1], [1, 1], [0, 0], [1, 1]),
    ([13, 17], [3, 2], [2, 3], [2, 1], [4, 2]),
    ([1, 40], [1, 8], [1, 1], [0, 2], [1, 4]),
]


@pytest.mark.parametrize(("output", "kernel", "dilation", "padding", "stride"), _WINDOWS)
def test_windows_are_summed(
    output: list[int], kernel: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> None:
    many = 1
    for size, taps, apart, around, step in zip(output, kernel, dilation, padding, stride, strict=True):
        many *= (size + 2 * around - apart * (taps - 1) - 1) // step + 1
    for dtype in (torch.float32, torch.float16):
        windows = torch.randn(2, 3 * kernel[0] * kernel[1], many).to(dtype)
        assert converted("aten.col2im.default", windows, output, kernel, dilation, padding, stride, target="8.6") == 1


def test_windows_are_not_summed_by_a_convolution() -> None:
    """TensorRT 8.6 takes milliseconds for a transposed one with a group for each channel."""

    def fold(_: object, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.fold(x, (13, 7), 3, padding=1, stride=2)

    _, segment = program_of(fold, (torch.randn(2, 1728, 28),), (None,), "8.6")
    kinds = {placed.layer.kind for placed in segment.network.layers}
    assert "ElementWise" in kinds
    assert not {"Deconvolution", "Convolution"} & kinds


# Stride, groups, dilation, padding, output padding: dilated and strided, cut less and more than the kernel reaches,
# along one dim or both.
_DILATED = [
    ([2, 1], 1, [2, 1], [0, 0], [0, 0]),
    ([2, 3], 1, [2, 3], [1, 2], [1, 2]),
    ([3, 2], 2, [1, 2], [3, 5], [0, 1]),
    ([2, 1], 2, [2, 1], [0, 0], [0, 0]),
    ([1, 2], 2, [2, 2], [5, 1], [0, 1]),
    ([2, 2], 4, [3, 1], [0, 0], [2, 1]),
]


# Quick: each third; all dims of space below.
@thinned(("stride", "groups", "dilation", "padding", "more"), _DILATED, every=3)
@pytest.mark.parametrize("constants", [True, False])
def test_dilated_transposed_convolutions_of_tensorrt_rtx(
    stride: list[int], groups: int, dilation: list[int], padding: list[int], more: list[int], constants: bool
) -> None:
    """Convolutions there, over zeros between the elements; at other sizes too."""
    x, kernel, bias = torch.randn(2, 4, 7, 5), torch.randn(4, 2, 3, 2), torch.randn(2 * groups)
    args = (x, kernel, bias, stride, padding, more, groups, dilation)
    many = converted("aten.conv_transpose2d.input", *args, constants=True, dynamic=True, target="rtx-1.7")
    assert many >= 3  # of the smallest sizes padding may leave nothing
    assert converted("aten.conv_transpose2d.input", *args, constants=constants, target="rtx-1.4") == 1
    assert converted("aten.conv_transpose2d.input", *args, constants=constants) == 1


@pytest.mark.parametrize("dims", [1, 3])
def test_dilated_transposed_convolutions_of_other_dims(dims: int) -> None:
    x, kernel = torch.randn(2, 4, *[5, 4, 3][:dims]), torch.randn(4, 3, *[3, 2, 1][:dims])
    args = (x, kernel, None, [2, 3, 2][:dims], [1, 0, 0][:dims], [1, 0, 0][:dims], 2, [2, 2, 1][:dims])
    name = f"aten.conv_transpose{dims}d.{'default' if dims == 1 else 'input'}"
    assert converted(name, *args, constants=True, dynamic=True, target="rtx-1.7") == 4


def test_what_lies_between_the_elements_takes_no_part() -> None:
    """Infinities stay where they reach: no zero of a widened kernel meets them."""
    x = torch.tensor([[[[1.0, float("inf"), 2.0, 3.0, -1.0]]]])
    args = (x, torch.randn(1, 1, 1, 3), None, [1, 2], [0, 0], [0, 0], 1, [1, 2])
    assert converted("aten.conv_transpose2d.input", *args, constants=True, target="rtx-1.7") == 1


@pytest.mark.slow  # quick: test_dilated_transposed_convolutions_of_tensorrt_rtx
def test_which_targets_write_a_dilated_transposed_convolution_as_a_convolution() -> None:
    """The layer of its own where there is one: it multiplies no zeros."""
    for target, kind in (("11.4", "Deconvolution"), ("rtx-1.7", "Convolution"), ("rtx-1.4", "Convolution")):
        assert kind in _kinds(target, 2, 1, 2)
        assert "Deconvolution" in _kinds(target, 2, 2, 1)
        assert "Deconvolution" in _kinds(target, 1, 2, 2)


def _kinds(target: str, stride: int, groups: int, dilation: int) -> set[str]:
    """The kinds of layers that a transposed convolution is written with."""
    op = overload("aten.conv_transpose2d.input")
    assert op is not None
    args = (
        torch.randn(2, 4, 6, 5),
        torch.randn(4, 2, 3, 3),
        None,
        [stride] * 2,
        [0, 0],
        [0, 0],
        groups,
        [dilation] * 2,
    )
    outcome = check_op(op, args, target=target, constants=True, dynamic=True, compare=near())
    assert outcome.converted is not None
    return {placed.layer.kind for placed in outcome.converted.network.layers}
