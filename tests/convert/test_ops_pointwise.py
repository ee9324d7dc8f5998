"""Ops that work element by element, on torch's own samples."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch

from tests.convert.op_check import check_op
from tests.convert.op_samples import Sample, opinfo_samples, overload
from tests.convert.pointwise_table import TABLE, Row
from tests.harness.logged import Logged
from tests.random_cases import all_is_run, some

DTYPES = (torch.float32, torch.float16, torch.int64, torch.bool)
# torch has no rule for the sizes of these when dynamic operands broadcast.
UNTRACED = "SymIntArrayRef expected to contain only concrete integers"


def samples(row: Row, dtype: torch.dtype, most: int) -> Iterator[Sample]:
    """Calls of the row's overload; with numbers, those that PyTorch takes."""
    if not row.numbers:
        yield from opinfo_samples(row.op, row.infos, dtype, most)
        return
    op = overload(row.op)
    assert op is not None
    for index, first in enumerate(_first_operands(row, dtype, most)):
        # Every number once with some tensor; all of them with every tensor would only repeat.
        for number in row.numbers[index % 2 :: 2] if most > 1 else row.numbers[: 1 + dtype.is_floating_point]:
            args = (number, first) if row.number_first else (first, number)
            try:
                op(*args)
            except (RuntimeError, ValueError, NotImplementedError):
                continue
            yield Sample(op, args, {})


def _first_operands(row: Row, dtype: torch.dtype, most: int) -> Iterator[torch.Tensor]:
    for name in ("Tensor", "default", "Tensor_Tensor"):
        base = row.op.rsplit(".", 1)[0].replace("__and__", "bitwise_and").replace("__or__", "bitwise_or")
        base = base.replace("__xor__", "bitwise_xor").replace("__lshift__", "bitwise_left_shift")
        base = base.replace("__rshift__", "bitwise_right_shift")
        for sample in opinfo_samples(f"{base}.{name}", row.infos, dtype, most):
            yield sample.args[0]


def _check(row: Row, sample: Sample, *, dynamic: bool, target: str = "11.4") -> bool:
    """Whether it was compared or refused as the table says; false where torch itself cannot trace it."""
    try:
        outcome = check_op(sample.op, sample.args, sample.kwargs, dynamic=dynamic, target=target)
    except RuntimeError as error:
        if dynamic and UNTRACED in str(error):
            return False
        raise
    codes = {limit.code for limit in outcome.limits.values()}
    assert codes <= row.refused, f"{sample}: {outcome.limits}"
    return True


@pytest.fixture(autouse=True)
def _quiet(logged: Logged) -> Iterator[None]:
    """torch logs what it cannot trace before it raises."""
    with logged.at_level(logging.CRITICAL, "torch._subclasses.fake_tensor"):
        yield


# Quick: floats or integers, in turn, or the other where PyTorch takes one alone.
@pytest.mark.parametrize(("at", "row"), list(enumerate(TABLE)), ids=[row.op for row in TABLE])
def test_a_sample_of_each_dtype(at: int, row: Row) -> None:
    count = 0
    for dtype in some(DTYPES, 2)[:: -1 if at % 2 else 1]:
        if count and not all_is_run():
            break
        for index, sample in enumerate(samples(row, dtype, 1)):
            dynamic = dtype is torch.float32 and index == 0
            count += _check(row, sample, dynamic=dynamic) or _check(row, sample, dynamic=False)
    assert count


@pytest.mark.slow
@pytest.mark.parametrize("target", ["8.6", "11.4"])
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.op)
def test_all_samples(row: Row, target: str) -> None:
    converted = 0
    for dtype in DTYPES:
        for sample in samples(row, dtype, 4):
            for dynamic in (False, True):
                converted += _check(row, sample, dynamic=dynamic, target=target)
    assert converted
