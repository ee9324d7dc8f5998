"""The steps of a case, in a process of their own."""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import trtdiag.fleet.digests as digests
from trtdiag.errors import DiagnosisError
from trtdiag.fixdims.run import fix_dims
from trtdiag.fleet.diagnosis import built_of, compared_of, diagnosis_of, failure_of, fixed_of, usable
from trtdiag.fleet.facts import DONE, FAILED, FORMS, Case, Measured, Step, StepResult, needs_program, stops
from trtdiag.fleet.same_machine import require_same
from trtdiag.fleet.store import (
    DEPENDS,
    folder_of,
    keeping,
    not_writable,
    of_the_disk,
    read_result,
    safe_name,
    write_json,
    write_result,
)
from trtdiag.frontend.resolve_source import resolve_source
from trtdiag.frontend.user_code import imported
from trtdiag.frontend.written_inputs import written_inputs
from trtdiag.options import CompileOptions, with_changes
from trtdiag.pipeline.analyze import analyze
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.verify import verify_saved
from trtdiag.report.fix_json import json_fix
from trtdiag.report.fix_module import save_program
from trtdiag.report.format_names import SUFFIXES
from trtdiag.report.report import Report
from trtdiag.report.save import write_atomically
from trtdiag.verification.facts import Verification

_KIB = 1024
_SUFFIX = ".pt2"


@dataclass(frozen=True)
class _Made:
    """What a step found, and what of that differs from run to run."""

    result: StepResult
    points: int | None = None
    worst: float | None = None
    ms: Mapping[str, float] | None = None


