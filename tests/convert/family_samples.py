"""Runs the samples of a family of converters from a table, static and dynamic, and says what became of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.convert.op_check import check_op
from tests.convert.op_samples import opinfo_samples, overload
from trtdiag.convert.registry import converters

# Of the greatest element, since sums of products cancel: 11 bits (float16) or 24 (float32), and a few roundings.
NEAR = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Row:
    """How to test one overload.

    Attributes:
        infos: The OpInfos that have samples of it.
        refused: Codes of limits that samples may meet.
        dtypes: Those that PyTorch takes.
        constants: Whether all tensors but the first are weights of the program.
        shared: Whether equal sizes are one symbol.
        read: Which outputs are read.
        near: Of the greatest element, by dtype; in the place of ``NEAR``.
    """

    infos: tuple[str, ...]
    refused: Collection[str] = ()
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float16)
    constants: bool = False
    shared: bool = False
    read: Collection[int] | None = None
    near: Mapping[torch.dtype, float] = field(default_factory=dict)


def near(limits: Mapping[torch.dtype, float] | None = None) -> Any:
    """A comparison within a part of the greatest finite element."""

    def compare(expected: torch.Tensor, actual: torch.Tensor) -> None:
        part = {**NEAR, **(limits or {})}.get(expected.dtype, 0.0)
        finite = expected[expected.isfinite()].abs().float() if expected.is_floating_point() else torch.zeros(0)
        most = max(1.0, float(finite.max())) if finite.numel() else 1.0
        torch.testing.assert_close(actual, expected, rtol=0.0, atol=part * most, equal_nan=True)

    compare.limits = dict(limits or {})  # type: ignore[attr-defined]  # for who compares another engine
    return compare


def check_row(
    name: str, row: Row, most: int, target: str, *, dynamic: bool, dtypes: int | None = None
) -> tuple[int, int]:
    """How many samples were converted and compared, and how many refused with a code of the row.

    With ``dtypes``, of the first so many of the row's only: what is dynamic in one is so in all, and the slow tests
    take them all.
    """
    compared = refused = 0
    for dtype in row.dtypes[:dtypes]:
        for sample in opinfo_samples(name, row.infos, dtype, most):
            outcome = check_op(
                sample.op,
                sample.args,
                sample.kwargs,
                dynamic=dynamic,
                target=target,
                compare=near(row.near),
                constants=row.constants,
                shared=row.shared,
                read=row.read,
            )
            codes = {limit.code for limit in outcome.limits.values()}
            assert codes <= set(row.refused), f"{sample}: {[limit.why for limit in outcome.limits.values()]}"
            compared += not codes
            refused += bool(codes)
    return compared, refused


def missing(families: Collection[str], named: Collection[str]) -> list[str]:
    """The converters of some families that no table names and this torch has."""
    found = [name for name, converter in converters().items() if converter.family in families]
    return sorted(name for name in found if name not in named and overload(name) is not None)


def converted(name: str, *args: Any, refused: str | None = None, **options: Any) -> int:
    """Check one call for a target and of static or dynamic sizes; how many sets of sizes were compared."""
    op = overload(name)
    assert op is not None
    kwargs = options.pop("kwargs", {})
    options.setdefault("compare", near(options.pop("near", None)))
    outcome = check_op(op, args, kwargs, **options)
    codes = {limit.code for limit in outcome.limits.values()}
    assert codes == ({refused} if refused else set()), [limit.why for limit in outcome.limits.values()]
    return outcome.sizes
