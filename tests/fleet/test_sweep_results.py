"""Totals, comparison, tables, JSON and terminal of rows that are made by hand."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console
from sample_rows import BUILT, DIAGNOSIS, ERROR, FAILURE, FIXED, ROW, TIMES, WARNING, many, row_in

from trtdiag.cli.sweep import exit_code
from trtdiag.errors import UserError
from trtdiag.fleet.comparison import compared
from trtdiag.fleet.facts import Case, LeftOp, Needs, Step, StepResult, SweepProgram, Variant
from trtdiag.fleet.options import SweepOptions
from trtdiag.fleet.outcome import Sweep, finished
from trtdiag.fleet.results import SCHEMA_PATH, id_of, read_results, results_json, text_of
from trtdiag.fleet.rows import STATES, row_of
from trtdiag.fleet.store import prepared, write_result
from trtdiag.fleet.sweep import Swept
from trtdiag.fleet.sweep_text import print_sweep
from trtdiag.fleet.tables import csv_text, table_rows
from trtdiag.fleet.totals import OpTotal, RuleTotal, totals_of


def test_totals_count_programs_and_not_cases() -> None:
    other = replace(ROW, precision="fp16", diagnosis=replace(DIAGNOSIS, findings=(WARNING, WARNING, ERROR)))
    second = replace(
        row_in("error", "two"), diagnosis=replace(DIAGNOSIS, left=(LeftOp("aten.sort.default", "x", "why", 9, 3),))
    )
    totals = totals_of([ROW, other, second])
    assert (totals.programs, totals.rows, totals.states) == (2, 3, {"error": 1, "warning": 2})
    assert totals.rules == (
        RuleTotal("OPS501", "no-converter", "warning", 2, 3),
        RuleTotal("SYM201", "unbounded", "info", 2, 2),
        RuleTotal("GRD301", "guard-breaks-range", "error", 1, 1),
    )
    assert totals.ops == (
        OpTotal("aten.sort.default", "x", "why", 3, 9, 1),
        OpTotal("aten.sort.default", "no-converter", "it has no converter", 1, 2, 1),  # the same in both precisions
    )


def test_nothing_changed_against_itself() -> None:
    rows = many(20)
    found = compared(rows, rows, "before")
    assert (found.regressions, found.improvements, found.unchanged, found.added, found.gone) == ((), (), 20, (), ())


def test_what_is_worse_comes_first_and_the_same_is_better_the_other_way() -> None:
    clean, error = row_in("clean", "net"), row_in("error", "net")
    worse = compared([clean, row_in("warning", "gone")], [row_in("warning", "new"), error], "before")
    (change,) = worse.regressions
    assert change.row == "net, 11.4, keep"
    assert change.words[0] == f"clean -> error: {error.text}"
    assert change.words[1] == f"new: 2 findings of GRD301, OPS501: {ERROR.message}"
    assert (worse.added, worse.gone) == (("new, 11.4, keep",), ("gone, 11.4, keep",))
    (better,) = compared([error], [clean], "before").improvements
    assert better.words[0] == "error -> clean: No findings"
    assert better.words[1] == f"fixed: 2 findings of GRD301, OPS501: {ERROR.message}"


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        ({"diagnosis": DIAGNOSIS}, {"diagnosis": replace(DIAGNOSIS, ops_in_engines=100)}, "ops in engines 118 -> 100"),
        ({"diagnosis": DIAGNOSIS}, {"diagnosis": replace(DIAGNOSIS, engines=3)}, "engines 2 -> 3"),
        ({"built": BUILT}, {"built": None}, "compiled -> not compiled"),
        ({"built": BUILT}, {"built": replace(BUILT, engine_bytes=2_200_000)}, "engines 1.0 MiB -> 2.1 MiB"),
        ({"compared": "agrees"}, {"compared": "differs"}, "output agrees -> output differs"),
    ],
)
def test_each_way_to_be_worse(then: dict[str, object], now: dict[str, object], words: str) -> None:
    before, after = replace(ROW, **then), replace(ROW, **now)  # type: ignore[arg-type]
    assert [change.words for change in compared([before], [after], "x").regressions] == [(words,)]
    assert compared([after], [before], "x").regressions == ()


def test_a_tenth_more_bytes_is_no_news() -> None:
    before, after = (replace(ROW, built=replace(BUILT, engine_bytes=size)) for size in (1000, 1099))
    assert compared([before], [after], "x").regressions == ()


def test_the_json_fits_its_schema_and_is_read_again(tmp_path: Path) -> None:
    rows = many(30)
    rows[0] = replace(rows[0], built=BUILT, fixed=FIXED, compared="agrees")
    body = results_json(rows, totals_of(rows), compared(rows[:9], rows, "before"))
    schema = json.loads(SCHEMA_PATH.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(body, schema)
    assert schema["$defs"]["row"]["properties"]["state"]["enum"] == list(STATES)
    (tmp_path / "results.json").write_text(text_of(body))
    saved = read_results(tmp_path)
    assert saved.rows == tuple(rows)
    assert saved.id == id_of(rows)


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "trtdiag-report/1"}', "[1]"])
def test_what_is_no_sweep_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(UserError) as caught:
        read_results(tmp_path / "results.json")
    assert caught.value.reference == "sweep-not-readable"


def test_the_table_has_a_row_for_each_with_the_same_columns() -> None:
    rows = [*many(10), replace(ROW, built=BUILT, fixed=FIXED, compared="agrees", keys={"fix-dims": "f" * 32})]
    read = [*csv.DictReader(io.StringIO(csv_text(rows, [TIMES] * len(rows))))]
    assert len(read) == len(rows)
    last = read[-1]
    assert last["rules"] == "OPS501 SYM201"
    assert (last["errors"], last["warnings"], last["notes"]) == ("0", "1", "1")
    assert last["fixed_file"] == f"steps/{'f' * 32}/net.fixed.pt2"
    assert (last["seconds"], last["cpu_s"], last["peak_mib"], last["call_ms"]) == ("4.5", "3.7", "410.0", "0.5")
    assert read[0]["failure"] == f"{FAILURE.message}: {FAILURE.because}"
    assert read[0]["errors"] == ""  # nothing is known of it


def test_a_name_that_is_no_utf_8_is_written_out(tmp_path: Path) -> None:
    rows = [replace(ROW, program="\udcff.pt2", text="\udcfe")]
    made = Sweep(tmp_path, tuple(rows), (TIMES,), totals_of(rows), None)
    assert made.save(tmp_path / "t.csv").read_text().splitlines()[1].startswith("\\udcff.pt2,")
    assert made.table()[0]["text"] == "\\udcfe"


def test_parquet_has_what_csv_has(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow, which writes Parquet, is not installed")
    rows = many(7)
    made = Sweep(tmp_path, tuple(rows), (TIMES,) * 7, totals_of(rows), None)
    made.save(tmp_path / "t.parquet")
    assert parquet.read_table(tmp_path / "t.parquet").to_pylist() == [*table_rows(rows, [TIMES] * 7)]


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    made = Sweep(tmp_path, (ROW,), (TIMES,), totals_of([ROW]), None)
    with pytest.raises(UserError, match=r"\.csv or \.parquet"):
        made.save(tmp_path / "t.xlsx")


@pytest.mark.parametrize(
    ("states", "threshold", "code"),
    [
        (["clean", "warning"], "error", 0),
        (["clean", "warning"], "warning", 1),
        (["incomplete"], "warning", 1),
        (["incomplete"], "error", 1),
        (["incomplete"], "never", 0),
        (["error"], "error", 1),
        (["crashed"], "error", 1),
        (["differs"], "error", 1),
        (["crashed", "error"], "never", 0),
        (["error"], "regression", 0),
        (["clean"], "info", 0),
    ],
)
def test_exit_codes(tmp_path: Path, states: list[str], threshold: str, code: int) -> None:
    rows = [row_in(state, state) for state in states]
    assert exit_code(Sweep(tmp_path, tuple(rows), (TIMES,) * len(rows), totals_of(rows), None), threshold) == code


def test_a_regression_alone_ends_with_1(tmp_path: Path) -> None:
    rows = [row_in("warning", "net")]
    found = compared([row_in("clean", "net")], rows, "before")
    assert exit_code(Sweep(tmp_path, tuple(rows), (TIMES,), totals_of(rows), found), "regression") == 1


def _swept(root: Path, status: str) -> Swept:
    step = Step("analyze", "a" * 32, {})
    case = Case(SweepProgram("net", "net.pt2"), Variant("11.4", "keep"), (step,), 60.0, Needs())
    found = replace(DIAGNOSIS, status=status, text=status)
    write_result(root, step.key, StepResult("analyze", "done", diagnosis=found, report="report.html"))
    return Swept(root, (case,), SweepOptions())


@pytest.mark.parametrize(
    ("exported", "state"), [(False, "error"), (True, "clean")], ids=["another program", "as asked"]
)
def test_a_program_that_is_not_its_model_is_not_clean(tmp_path: Path, exported: bool, state: str) -> None:
    """What was compiled of it agrees with the program, and the program with nothing."""
    root = prepared(tmp_path / "sweep")
    steps = Step("analyze", "a" * 32, {}), Step("fix-dims", "b" * 32, {})
    case = Case(SweepProgram("net", "net.pt2"), Variant("11.4", "keep"), steps, 60.0, Needs())
    found = replace(DIAGNOSIS, status="clean", text="No findings")
    words = "nothing to change: not proven (a reason), exported"
    fixed = replace(FIXED, outcome="unchanged", text=words, file="", exported=exported)
    write_result(root, steps[0].key, StepResult("analyze", "done", diagnosis=found, report="report.html"))
    write_result(root, steps[1].key, StepResult("fix-dims", "done", fixed=fixed))
    row = row_of(root, case)
    assert row.state == state
    assert row.text == (f"fix-dims: {fixed.text}" if state == "error" else "No findings")


def test_what_is_replaced_is_what_is_compared_with(tmp_path: Path) -> None:
    root = prepared(tmp_path / "sweep")
    assert finished(_swept(root, "clean")).comparison is None
    first = (root / "results.json").read_bytes()
    assert finished(_swept(root, "clean")).comparison is None  # the same again is no other sweep
    assert (root / "results.json").read_bytes() == first
    made = finished(_swept(root, "error"))
    assert made.comparison is not None
    assert [change.words for change in made.comparison.regressions] == [("clean -> error: error",)]
    text = (root / "results.json").read_bytes()
    finished(_swept(root, "error"))
    assert (root / "results.json").read_bytes() == text  # compared with the one before still
    copy = tmp_path / "first.json"
    copy.write_bytes(first)
    better = finished(_swept(root, "clean"), copy).comparison
    assert better is not None
    assert (better.unchanged, better.earlier) == (1, str(copy))


def test_the_terminal_tells_the_worst_first(tmp_path: Path) -> None:
    rows = many(40)
    found = compared([replace(row, state="clean") for row in rows[:12]], rows, "the sweep before")
    made = Sweep(tmp_path, tuple(rows), (TIMES,) * 40, totals_of(rows), found)
    out = io.StringIO()
    print_sweep(made, Console(file=out, width=80), Path("sweep"))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("40 programs: 4 crashed, 4 killed")
    assert lines[1].startswith("compared with the sweep before: ")
    assert lines[2].startswith("  worse: ")
    crashed = next(at for at, line in enumerate(lines) if line.startswith("crashed "))
    assert lines[crashed + 4].startswith("killed ")
    assert lines[-1] == "page: sweep/index.html"
    assert "Sweep of 40 programs" in repr(made)
