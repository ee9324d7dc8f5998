"""Ops that move, cut, join, pad and create, on torch's samples of them and on calls written out here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.convert.op_check import check_op
from tests.convert.op_samples import Sample, opinfo_samples, overload
from trtdiag.convert.registry import converters

FAMILIES = {"reshape", "permute", "repeat", "slice", "split", "join", "flip", "pixels", "diagonal", "pad"}
FAMILIES |= {"creation", "ranges"}
DTYPES = (torch.float32, torch.float16, torch.int64, torch.bool)
MOST = 40
"""Samples for each op and dtype; some ops have hundreds."""

# The OpInfos whose samples call an overload, where they have another name than the op.
INFOS = {
    "aten.constant_pad_nd.default": ("constant_pad_nd", "nn.functional.pad"),
    "aten._pad_circular.default": ("nn.functional.pad",),
    "aten.im2col.default": ("nn.functional.unfold",),
    "aten._unsafe_view.default": ("view",),
    "aten._reshape_copy.default": ("view",),
    **{
        f"aten.{kind}_pad{n}d.default": ("nn.functional.pad",)
        for kind in ("reflection", "replication")
        for n in (1, 2, 3)
    },
}

# What samples are refused for, and why that is right.
REFUSED = {
    # The samples give a tensor for a number, which an exported call never does.
    "aten.narrow.default": {"argument-kind"},
    "aten.narrow_copy.default": {"argument-kind"},
    # Places in a tensor: the data decides the sizes, and nothing says the greatest.
    "aten.tensor_split.indices": {"argument-kind", "unbounded-size"},
    "aten.tensor_split.sections": {"argument-kind"},
    # TensorRT's deconvolution takes floats only, and its kernel has as many channels as are known at compile time.
    "aten.col2im.default": {"dtype"},
    # A tensor without dims has windows in PyTorch.
    "aten.unfold.default": {"rank"},
    "aten.unfold_copy.default": {"rank"},
    # PyTorch rounds integers in each step, in an order of its own.
    "aten.linspace.Tensor_Tensor": {"dtype"},
    "aten.linspace.Tensor_Scalar": {"dtype"},
    "aten.linspace.Scalar_Tensor": {"dtype"},
}


def _x(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randint(0, 9, shape).to(dtype)


# Calls of overloads that no sample makes.
WRITTEN: dict[str, Callable[[torch.dtype], list[tuple[Any, ...]]]] = {
    "aten._reshape_alias.default": lambda d: [(_x(d, 3, 5), [5, 3], [3, 1])],
    "aten.adjoint.default": lambda d: [(_x(d, 3, 5, 7),)],
    "aten.matrix_H.default": lambda d: [(_x(d, 3, 5),)],
    "aten.numpy_T.default": lambda d: [(_x(d, 3, 5, 7),), (_x(d),)],
    "aten.swapaxes.default": lambda d: [(_x(d, 3, 5, 7), 0, -1)],
    "aten.swapdims.default": lambda d: [(_x(d, 3, 5, 7), 1, -1)],
    "aten.movedim.int": lambda d: [(_x(d, 3, 5, 7), 0, -1), (_x(d, 3, 5, 7), -1, 0)],
    "aten.moveaxis.int": lambda d: [(_x(d, 3, 5, 7), -1, 1)],
    "aten.moveaxis.intlist": lambda d: [(_x(d, 3, 5, 7, 2), [0, 1], [-1, 0])],
    "aten.broadcast_tensors.default": lambda d: [([_x(d, 3, 1), _x(d, 5)],)],
    "aten.meshgrid.default": lambda d: [([_x(d, 3), _x(d), _x(d, 5)],)],
    "aten.concat.default": lambda d: [([_x(d, 3, 5), _x(d, 2, 5)],)],
    "aten.concatenate.default": lambda d: [([_x(d, 3, 5), _x(d, 3, 2)], -1)],
    "aten.copy.default": lambda d: [(_x(torch.float32, 3, 5), _x(d, 5)), (_x(d, 3, 5), _x(torch.int64))],
    "aten.fill.Tensor": lambda d: [(_x(d, 3, 5), _x(torch.float32))],
    "aten.col2im.default": lambda d: [
        (_x(d, 3, 12, 20), [5, 6], [2, 2], [1, 1], [0, 0], [1, 1]),
        (_x(d, 12, 9), [7, 8], [3, 2], [2, 3], [1, 2], [2, 3]),
    ],
    "aten.lift.default": lambda d: [(_x(d, 3, 5),)],
    "aten.native_channel_shuffle.default": lambda d: [(_x(d, 3, 6, 5, 7), 3)],
    "aten.unsafe_split_with_sizes.default": lambda d: [(_x(d, 3, 7), [2, 5], 1)],
}


def _infos(op: str) -> tuple[str, ...]:
    if op in INFOS:
        return INFOS[op]
    name = op.split(".")[1]
    same = {name, name.removeprefix("_"), f"{name}_copy", name.removesuffix("_copy")}
    return tuple(sorted({info.name for info in op_db if info.name.rpartition(".")[2] in same}))


def _samples(op: str, dtype: torch.dtype) -> Iterator[Sample]:
    found = overload(op)
    assert found is not None
    yield from (Sample(found, args, {}) for args in WRITTEN[op](dtype)) if op in WRITTEN else ()
    yield from opinfo_samples(op, _infos(op), dtype, MOST)


def _ops() -> list[str]:
    return [op for op, found in converters().items() if found.family in FAMILIES and overload(op) is not None]


def _same_type(expected: torch.Tensor, actual: torch.Tensor) -> None:
    assert (expected.shape, expected.dtype) == (actual.shape, actual.dtype)


def _is_converted(op: str, sample: Sample, dynamic: bool, target: str = "11.4") -> bool:
    """Whether the sample was converted and compared; it may be refused for no reason but those above."""
    # What an empty tensor holds is not defined.
    compare = _same_type if "empty" in op else None
    outcome = check_op(sample.op, sample.args, sample.kwargs, dynamic=dynamic, target=target, compare=compare)
    codes = {limit.code for limit in outcome.limits.values()}
    # Some samples ask for float64.
    assert codes <= REFUSED.get(op, set()) | {"double-precision"}, f"{sample}: {outcome.limits}"
    return not codes


# Quick: one of both, in turn, or the other where that is refused.
@pytest.mark.parametrize(("at", "op"), list(enumerate(_ops())))
def test_a_sample(at: int, op: str) -> None:
    torch.manual_seed(0)
    both = ((torch.float32, False), (torch.int64, True))[:: -1 if at % 2 else 1]
    assert any(_is_converted(op, sample, dynamic) for dtype, dynamic in both for sample in _samples(op, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("op", _ops())
def test_a_sample_of_each_dtype(op: str) -> None:
    torch.manual_seed(0)
    converted = [
        any(_is_converted(op, sample, dynamic) for sample in _samples(op, dtype))
        for dtype, dynamic in ((torch.float32, False), (torch.bool, True), (torch.int64, True))
    ]
    assert any(converted), f"no sample of {op} is converted"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["8.6", "11.4"])
@pytest.mark.parametrize("op", _ops())
def test_all_samples(op: str, target: str) -> None:
    torch.manual_seed(0)
    for dtype in DTYPES:
        for sample in _samples(op, dtype):
            for dynamic in (False, True):
                _is_converted(op, sample, dynamic, target)
