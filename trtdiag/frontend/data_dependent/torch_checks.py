"""Which ``torch._check`` lines an export needs where only data decides a size: all of them, from one call."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from trtdiag.frontend.data_dependent.assume import assuming
from trtdiag.frontend.data_dependent.conditions import CheckRecorder
from trtdiag.frontend.data_dependent.example_values import DataValues, example_values, quiet
from trtdiag.frontend.data_dependent.wording import NeededCheck
from trtdiag.frontend.failed_export import export_failure

__all__ = ["DataChecks", "NeededCheck", "assumed_checks", "example_values", "needed_checks"]


MOST_CHECKS = 50


@dataclass(frozen=True)
class DataChecks:
    """The checks that a model needs, and whether the export passes with them.

    Attributes:
        checks: In the order in which the export comes to them.
        passed: Whether an export passed in which these conditions, and no others, were assumed.
        failure: Why not, in torch's words; empty where it passed.
        seconds: What all exports took.
        traced: Whether the whole model was traced, so that no check is missing: true also where only the dims were
            refused afterwards.
    """

    checks: tuple[NeededCheck, ...]
    passed: bool
    failure: str
    seconds: float
    traced: bool


def needed_checks(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    *,
    limit: int = MOST_CHECKS,
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

    def attempt(lower_bounds: Mapping[str, int]) -> tuple[CheckRecorder, str, bool]:
        """One export with the assumptions of a recorder, why it failed, and whether it was traced to its end."""
        recorder = CheckRecorder(values, limit, lower_bounds)
        with assuming(recorder.decide, recorder.settled), quiet():
            try:
                torch.export.export(module, args, named or None, dynamic_shapes=dynamic_shapes, strict=False)
            except Exception as error:  # torch raises anything here; the caller reads the words
                failed = export_failure(error, None)
                return recorder, failed.message or failed.error_type, failed.traced
        return recorder, recorder.trouble(), True

    recorder, failure, traced = attempt({})
    lower_bounds = recorder.lower_bounds()
    if lower_bounds and not failure:
        merged, still_fails, _ = attempt(lower_bounds)
        if not still_fails and len(merged.checks) < len(recorder.checks):
            recorder = merged
    return DataChecks(tuple(recorder.checks), not failure, failure, time.perf_counter() - started, traced)


@contextmanager
def assumed_checks(values: DataValues) -> Iterator[CheckRecorder]:
    """Let exports inside this context go on as with the checks written into the model; the recorder has the checks.

    Args:
        values: The example's sizes, from ``example_values``.
    """
    recorder = CheckRecorder(values, MOST_CHECKS)
    with assuming(recorder.decide, recorder.settled):
        yield recorder
