"""``sweep``: the cases that are missing are run, and what all of them found is put together."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtdiag.fleet.cases import cases_of
from trtdiag.fleet.crew import Crew, Ended, RayCrew
from trtdiag.fleet.digests import Digests
from trtdiag.fleet.facts import CRASHED, DONE, KILLED, TIMED_OUT, Case, Failure, Measured, Needs, Step
from trtdiag.fleet.options import SweepOptions
from trtdiag.fleet.programs import read_programs
from trtdiag.fleet.server_client import job_of
from trtdiag.fleet.store import Known, drop, ended, keeping, prepared, write_result

_WAIT_S = 1.0
"""How long to wait for a case before Ctrl-C and what is shown are looked at."""


@dataclass(frozen=True)
class Standing:
    """How far a sweep is.

    Attributes:
        done: Cases that are through, those of earlier runs among them.
        total: All cases.
        known: Those of earlier runs.
        failed: Labels of cases that did not come to their end, with why.
        waits_for: What cases wait for that is not there; empty where all of them can run.
    """

    done: int
    total: int
    known: int
    failed: tuple[tuple[str, str], ...] = ()
    waits_for: str = ""


Watch = Callable[[Standing], None]


@dataclass
class Work:
    """The cases that are to be done, and those that are done now.

    Args:
        root: The folder of the sweep.
        cases: All of them.
        known: Which steps are done.
        retries: How often a case is begun again whose process was ended.
        watch: Told how far it is.
    """

    root: Path
    cases: Sequence[Case]
    known: Known
    retries: int
    watch: Watch
    _waiting: deque[int] = field(default_factory=deque)
    _running: dict[int, list[Step]] = field(default_factory=dict)
    _begun: dict[int, int] = field(default_factory=dict)
    _failed: list[tuple[str, str]] = field(default_factory=list)
    _of_before: int = 0
    _waits_for: str = ""

    def __post_init__(self) -> None:
        """Find out what is missing."""
        self._waiting.extend(number for number, case in enumerate(self.cases) if self.known.missing(case))
        self._of_before = len(self.cases) - len(self._waiting)
        self._tell()

    @property
    def left(self) -> bool:
        """Whether something is still to be done."""
        return bool(self._waiting or self._running)

    def run(self, crew: Crew) -> None:
        """Do what is missing.

        Raises:
            PlatformError: What the crew raises.
        """
        while self.left:
            self._begin(crew)
            waits_for = crew.waits_for()
            if waits_for != self._waits_for:
                self._waits_for = waits_for
                self._tell()
            for number, how in crew.ended(_WAIT_S) if self._running else ():
                self._end(number, how)
                self._tell()

    def _begin(self, crew: Crew) -> None:
        """Hand out cases, but none with a step that another one is doing."""
        busy = {step.key for steps in self._running.values() for step in steps}
        room: dict[Needs, int] = {}
        for _ in range(len(self._waiting)):  # what is put off goes behind the others, so that all keep their order
            number = self._waiting.popleft()
            needs = self.cases[number].needs
            if needs not in room:
                room[needs] = crew.room(needs)
            if room[needs] < 1:
                self._waiting.append(number)
                continue
            missing = self.known.missing(self.cases[number])
            if not missing:  # another case had the same steps
                self._tell()
                continue
            if busy & {step.key for step in missing}:
                self._waiting.append(number)
                continue
            case = self.cases[number]
            crew.begin(number, job_of(self.root, case, [step.key for step in missing]), needs)
            self._running[number] = missing
            busy |= {step.key for step in missing}
            room[needs] -= 1

    def _end(self, number: int, how: Ended) -> None:
        missing, case = self._running.pop(number), self.cases[number]
        state = how["state"]
        if state == DONE:
            return
        times = self._begun[number] = self._begun.get(number, 0) + 1
        if state in (CRASHED, KILLED) and times <= self.retries:
            self._waiting.append(number)
            return
        step = next((each for each in missing if each.key == how["step"]), None)
        if step is None:  # before it told of one, or with the server that would have heard it
            step = (self.known.missing(case) or missing)[0]
        failure = _failure(how, case, step, times)
        result = ended(step, state, failure, case)
        write_result(self.root, step.key, result, Measured(float(how["seconds"]), 0.0, 0.0, ""))
        self._failed.append((case.label, failure.message))

    def _tell(self) -> None:
        done = len(self.cases) - len(self._waiting) - len(self._running)
        self.watch(Standing(done, len(self.cases), self._of_before, tuple(self._failed), self._waits_for))


def _failure(how: Ended, case: Case, step: Step, times: int) -> Failure:
    """Why a case did not come to its end."""
    if how["state"] == TIMED_OUT:
        return Failure(
            TIMED_OUT,
            f"it took longer than {case.time_limit_s:g} s",
            f"that is the limit of all its steps, and {step.name} was ended",
            "give it more: --time-limit, or time-limit in the manifest",
            "sweep-time-limit",
        )
    by = f"signal {how['signal']} ended it" if how["signal"] else f"it ended with code {how['code']}"
    if how["state"] == KILLED:
        why = "the system did it, as where memory runs out, or somebody"
        fix = "give a task more memory: --memory, fewer workers; the next run tries it again"
    else:
        why = "a library crashed, or the model's code called for the end of the process"
        fix = f"run it alone: trtdiag {step.name} {case.program.source}; --retry-failed tries it again"
    often = f" each of {times} times" if times > 1 else ""
    return Failure(how["state"], "its process was ended", f"{by}{often}: {why}", fix, "sweep-crash")


@dataclass(frozen=True)
class Swept:
    """What a sweep did: its folder, the cases in their order, and how it was asked for."""

    root: Path
    cases: tuple[Case, ...]
    options: SweepOptions


def run_sweep(
    sources: Sequence[Any],
    folder: str | os.PathLike[str],
    given: Mapping[str, Any],
    watch: Watch,
) -> Swept:
    """Run all cases that are missing.

    Args:
        sources: Programs, and manifests of programs.
        folder: Of the sweep.
        given: Fields of ``SweepOptions`` that count instead of those in manifests.
        watch: Told how far it is.

    Raises:
        UserError: A source or option is wrong, or the folder cannot be used.
        PlatformError: Ray is not there, its workers cannot run programs, or the folder cannot be written.
    """
    SweepOptions(**given)  # a wrong one is told before anything is read
    programs, asked, own = read_programs(sources)
    options = SweepOptions(**{**asked, **given, "options": {**own, **given.get("options", {})}})
    root = prepared(Path(folder))
    digests = Digests(root / "digests.json")
    cases = cases_of(programs, options, digests)
    with keeping(root):
        digests.keep()
    if options.again:
        drop(root, (step.key for case in cases for step in case.steps))
    work = Work(root, cases, Known(root, digests, retry_failed=options.retry_failed), options.retries, watch)
    if work.left:
        crew = RayCrew(options.address, options.workers)
        try:
            work.run(crew)
        finally:
            crew.close()
    return Swept(root, cases, options)
