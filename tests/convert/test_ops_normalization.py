"""Softmax and normalizations."""

from __future__ import annotations

import pytest
import torch

from tests.convert.family_samples import Row, check_row, converted, missing
from tests.convert.op_check import OLD_THEN_NEW
from tests.harness.rows import thinned

_F = "nn.functional."
# Some samples are of float64, which no engine has.
DOUBLE = ("double-precision",)
NEGATIVE = ("negative-epsilon",)  # torch has samples with eps=-0.5

ROWS = {
    "aten.softmax.int": Row(("softmax",), DOUBLE),
    "aten._softmax.default": Row(("softmax",), DOUBLE),
    "aten.log_softmax.int": Row(("log_softmax",), DOUBLE),
    "aten._log_softmax.default": Row(("log_softmax",), DOUBLE),
    "aten.layer_norm.default": Row((_F + "layer_norm",), NEGATIVE, constants=True),
    "aten.native_layer_norm.default": Row(("native_layer_norm",), NEGATIVE, constants=True, read=(0,)),
    "aten.group_norm.default": Row((_F + "group_norm",), (*NEGATIVE, "channels-not-proven"), constants=True),
    "aten.native_group_norm.default": Row((_F + "group_norm",), (*NEGATIVE, "channels-not-proven"), constants=True),
    "aten.native_batch_norm.default": Row(("native_batch_norm",), ("running-statistics",), constants=True, read=(0,)),
    "aten._native_batch_norm_legit.no_stats": Row(("_native_batch_norm_legit",), constants=True),
    "aten.rms_norm.default": Row((_F + "rms_norm",), constants=True),
}
BY_HAND = {
    *("aten.special_softmax.default", "aten.special_log_softmax.default", "aten._safe_softmax.default"),
    *("aten._fused_rms_norm.default", "aten.instance_norm.default", "aten.batch_norm.default"),
    *("aten._native_batch_norm_legit_no_training.default", "aten._native_batch_norm_legit_functional.default"),
    "aten._batch_norm_no_update.default",
}
# cudnn_batch_norm runs on a GPU alone; it differs from batch_norm in its name and the place of its arguments.
ON_GPU = {"aten.cudnn_batch_norm.default"}
SHAPES = [(2, 3, 13), (2, 3, 11, 7), (5, 3), (1, 3, 2, 1, 5)]
DTYPES = [torch.float32, torch.float16]
# What float16 changes it changes at every shape.
CASES = [
    pytest.param(shape, dtype, marks=[pytest.mark.slow] if dtype is torch.float16 and shape != SHAPES[1] else [])
    for shape in SHAPES
    for dtype in DTYPES
]


def test_every_converter_has_samples() -> None:
    families = {"softmax", "layer_norm", "group_norm", "batch_norm"}
    assert not missing(families, {*ROWS, *BY_HAND, *ON_GPU})


@pytest.mark.parametrize("name", sorted(ROWS))
def test_samples(name: str) -> None:
    most = 6 if name == "aten.native_batch_norm.default" else 1  # its first samples update statistics
    assert check_row(name, ROWS[name], most, "11.4", dynamic=False)[0] > 0
    assert check_row(name, ROWS[name], most, "8.6", dynamic=True, dtypes=1)[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROWS))
def test_all_samples(name: str) -> None:
    for target in ("8.6", "10.16", "11.4"):
        for dynamic in (False, True):
            check_row(name, ROWS[name], 40, target, dynamic=dynamic)


def test_softmax_in_another_dtype_and_of_empty_rows() -> None:
    x = torch.randn(3, 5, 7)
    assert converted("aten.softmax.int", x.half(), 1, torch.float32, dynamic=True) == 4
    assert converted("aten.log_softmax.int", (x * 9).long(), -1, torch.float32, dynamic=True) == 4
    assert converted("aten.special_softmax.default", x, 0, dynamic=True) == 4
    assert converted("aten.special_log_softmax.default", x, -1, dynamic=True) == 4
    assert converted("aten.softmax.int", torch.tensor(3.0), 0) == 1
    x[1, 2] = -torch.inf
    assert converted("aten._safe_softmax.default", x, 2, dynamic=True) == 4
    assert converted("aten.softmax.int", x, 2) == 1  # NaN, as in PyTorch


def _channels(dtype: torch.dtype) -> list[torch.Tensor]:
    weight, bias, mean, variance = torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3) + 0.1
    return [part.to(dtype) for part in (weight, bias, mean, variance)]


