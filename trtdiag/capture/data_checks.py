"""Which ``torch._check`` lines an export needs where only data decides a size: all of them, from one call."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trtdiag.capture.data_assuming import assuming
from trtdiag.capture.data_found import CheckRecorder
from trtdiag.capture.data_values import example_values, quiet
from trtdiag.capture.data_wording import NeededCheck
from trtdiag.capture.failure import export_failure

__all__ = ["DataChecks", "NeededCheck", "needed_checks"]


@dataclass(frozen=True)
class DataChecks:
    """The checks that a model needs, and whether the export passes with them.

    Attributes:
        checks: In the order in which the export comes to them.
        passed: Whether an export passed in which these conditions, and no others, were assumed.
        failure: Why not, in torch's words; empty where it passed.
        seconds: What all exports took.
    """

    checks: tuple[NeededCheck, ...]
    passed: bool
    failure: str
    seconds: float


def needed_checks(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    *,
    limit: int = 50,
) -> DataChecks:
    """Find every condition that torch cannot decide because a size comes from data, as true for the example inputs.

    Where torch would stop, the condition is assumed the way the example goes, as a ``torch._check`` before that line
    would do, and the export goes on.  What the example's sizes are is found first, by an export that carries real
    values along.

    Differs: ``torch.export.draft_export`` also carries real values, but records what its own comparison of real and
    symbolic sizes asks as well, and its program is not the one that the plain export gives.

    Args:
        module: The model.
        args: Its example inputs.
        kwargs: Its example inputs by name.
        dynamic_shapes: As for ``torch.export.export``.
        limit: How many checks to look for; with more the export is given up.

    Cost: two exports, a third where several conditions are said as one; the model runs once for real.
    """
    started = time.perf_counter()
    named = dict(kwargs or {})
    values = example_values(module, args, named, dynamic_shapes)
    found, failure = _assumed(module, args, named, dynamic_shapes, CheckRecorder(values, limit))
    stronger = found.lower_bounds()
    if stronger and not failure:
        merged, refused = _assumed(module, args, named, dynamic_shapes, CheckRecorder(values, limit, stronger))
        if not refused and len(merged.checks) < len(found.checks):
            found = merged
    return DataChecks(tuple(found.checks), not failure, failure, time.perf_counter() - started)


def _assumed(
    module: torch.nn.Module, args: Sequence[Any], kwargs: dict[str, Any], dynamic_shapes: Any, recorder: CheckRecorder
) -> tuple[CheckRecorder, str]:
    """The recorder after an export with its assumptions, and why that failed."""
    with assuming(recorder.decide, recorder.settled), quiet():
        try:
            torch.export.export(module, tuple(args), kwargs or None, dynamic_shapes=dynamic_shapes, strict=False)
        except Exception as error:  # torch raises anything here; the caller reads the words
            return recorder, export_failure(error, None).message or type(error).__name__
    return recorder, recorder.trouble()
