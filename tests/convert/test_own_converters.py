"""Converters of ops of one's own: what may be registered, and what is said of one that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.harness.own_converters import registered_apart
from trtdiag.convert.registry import converters
from trtdiag.converters import ActivationType, Call, Value, converter, refuse
from trtdiag.errors import UserError
from trtdiag.testing import check_converter


@torch.library.custom_op("trtdiag_tests_own::halves", mutates_args=())
def halves(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x[..., : x.shape[-1] // 2].tanh() * by


@halves.register_fake
def _(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


HERE = __name__.partition(".")[0]
"""What stands for a package where none is installed."""
SCHEMA = "trtdiag_tests_own::halves(Tensor x, float by=2.) -> Tensor"
EXAMPLE = (torch.linspace(-2, 2, 42).reshape(3, 14), 1.5)


@pytest.fixture(autouse=True)
def _apart() -> Iterator[None]:
    with registered_apart():
        yield


def written(convert: Callable[[Call], Any], schema: str = SCHEMA) -> None:
    convert.__doc__ = schema
    converter(convert)


def right(call: Call) -> Value:
    x, write = call.tensor("x"), call.write
    half = write.part(x, x.rank - 1, 0, call.out.shape[-1])
    return write.activation(ActivationType.TANH, half) * call.number("by")


@pytest.mark.parametrize(
    ("docstring", "reference", "because"),
    [
        (None, "converter-without-schema", "begins with no schema"),
        ("Writes halves.", "converter-without-schema", "'Writes halves.'"),
        ("trtdiag_tests_own::thirds(Tensor x) -> Tensor", "converter-without-op", "trtdiag_tests_own::thirds"),
        ("trtdiag_tests_own::halves(Tensor x) -> Tensor", "converter-of-another-schema", SCHEMA),
        ("aten::relu(Tensor self) -> Tensor", "converter-registered-twice", "activation"),
    ],
)
def test_what_is_no_converter_of_an_op_is_refused(docstring: str | None, reference: str, because: str) -> None:
    with pytest.raises(UserError) as refused:
        written(right, docstring)  # type: ignore[arg-type]
    assert refused.value.reference == reference
    assert because in refused.value.because


def test_two_converters_of_one_op_name_both_and_one_that_is_run_again_does_not() -> None:
    def other(call: Call) -> Value:
        return right(call)

    written(right)
    written(right)
    with pytest.raises(UserError, match=f"two converters, one of {HERE} and one of {HERE}") as refused:
        written(other)
    assert f"{__name__}.right" in refused.value.because
    assert "other" in refused.value.because
    assert converters()["trtdiag_tests_own.halves.default"].package == HERE


@pytest.mark.parametrize(
    "op",
    [halves, pytest.param(torch.ops.trtdiag_tests_own.halves.default, marks=pytest.mark.slow)],
    ids=["custom_op", "overload"],
)
def test_a_right_converter_is_compared_at_many_sizes(op: Any) -> None:
    written(right)
    checked = check_converter(op, EXAMPLE)
    assert checked.op == "trtdiag_tests_own.halves.default"
    assert checked.targets == ("8.6", "11.4")
    assert {((3, 14),), ((4, 14),), ((3, 15),), ((10, 21),), ((2, 13),), ((6, 28),)} <= set(checked.sizes)
    assert check_converter(op, EXAMPLE, dynamic=False, targets=["10.16"]).sizes == (((3, 14),),)


def _other_values(call: Call) -> Value:
    return right(call) + 1e-3


def _of_one_size(call: Call) -> Value:
    x = call.tensor("x")
    return call.write.activation(ActivationType.TANH, call.write.part(x, 1, 0, 7)) * call.number("by")


def _another_rank(call: Call) -> Value:
    return call.write.unsqueeze(right(call), [0])


def _another_dtype(call: Call) -> Value:
    return call.write.cast(right(call), call.write.index)


def _with_a_slip(call: Call) -> Value:
    return call.tensor("self")


def _refusing(call: Call) -> Value:
    raise refuse("too-cold", "it is too cold", "wait for spring")


@pytest.mark.parametrize(
    ("convert", "told"),
    [
        (None, "halves.default has no converter"),
        (_other_values, r"output 0 of trtdiag_tests_own.halves.default for TensorRT 8.6 at \(\(3, 14\),\)"),
        (_of_one_size, r"the layers give 7, the op .* not proven to be equal"),
        (
            _another_rank,
            rf"of {HERE}, wrote a wrong network: the layers give 3 dims, the op 2 \[package-converter-failed",
        ),
        (_another_dtype, "the layers give int32, the op float32"),
        (_with_a_slip, "raised KeyError: 'self'"),
        (_refusing, r"it is too cold \[too-cold\]"),
    ],
)
def test_a_wrong_converter_is_seen(convert: Callable[[Call], Value] | None, told: str) -> None:
    if convert is not None:
        written(convert)
    with pytest.raises(AssertionError, match=told):
        check_converter(halves, EXAMPLE)


def test_an_op_whose_dims_are_all_numbers_says_so() -> None:
    @torch.library.custom_op("trtdiag_tests_own::fixed", mutates_args=())
    def fixed(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @fixed.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty([int(size) for size in x.shape])

    written(lambda call: call.tensor("x") + 1, "trtdiag_tests_own::fixed(Tensor x) -> Tensor")
    with pytest.raises(AssertionError, match=r"no dim of .* stays dynamic"):
        check_converter(fixed, (torch.ones(3, 5),))
    assert len(check_converter(fixed, (torch.ones(3, 5),), dynamic=False).sizes) == 1
