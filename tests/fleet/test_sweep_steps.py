"""The steps of a case, here and in processes of their own."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sweep_factories import good

import trtdiag
from trtdiag.errors import PlatformError
from trtdiag.fleet.case_run import CaseRun
from trtdiag.fleet.cases import cases_of
from trtdiag.fleet.digests import Digests
from trtdiag.fleet.facts import CRASHED, DONE, KILLED, TIMED_OUT, Case, SweepProgram
from trtdiag.fleet.options import SweepOptions
from trtdiag.fleet.rows import Row, row_of
from trtdiag.fleet.server_client import ServerClient, job_of
from trtdiag.fleet.store import folder_of, prepared, read_measured, read_result

FACTORIES = Path(__file__).with_name("sweep_factories.py")
EVERY = ("analyze", "fix-dims", "compile", "verify", "bench")


def case_of(root: Path, source: str, **options: Any) -> Case:
    asked = SweepOptions(**{"targets": ("11.4",), "backend": "reference", **options})
    (found,) = cases_of([SweepProgram("net", source)], asked, Digests(root / "digests.json"))
    return found


def run_here(root: Path, case: Case) -> Row:
    CaseRun(root, case, frozenset(step.key for step in case.steps), lambda _key: None).run()
    return row_of(root, case)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return prepared(tmp_path / "sweep")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    module, args, _, shapes = good()
    place = tmp_path_factory.mktemp("programs") / "net.pt2"
    torch.export.save(torch.export.export(module, args, dynamic_shapes=shapes), place)
    return str(place)


def test_an_analysis_says_what_its_report_says(root: Path, saved: str) -> None:
    row = run_here(root, case_of(root, saved, formats=("html", "json")))
    report = trtdiag.analyze(saved, target="11.4")
    found = row.diagnosis
    assert found is not None
    assert (row.state, row.text) == (report.body["verdict"]["status"], report.verdict)
    assert [hit.fingerprint for hit in found.findings] == [str(each.fingerprint) for each in report.findings]
    assert (found.engines, found.ops, found.ops_in_engines) == (1, 3, 3)
    assert (found.dims, found.dynamic_dims, found.wrong_dims) == (2, 1, 0)
    page = root / row.reports["analyze"]
    assert "<title>" in page.read_text()
    assert json.loads(page.with_suffix(".json").read_text())["program"]["label"] == "net.pt2"


def test_corrected_compiled_compared_and_timed(root: Path) -> None:
    case = case_of(root, f"{FACTORIES}:even", steps=EVERY, options={"min_segment_ops": 0})
    row = run_here(root, case)
    assert row.steps == dict.fromkeys(EVERY, DONE)
    assert row.diagnosis is not None
    assert row.diagnosis.status == "error"  # as it was given
    assert (row.state, row.compared) == ("clean", "agrees")
    assert row.fixed is not None
    assert row.fixed.outcome == "changed"
    assert row.built is not None
    assert (row.built.engines, row.built.backend) == (1, "reference")
    compiled = trtdiag.load(folder_of(root, row.keys["compile"]) / row.built.file)
    assert compiled(torch.ones(8, 3)).shape == (2, 12)
    timed = read_measured(root, row.keys["bench"])
    assert timed is not None
    assert set(timed.ms) == {"trtdiag", "eager"}
    depends = json.loads((folder_of(root, row.keys["analyze"]) / "depends.json").read_text())
    assert [*depends["files"]] == [str(FACTORIES.resolve())]
    # What was done is taken up: only the comparison of speed is missing now.
    (folder_of(root, row.keys["bench"]) / "result.json").unlink()
    begun: list[str] = []
    CaseRun(root, case, frozenset([row.keys["bench"]]), begun.append).run()
    assert begun == [row.keys["bench"]]
    assert row_of(root, case) == row


def test_a_program_that_is_refused_keeps_its_report(root: Path) -> None:
    row = run_here(root, case_of(root, f"{FACTORIES}:even", steps=("compile", "bench")))
    assert (row.state, row.steps) == ("error", {"compile": "failed", "bench": "not run"})
    assert row.failure is not None
    assert row.failure.kind == "DiagnosisError"
    assert (root / row.reports["compile"]).is_file()


@pytest.mark.slow  # quick: corrected, compiled, compared and timed
def test_one_that_was_compiled_before_is_verified_and_timed(root: Path, saved: str, tmp_path: Path) -> None:
    compiled = tmp_path / "net_trt.pt2"
    trtdiag.save(trtdiag.compile(saved, backend="reference", min_segment_ops=0), compiled)
    row = run_here(root, case_of(root, str(compiled), steps=("verify", "bench")))
    assert (row.compared, row.steps) == ("agrees", {"verify": DONE, "bench": DONE})


def test_an_error_is_a_row(root: Path) -> None:
    row = run_here(root, case_of(root, f"{FACTORIES}:raises", steps=("analyze", "fix-dims", "compile")))
    assert row.steps == {"analyze": "failed", "fix-dims": "failed", "compile": "not run"}
    assert (row.state, "no model here" in row.text) == ("failed", True)


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("place", ["trtdiag.report.save.write_whole", "trtdiag.fleet.store.write_entry", "model"])
def test_a_full_disk_is_no_result(root: Path, saved: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing of the program, which would be a row that failed until it is asked for again."""
    case = case_of(root, f"{FACTORIES}:fills_the_disk" if place == "model" else saved)
    with monkeypatch.context() as patch:
        if place != "model":
            patch.setattr(place, full)
        with pytest.raises(PlatformError, match="No space left on device") as caught:
            run_here(root, case)
    assert caught.value.reference == "sweep-not-writable"
    assert read_result(root, case.steps[0].key) is None
    if place != "model":
        assert run_here(root, case).state == "clean"