# Quick: the ends and each fourth; samples have other ranks.
@thinned(("shape", "dtype"), CASES, every=4)
def test_batch_norm_with_running_statistics(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, (weight, bias, mean, variance) = torch.randn(shape).to(dtype), _channels(dtype)
    rest = (mean, variance, False, 0.1, 1e-5)
    # Constants are folded; inputs are not.
    assert converted("aten.batch_norm.default", x, weight, bias, *rest, True, dynamic=True, constants=True) > 1
    assert converted("aten.batch_norm.default", x, weight, None, *rest, True, dynamic=True, shared=True) > 1
    name = "aten._native_batch_norm_legit_no_training.default"
    assert converted(name, x, None, bias, mean, variance, 0.1, 1e-5, constants=True, read=(0,), target="8.6") == 1
    name = "aten._batch_norm_no_update.default"
    assert converted(name, x, weight, bias, mean, variance, 0.1, 1e-5, constants=True, read=(0,)) == 1


# Quick: the ends; ranks between them are quick with running statistics.
@thinned(("shape", "dtype"), CASES, every=9)
def test_batch_norm_with_statistics_of_the_batch(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, (weight, bias, mean, variance) = torch.randn(shape).to(dtype), _channels(dtype)
    options = {"dynamic": True, "constants": True}
    rest = (None, None, True, 0.1, 1e-5, True)
    assert converted("aten.batch_norm.default", x, weight, bias, *rest, **options) > 1
    assert converted("aten._native_batch_norm_legit.no_stats", x, None, bias, True, 0.1, 1e-5, **options) > 1
    name = "aten._native_batch_norm_legit_functional.default"
    assert converted(name, x, weight, bias, mean, variance, True, 0.1, 1e-5, **options, read=(0, 1, 2)) > 1
    if dtype is torch.float32:  # for float16 torch's own trace states float32 statistics
        assert converted(name, x, weight, bias, mean, variance, True, 0.1, 1e-5, **options) > 1
        assert converted(name, x, weight, bias, mean, variance, False, 0.1, 1e-5, **options, read=(0, 3, 4)) > 1


def test_what_updates_statistics_in_place_is_refused() -> None:
    x, (weight, bias, mean, variance) = torch.randn(2, 3, 5), _channels(torch.float32)
    refused = {"constants": True, "refused": "running-statistics"}
    converted("aten.batch_norm.default", x, weight, bias, mean, variance, True, 0.1, 1e-5, True, **refused)
    converted("aten.instance_norm.default", x, weight, bias, mean, variance, True, 0.1, 1e-5, True, **refused)


# Quick: the ends, as above.
@thinned(("shape", "dtype"), [case for case in CASES if len(case.values[0]) > 2], every=3)
def test_instance_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, (weight, bias, mean, variance) = torch.randn(shape).to(dtype), _channels(dtype)
    name, rest, options = "aten.instance_norm.default", (0.1, 1e-5, True), {"dynamic": True, "constants": True}
    assert converted(name, x, weight, bias, None, None, True, *rest, **options) > 1
    assert converted(name, x, None, None, None, None, True, *rest, **options) > 1
    assert converted(name, x, weight, None, mean, variance, False, *rest, **options, target="8.6") > 1


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("target", OLD_THEN_NEW)
def test_group_norm(groups: int, target: str) -> None:
    """Channels are known, all else is not; 8.6 has no layer with one scale for each channel."""
    x, weight, bias = torch.randn(2, 6, 5, 4), torch.randn(6), torch.randn(6)
    for args in ((weight, bias), (weight, None), (None, None)):
        assert converted("aten.group_norm.default", x, groups, *args, constants=True, target=target) == 1
    half = (x.half(), groups, weight.half(), bias.half())
    assert converted("aten.group_norm.default", *half, constants=True, target=target) == 1
    assert converted("aten.group_norm.default", x[:, :, 0, 0], groups, weight, constants=True, target=target) == 1
    if groups == 1:
        assert converted("aten.group_norm.default", x, 1, weight, bias, dynamic=True, constants=True) == 4


def test_group_norm_of_channels_that_only_a_guard_makes_a_multiple() -> None:
    assert converted("aten.group_norm.default", torch.randn(2, 6, 5), 2, dynamic=True) >= 1


def test_rms_norm() -> None:
    x = torch.randn(2, 5, 8)
    assert converted("aten.rms_norm.default", x.half(), [8], torch.randn(8).half(), constants=True) == 1
    assert converted("aten._fused_rms_norm.default", x, [8], torch.randn(8), 1e-6, constants=True) == 1
    assert converted("aten._fused_rms_norm.default", x, [5, 8], None, None, constants=True, target="8.6") == 1


def test_a_layer_norm_whose_weights_are_wider_than_its_input() -> None:
    x, weight = torch.randn(2, 5, 8).half(), torch.randn(8)
    assert converted("aten.layer_norm.default", x, [8], weight, weight, constants=True) == 1
    assert converted("aten.native_layer_norm.default", x.float(), [5, 8], None, None, 1e-5) == 1
    converted("aten.layer_norm.default", x, [8], None, None, -1e-5, refused="negative-epsilon")
    assert converted("aten.layer_norm.default", x, [8], None, None, 0.0, dynamic=True) == 4