class CaseRun:
    """Runs the steps of a case, one after another; each is there when it is done.

    Args:
        root: The folder of the sweep.
        case: What to do.
        missing: The keys of the steps that are to be done; of the others the results are there.
        begins: Called with the key of each step as it begins.
    """

    def __init__(self, root: Path, case: Case, missing: frozenset[str], begins: Callable[[str], None]) -> None:
        self._root = root
        self._case = case
        self._missing = missing
        self._begins = begins
        self._source: Any = None
        self._corrected: Path | None = None
        self._compiled: Path | None = None
        self._before = dict(sys.modules)

    def run(self) -> None:
        """Do what is missing.

        Raises:
            PlatformError: ``sweep-not-writable``.
        """
        why = ""
        for step in self._case.steps:
            if why and needs_program(step):
                continue
            known = read_result(self._root, step.key) if step.key not in self._missing else self._done(step)
            if known is not None:
                self._take(step, known)
                why = why or stops(known)

    def _done(self, step: Step) -> StepResult:
        """Do a step and keep what it found."""
        self._begins(step.key)
        folder = folder_of(self._root, step.key)
        with keeping(self._root):
            folder.mkdir(parents=True, exist_ok=True)
        began, cpu_s = time.perf_counter(), _cpu_s()
        made = self._made(step)
        seconds, cpu_s = time.perf_counter() - began, _cpu_s() - cpu_s
        measured = Measured(seconds, cpu_s, _peak_mib(), platform.node(), made.points, made.worst, made.ms or {})
        with keeping(self._root):
            write_json(folder / DEPENDS, self._depends())
        write_result(self._root, step.key, made.result, measured)
        return made.result

    def _made(self, step: Step) -> _Made:
        doing = {
            "analyze": self._analyze,
            "fix-dims": self._fix_dims,
            "compile": self._compile,
            "verify": self._verify,
            "bench": self._bench,
        }
        try:
            return doing[step.name](step)
        except Exception as error:  # whatever a program does is a row of the table
            why = of_the_disk(error)
            if why is not None:
                raise not_writable(self._root, why) from error
            return _Made(StepResult(step.name, FAILED, failure_of(error)))

    def _take(self, step: Step, result: StepResult) -> None:
        """Note the programs that the steps after it take."""
        folder = folder_of(self._root, step.key)
        if result.fixed is not None and result.fixed.file:
            self._corrected = folder / result.fixed.file
        if result.built is not None and result.built.file:
            self._compiled = folder / result.built.file

    def _given(self) -> Any:
        """The program as it was given, after the modules that it needs."""
        program = self._case.program
        for name in program.imports:
            imported(name, "imports", "import-failed")
        inputs = written_inputs(program.inputs) if program.inputs else None
        return resolve_source(program.source, inputs, meta=program.meta, unpickle=program.unpickle)

    def _analyze(self, step: Step) -> _Made:
        options = {key: value for key, value in step.options.items() if key != "formats"}
        report = analyze(self._given(), **options)
        return _Made(self._told(step, report))

    def _told(self, step: Step, report: Report) -> StepResult:
        """Write a report, and give what it says."""
        folder = folder_of(self._root, step.key)
        for name in step.options["formats"]:
            write_atomically(folder / f"report{SUFFIXES[name]}", report.rendering.text(name))
        page = f"report{SUFFIXES['html']}" if "html" in step.options["formats"] else ""
        return StepResult(step.name, DONE, diagnosis=diagnosis_of(report), report=page)

    def _fix_dims(self, step: Step) -> _Made:
        folder = folder_of(self._root, step.key)
        fix = fix_dims(self._given(), programs=1)
        write_atomically(folder / "fix.json", json_fix(fix), what="answer")
        name = f"{_stem(self._case)}.fixed{_SUFFIX}" if usable(fix) else ""
        if name:
            save_program(fix.program, folder / name)
        return _Made(StepResult(step.name, DONE, fixed=fixed_of(fix, name)))

    def _compile(self, step: Step) -> _Made:
        from trtdiag.artifact.save import save

        asked = {key: value for key, value in step.options.items() if key != "formats"}
        options = with_changes(CompileOptions(), asked)
        source = str(self._corrected) if self._corrected is not None else self._given()
        try:
            state = compile_in_stages(source, options)
        except DiagnosisError as error:
            told = StepResult(step.name, FAILED)
            if isinstance(error.report, Report):
                told = self._told(step, error.report)
            return _Made(replace(told, state=FAILED, failure=failure_of(error)))
        file, found = f"{_stem(self._case)}_trt{_SUFFIX}", state.verification
        agreed = found is None or found.passed or options.force
        place = folder_of(self._root, step.key) / file
        if agreed:
            save(state.compiled, place)
        built = built_of(state, file if agreed else "", place.stat().st_size if agreed else 0)
        told = replace(self._told(step, state.report), built=built)
        return _Made(told, *_compared_at(found))

    def _verify(self, step: Step) -> _Made:
        if any(each.name == "compile" for each in self._case.steps):
            return _Made(StepResult(step.name, DONE))  # it was compared before it was saved
        found = verify_saved(self._case.program.source).verified
        return _Made(StepResult(step.name, DONE, compared=compared_of(found)), *_compared_at(found))

    def _bench(self, step: Step) -> _Made:
        from trtdiag.pipeline.bench import bench

        compiled = self._case.program.source
        original = None
        if self._compiled is not None:
            compiled, original = str(self._compiled), str(self._corrected) if self._corrected else self._given()
        found = bench(compiled, model=original)
        write_json(folder_of(self._root, step.key) / "bench.json", found.as_json())
        ms = {way["way"]: way["ms"]["median"] for way in found.as_json()["results"][0]["ways"] if way["ms"]}
        return _Made(StepResult(step.name, DONE), ms=ms)

    def _depends(self) -> dict[str, dict[str, str]]:
        """The user's modules that were imported here, with their digests, and the versions of packages."""
        files, packages = {}, {}
        for name, module in sorted(sys.modules.items()):
            place = None if self._before.get(name) is module else getattr(module, "__file__", None)
            if not isinstance(place, str) or not place.endswith(".py"):
                continue
            if not _of_a_package(place):
                with suppress(OSError):
                    files[os.path.realpath(place)] = digests.file_digest(place)
            elif "." not in name:
                version = digests.version_of(name)
                if version is not None:
                    packages[name] = version
        return {"files": files, "packages": packages}


def _of_a_package(place: str) -> bool:
    """Whether a file was installed, or is Python's or trtdiag's own."""
    own = (*sys.path, sys.prefix, sys.base_prefix)
    roots = [each for each in own if each.endswith(("site-packages", "dist-packages"))]
    roots += [os.path.dirname(os.__file__), str(Path(__file__).resolve().parents[1])]
    return any(place.startswith(f"{root}{os.sep}") for root in roots)


def _compared_at(found: Verification | None) -> tuple[int | None, float | None]:
    if found is None:
        return None, None
    worst = found.worst
    return sum(not each.skipped for each in found.results), None if worst is None else worst.max_rel


def _stem(case: Case) -> str:
    name = safe_name(case.program.name)
    return name.removesuffix(_SUFFIX)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB


def run_job(line: str, begins: Callable[[str], None]) -> None:
    """Run a case that stands in a line of JSON: ``root``, ``case``, ``missing``, ``folder``, ``environment``...

    Raises:
        PlatformError: What ``require_same`` and ``CaseRun.run`` raise.
    """
    import torch

    job = json.loads(line)
    os.environ.update(job["environment"])
    case = FORMS.read(Case, job["case"])
    if job["elsewhere"]:
        require_same(job, case)
    os.chdir(job["folder"])
    torch.set_num_threads(case.needs.cpus)
    CaseRun(Path(job["root"]), case, frozenset(job["missing"]), begins).run()
