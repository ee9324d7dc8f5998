"""What is done and what is not: retries, limits, results that no longer hold; with a crew that a test leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trtdiag.errors import PlatformError, UserError
from trtdiag.fleet.digests import Digests, file_digest
from trtdiag.fleet.facts import (
    CRASHED,
    DONE,
    FAILED,
    KILLED,
    TIMED_OUT,
    Built,
    Case,
    Failure,
    Needs,
    Step,
    StepResult,
    SweepProgram,
    Variant,
)
from trtdiag.fleet.rows import row_of
from trtdiag.fleet.store import DEPENDS, Known, folder_of, prepared, read_result, write_json, write_result
from trtdiag.fleet.sweep import Standing, Work

ANALYZE, COMPILE, BENCH = (Step(name, name[0] * 32, {}) for name in ("analyze", "compile", "bench"))


def case_of(*steps: Step, name: str = "net", limit_s: float = 60.0) -> Case:
    return Case(SweepProgram(name, f"{name}.pt2"), Variant("11.4", "keep"), steps, limit_s, Needs())


class Crew:
    """Ends cases as it was told: by state, or done with results."""

    def __init__(self, root: Path, *ends: str) -> None:
        self.root, self.ends = root, list(ends)
        self.begun: list[tuple[int, list[str]]] = []
        self.at_once = 0
        self._running: list[tuple[int, Mapping[str, Any]]] = []

    def room(self, needs: Needs) -> int:
        return 0 if needs.gpus else 2 - len(self._running)

    def waits_for(self) -> str:
        return ""

    def begin(self, number: int, job: Mapping[str, Any], needs: Needs) -> None:
        assert len(self._running) < 2
        self.begun.append((number, list(job["missing"])))
        self._running.append((number, job))
        self.at_once = max(self.at_once, len(self._running))

    def ended(self, wait_s: float) -> Sequence[tuple[int, Mapping[str, Any]]]:
        number, job = self._running.pop(0)
        state = self.ends.pop(0) if self.ends else DONE
        through = job["missing"] if state == DONE else job["missing"][:-1]
        if through:
            names = {step.key: step.name for step in (ANALYZE, COMPILE, BENCH)}
            for key in through:
                built = Built("reference", 1, 10, "agrees", "net_trt.pt2", 20) if names.get(key) == "compile" else None
                write_result(self.root, key, StepResult(names.get(key, "analyze"), DONE, built=built))
        how = {"state": state, "step": job["missing"][-1], "signal": 11, "code": 0, "seconds": 1.0}
        return [(number, how)]

    def close(self) -> None:
        pass


def work_of(root: Path, *cases: Case, retry_failed: bool = False, told: list[Standing] | None = None) -> Work:
    known = Known(root, Digests(root / "digests.json"), retry_failed=retry_failed)
    return Work(root, cases, known, 2, (told if told is not None else []).append)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return prepared(tmp_path / "sweep")


def test_what_is_done_is_not_done_again(root: Path) -> None:
    crew = Crew(root)
    work_of(root, case_of(ANALYZE)).run(crew)
    assert crew.begun == [(0, [ANALYZE.key])]
    assert not work_of(root, case_of(ANALYZE)).left
    work_of(root, case_of(ANALYZE, COMPILE)).run(crew)  # a step more: that alone
    assert crew.begun[1:] == [(0, [COMPILE.key])]


@pytest.mark.parametrize("state", [CRASHED, KILLED])
def test_a_process_that_was_ended_begins_again(root: Path, state: str) -> None:
    crew, told = Crew(root, state, state), []
    work_of(root, case_of(ANALYZE), told=told).run(crew)
    assert len(crew.begun) == 3
    assert row_of(root, case_of(ANALYZE)).steps == {"analyze": DONE}
    assert told[-1] == Standing(1, 1, 0, ())


@pytest.mark.parametrize(("state", "begun", "again"), [(CRASHED, 3, False), (KILLED, 3, True), (TIMED_OUT, 1, False)])
def test_a_case_that_never_ends_well_is_a_row(root: Path, state: str, begun: int, again: bool) -> None:
    crew, told = Crew(root, *[state] * 5), []
    case = case_of(ANALYZE, COMPILE)
    work_of(root, case, told=told).run(crew)
    assert len(crew.begun) == begun
    row = row_of(root, case)
    assert (row.state, row.steps["compile"], row.failure is not None) == (state, state, True)
    assert [label for label, _ in told[-1].failed] == ["net, 11.4, keep"]
    # Somebody killed it, which says nothing of the program; the others are told, until they are asked for again.
    assert row.steps["analyze"] == DONE
    assert work_of(root, case).left is again
    assert work_of(root, case, retry_failed=True).left


def test_more_time_is_a_reason_to_try_again(root: Path) -> None:
    work_of(root, case_of(ANALYZE, limit_s=5)).run(Crew(root, TIMED_OUT))
    assert not work_of(root, case_of(ANALYZE, limit_s=5)).left
    assert not work_of(root, case_of(ANALYZE, limit_s=2)).left
    assert work_of(root, case_of(ANALYZE, limit_s=6)).left


def test_steps_that_take_a_program_wait_for_it(root: Path) -> None:
    failure = Failure("UserError", "no", "", "", "x")
    write_result(root, ANALYZE.key, StepResult("analyze", FAILED, failure))
    write_result(root, COMPILE.key, StepResult("compile", FAILED, failure))
    case = case_of(ANALYZE, COMPILE, BENCH)
    assert not work_of(root, case).left  # there is nothing that could be timed
    row = row_of(root, case)
    assert row.steps == {"analyze": FAILED, "compile": FAILED, "bench": "not run"}
    assert (row.state, row.text) == (FAILED, "analyze: no")


def test_cases_with_the_same_steps_are_one(root: Path) -> None:
    crew, told = Crew(root), []
    cases = [case_of(ANALYZE, name=name) for name in ("one", "two", "three")]
    work_of(root, *cases, told=told).run(crew)
    assert [number for number, _ in crew.begun] == [0]
    assert told[-1].done == 3


def test_cases_run_side_by_side_in_their_order(root: Path) -> None:
    crew = Crew(root)
    cases = [case_of(Step("analyze", f"{at:032}", {}), name=f"net{at}") for at in range(5)]
    work_of(root, *cases).run(crew)
    assert [number for number, _ in crew.begun] == [0, 1, 2, 3, 4]
    assert crew.at_once == 2


def test_what_cannot_run_keeps_nothing_else_from_running(root: Path) -> None:
    """And keeps its place: it is the first to begin when there is a machine for it."""

    class Grown(Crew):
        """Has no GPU at first, and says so."""

        def room(self, needs: Needs) -> int:
            return 1 if needs.gpus and len(self.begun) >= 2 else super().room(needs)

        def waits_for(self) -> str:
            return "" if len(self.begun) >= 3 else "a GPU"

    told: list[Standing] = []
    cases = [case_of(Step("analyze", f"{at:032}", {}), name=f"net{at}") for at in range(4)]
    gpu = [replace(case, needs=Needs(gpus=1)) for case in cases[:2]]
    crew = Grown(root)
    work_of(root, *gpu, *cases[2:], told=told).run(crew)
    assert [number for number, _ in crew.begun] == [2, 3, 0, 1]
    told_of = [(each.done, each.waits_for) for each in told]
    assert told_of == [(0, ""), (0, "a GPU"), (1, "a GPU"), *((done, "") for done in (1, 2, 3, 4))]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"step": "analyze"}', b'{"step": 3}', b"\xff", b"[" * 100_000])
def test_a_damaged_result_is_none(root: Path, content: bytes) -> None:
    work_of(root, case_of(ANALYZE)).run(Crew(root))
    (folder_of(root, ANALYZE.key) / "result.json").write_bytes(content)
    assert read_result(root, ANALYZE.key) is None
    assert work_of(root, case_of(ANALYZE)).left


@pytest.mark.parametrize("content", ["[]", "{", '{"files": 3}', '{"files": [1]}', "[" * 100_000])
def test_damaged_dependencies_are_not_relied_on(root: Path, content: str) -> None:
    work_of(root, case_of(ANALYZE)).run(Crew(root))
    (folder_of(root, ANALYZE.key) / DEPENDS).write_text(content)
    assert work_of(root, case_of(ANALYZE)).left


def test_what_a_program_imported_is_looked_at_again(root: Path, tmp_path: Path) -> None:
    module = tmp_path / "layers.py"
    module.write_text("size = 1\n")
    work_of(root, case_of(ANALYZE)).run(Crew(root))
    depends = {"files": {str(module): file_digest(module)}, "packages": {"click": "0.0.1"}}
    write_json(folder_of(root, ANALYZE.key) / DEPENDS, {**depends, "packages": {}})
    assert not work_of(root, case_of(ANALYZE)).left
    module.write_text("size = 2\n")
    assert work_of(root, case_of(ANALYZE)).left
    module.write_text("size = 1\n")
    write_json(folder_of(root, ANALYZE.key) / DEPENDS, depends)
    assert work_of(root, case_of(ANALYZE)).left  # another version of a package


def test_what_cannot_be_kept_ends_the_sweep(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trtdiag.fleet.store.write_entry", full)
    with pytest.raises(PlatformError, match="No space left on device") as caught:
        work_of(root, case_of(ANALYZE)).run(Crew(root, TIMED_OUT))
    assert caught.value.reference == "sweep-not-writable"


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_text("")
    with pytest.raises(UserError, match="no folder of a sweep") as caught:
        prepared(tmp_path)
    assert caught.value.reference == "sweep-folder"
    prepared(tmp_path / "new")
    assert prepared(tmp_path / "new") == tmp_path / "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "photo.jpg"]


def test_rows_take_the_corrected_program_for_the_verdict(root: Path) -> None:
    from sample_rows import DIAGNOSIS, FIXED

    fix = Step("fix-dims", "f" * 32, {})
    case = case_of(ANALYZE, fix, COMPILE)
    error = replace(DIAGNOSIS, status="error", text="2 errors")
    write_result(root, ANALYZE.key, StepResult("analyze", DONE, diagnosis=error))
    write_result(root, fix.key, StepResult("fix-dims", DONE, fixed=FIXED))
    built = Built("reference", 1, 10, "agrees", "net_trt.pt2", 20)
    clean = replace(DIAGNOSIS, status="clean", text="No findings", findings=())
    write_result(root, COMPILE.key, StepResult("compile", DONE, diagnosis=clean, built=built))
    row = row_of(root, case)
    assert (row.state, row.text) == ("clean", "No findings")
    assert row.diagnosis == error  # of the program as it was given
    write_result(
        root, COMPILE.key, StepResult("compile", DONE, diagnosis=clean, built=replace(built, compared="differs"))
    )
    assert row_of(root, case).state == "differs"
