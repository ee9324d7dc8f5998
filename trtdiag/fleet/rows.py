"""The rows of the table: what the steps of each case found, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trtdiag.fleet.facts import (
    CRASHED,
    FAILED,
    KILLED,
    NOT_RUN,
    TIMED_OUT,
    Built,
    Case,
    Diagnosis,
    Failure,
    FixedDims,
    Measured,
    StepResult,
    needs_program,
    stops,
)
from trtdiag.fleet.store import read_measured, read_result, relative
from trtdiag.wording import one_line

DIFFERS = "differs"
STATES = (CRASHED, KILLED, TIMED_OUT, NOT_RUN, FAILED, DIFFERS, "error", "incomplete", "warning", "clean")
"""Of rows, the worst first."""
_REFUSED = "DiagnosisError"


@dataclass(frozen=True)
class Row:
    """A case in the table: what its steps found, put together.

    Attributes:
        program: Its name.
        source: As it was given.
        state: The worst of all: ``crashed``, ``killed``, ``timed out``, ``not run``, ``failed``, ``differs``,
            ``error``, ``incomplete``, ``warning`` or ``clean``.
        text: That in one line.
        steps: State of each step by name.
        keys: Folder of each step by name.
        diagnosis: Of the program as it was given; of the compilation where it was not analyzed apart.
    """

    program: str
    source: str
    target: str
    precision: str
    gpu: str
    gpu_type: str
    state: str
    text: str
    steps: Mapping[str, str]
    keys: Mapping[str, str]
    failure: Failure | None
    diagnosis: Diagnosis | None
    fixed: FixedDims | None
    built: Built | None
    compared: str | None
    reports: Mapping[str, str]

    @property
    def id(self) -> tuple[str, ...]:
        """What makes it the same row in another sweep."""
        return (self.program, self.target, self.precision, self.gpu, self.gpu_type)

    @property
    def label(self) -> str:
        """The program with its variant."""
        return ", ".join(filter(None, self.id))


def row_of(root: Path, case: Case) -> Row:
    """A case as a row."""
    found: dict[str, StepResult | None] = {step.name: read_result(root, step.key) for step in case.steps}
    keys = {step.name: step.key for step in case.steps}
    states: dict[str, str] = {}
    why = ""
    for step in case.steps:
        result = found[step.name]
        if result is None or (why and needs_program(step)):
            states[step.name], found[step.name] = NOT_RUN, None
        else:
            states[step.name] = result.state
            why = why or stops(result)
    there = [result for result in found.values() if result is not None]
    analyzed = [result for result in there if result.diagnosis is not None]
    state, text = _outcome(there, complete=len(there) == len(case.steps) or bool(why))
    return Row(
        program=case.program.name,
        source=case.program.source,
        target=case.variant.target,
        precision=case.variant.precision,
        gpu=case.variant.gpu,
        gpu_type=case.variant.gpu_type,
        state=state,
        text=text,
        steps=states,
        keys=keys,
        failure=next((result.failure for result in there if result.failure is not None), None),
        diagnosis=analyzed[0].diagnosis if analyzed else None,
        fixed=next((result.fixed for result in there if result.fixed is not None), None),
        built=next((result.built for result in there if result.built is not None), None),
        compared=_compared(there),
        reports={result.step: relative(keys[result.step], result.report) for result in there if result.report},
    )


def _compared(results: list[StepResult]) -> str | None:
    """What comparing with the original said; ``None`` where that was no step."""
    built = [result.built.compared for result in results if result.built is not None]
    return next((result.compared for result in results if result.compared is not None), built[0] if built else None)


def _outcome(results: list[StepResult], *, complete: bool) -> tuple[str, str]:
    """The worst state of a row, in words."""
    told = list(_states(results))
    if not complete:
        told.append((NOT_RUN, "its steps were not all run"))
    return min(told, key=lambda each: STATES.index(each[0]), default=(NOT_RUN, "it was not run"))


def _states(results: list[StepResult]) -> Iterator[tuple[str, str]]:
    corrected = any(result.fixed is not None and result.fixed.file for result in results)
    compiled = any(result.step == "compile" and result.diagnosis is not None for result in results)
    for result in results:
        # What was compiled is the corrected program: what was wrong with the one that was given is no more.
        if result.diagnosis is not None and not (result.step == "analyze" and corrected and compiled):
            yield result.diagnosis.status, result.diagnosis.text
        compared = result.compared or (None if result.built is None else result.built.compared)
        if compared == DIFFERS:
            yield DIFFERS, "the compiled program gives something else than the original"
        if result.failure is not None:
            refused = result.failure.kind == _REFUSED and result.state == FAILED
            words = _words(result.step, result.failure)
            yield "error" if refused else result.state, words
        fixed = result.fixed
        if fixed is not None and (fixed.outcome == "impossible" or _is_another(fixed)):
            yield "error", f"fix-dims: {fixed.text}"


def _is_another(fixed: FixedDims) -> bool:
    """Whether fix-dims found nothing to change of a program that is not its model."""
    return fixed.outcome == "unchanged" and fixed.exported is False


def _words(step: str, failure: Failure) -> str:
    """A failure in one line."""
    because = f": {failure.because}" if failure.because else ""
    return one_line(f"{step}: {failure.message}{because}")


def measured_of(root: Path, case: Case) -> dict[str, Measured]:
    """What was measured of each step, by name."""
    found = {step.name: read_measured(root, step.key) for step in case.steps}
    return {name: measured for name, measured in found.items() if measured is not None}