@pytest.mark.slow  # a fork server imports torch anew; the quick run has one with Ray above it
def test_however_a_process_ends(root: Path, saved: str) -> None:
    client = ServerClient()
    try:
        ends = {}
        for name in ("good", "aborts", "quits", "sleeps", "prints"):
            limit_s = 3.0 if name == "sleeps" else 60.0
            case = replace(case_of(root, f"{FACTORIES}:{name}"), time_limit_s=limit_s)
            job = job_of(root, case, [step.key for step in case.steps])
            ends[name] = client.run(job)
            assert ends[name]["step"] == case.steps[0].key
            if name == "prints":
                assert "words of the model" in Path(job["output"]).read_text()
        states = {name: how["state"] for name, how in ends.items()}
        assert states == {"good": DONE, "aborts": CRASHED, "quits": CRASHED, "sleeps": TIMED_OUT, "prints": DONE}
        assert (ends["aborts"]["signal"], ends["quits"]["code"]) == (6, 0)
        assert client._server is not None
        client._server.kill()
        case = case_of(root, saved)
        job = job_of(root, case, [step.key for step in case.steps])
        assert client.run(job)["state"] == KILLED
        assert client.run(job)["state"] == DONE  # by another server
        with pytest.raises(PlatformError, match="would give other results"):
            client.run({**job, "elsewhere": True, "tool": ["0.0", *job["tool"][1:]]})
    finally:
        client.close()


@pytest.mark.slow  # quick: steps of a sweep in this process
def test_the_same_results_whatever_process(root: Path, saved: str, tmp_path: Path) -> None:
    """Here twice; the slow run compares one worker of Ray with two."""
    other = prepared(tmp_path / "other")
    case = case_of(root, saved, steps=("analyze", "compile", "verify"), options={"min_segment_ops": 0})
    run_here(root, case)
    run_here(other, case)
    for step in case.steps:
        one, two = (folder_of(each, step.key) / "result.json" for each in (root, other))
        assert one.read_bytes() == two.read_bytes()
