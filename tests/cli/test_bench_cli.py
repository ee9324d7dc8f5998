"""``trtdiag bench`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from markupsafe import escape

import trtdiag
from tests.benchmark.bench_models import build
from tests.compiling.programs import saved
from tests.harness.rows import each
from trtdiag.cli.main import main
from trtdiag.report.json_report import SCHEMA_PATH


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("small.pt2").write_bytes(saved(build))
    compiled = trtdiag.compile("small.pt2", backend="reference", verify=False, min_segment_ops=0)
    trtdiag.save(compiled, "small_trt.pt2")
    return tmp_path


@pytest.mark.slow  # quick: a report takes up the times
def test_tables_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--sizes", "max", "--sizes", "x.shape[0]=7,x.shape[1]=8")
    assert (
        run("bench", "small_trt.pt2", "--against", "eager,onnx-trt", *sizes, "--rounds", "1", "--json", "b.json") == 0
    )
    told = capsys.readouterr().out
    assert "on cpu" in told
    assert "x float32 (9, 34, 5)" in told
    assert "x float32 (7, 8, 5)" in told
    assert "onnx-trt: cannot run: TensorRT" in told
    written = json.loads((folder / "b.json").read_text(encoding="utf-8"))
    assert [result["label"] for result in written["results"]] == ["max", "x.shape[0]=7, x.shape[1]=8"]
    assert [way["way"] for way in written["results"][0]["ways"]] == ["trtdiag", "eager", "onnx-trt"]


def test_original_by_name_and_json_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "small.pt2").unlink()
    assert run("bench", "small_trt.pt2", "--rounds", "1") == 2
    assert "trtdiag bench compiled.pt2 --model model.pt2" in capsys.readouterr().err
    assert (
        run("bench", "small_trt.pt2", "--model", "tests.benchmark.bench_models:build", "--rounds", "1", "--json", "-")
        == 0
    )
    ways = json.loads(capsys.readouterr().out)["results"][0]["ways"]
    assert [way["failed"] for way in ways] == ["", ""]


@each("arguments", [("--sizes", "largest"), ("--sizes", "x.shape[0]=two"), ("--against", "tvm")])
def test_wrong_arguments(folder: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "small_trt.pt2", *arguments) == 2
    told = capsys.readouterr().err
    assert repr(arguments[1]) in told
    assert arguments[0] == "--against" or "min, opt, max, or DIM=SIZE" in told


def test_sizes_that_the_program_does_not_take(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "small_trt.pt2", "--sizes", "x.shape[0]=100000") == 2
    assert capsys.readouterr().err.startswith("error: calls cannot have x.shape[0]=100000")


@pytest.mark.slow  # quick: times in reports in tests/report, bench by name, above
def test_a_report_takes_up_the_times_and_compares_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_it = ("compile", "small.pt2", "--backend", "reference", "--no-verify", "--min-segment-ops", "0", "-q")
    assert run(*compile_it, "--json", "old.json", "--report", "old.html") == 0
    without = (folder / "old.html").read_text(encoding="utf-8")
    assert 'id="speed"' not in without
    timed = ("bench", "small_trt.pt2", "--against", "eager,onnx-trt", "--rounds", "1", "--json", "times.json")
    assert run(*timed, "--add-to-report", "old.json") == 0
    assert "timed: old.json, old.html" in capsys.readouterr().out
    old = json.loads((folder / "old.json").read_text(encoding="utf-8"))
    jsonschema.validate(old, json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))
    assert old["bench"] == json.loads((folder / "times.json").read_text(encoding="utf-8"))
    page = (folder / "old.html").read_text(encoding="utf-8")
    (at,) = old["bench"]["results"]
    ours, eager, onnx = at["ways"]
    assert at["sizes"]["x.shape[0]"] == 4
    sizes = ", ".join(f"{name}={size}" for name, size in sorted(at["sizes"].items()))
    for told in ('id="speed"', f"At {sizes}", f"{ours['ms']['median']:.3f}", f"{eager['ratio']:.2f}x"):
        assert told in page
    assert escape(f"cannot run: {onnx['failed']}") in page

    slower = json.loads((folder / "old.json").read_text(encoding="utf-8"))
    slower["bench"]["results"][0]["ways"][0]["ms"]["median"] *= 2
    slower["bench"]["device"] = "abacus"
    (folder / "slower.json").write_text(json.dumps(slower), encoding="utf-8")
    assert run("report", "slower.json", "--compare", "old.json", "--format", "html,json", "-o", "both.html") == 0
    both = json.loads((folder / "both.json").read_text(encoding="utf-8"))
    jsonschema.validate(both, json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))
    before = ours["ms"]["median"]
    (call,) = both["comparison"]["calls"]
    assert call == {"sizes": sizes, "before_ms": before, "after_ms": 2 * before}
    assert "Calls were timed on another device: cpu then, abacus now" in both["comparison"]["notes"]
    assert f"{2 * before:.3g} ms (2.00 times as long)" in (folder / "both.html").read_text(encoding="utf-8")


@pytest.mark.slow  # quick: a report takes up the times
def test_a_report_of_another_program_is_refused_before_measuring(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trtdiag.benchmark.run.take_turns", lambda *_: pytest.fail("it measured"))
    assert run("analyze", "small.pt2", "--no-html", "--json", "planned.json", "-q") == 0
    whole = ("compile", "small.pt2", "--backend", "reference", "--no-verify", "--no-html", "-q")
    assert run(*whole, "--min-segment-ops", "0", "--precision", "fp16", "-o", "half.ep", "--json", "half.json") == 0
    for report, why in (("planned.json", "it was made without compiling"), ("half.json", "have other networks")):
        before = (folder / report).read_bytes()
        assert run("bench", "small_trt.pt2", "--rounds", "1", "--add-to-report", report) == 2
        told = capsys.readouterr().err
        assert "bench-of-another-program" in told
        assert why in told
        assert (folder / report).read_bytes() == before
