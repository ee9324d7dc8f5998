"""``--trace`` and the logger behind it."""

from __future__ import annotations

import ast
import json
import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import trtdiag
from tests.harness.logged import Logged
from trtdiag.cli.main import main
from trtdiag.cli.trace_option import trace_events
from trtdiag.timed_steps import LOGGER, TimedStep, timed

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of a command that runs in the folder."""
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_a_command_writes_what_took_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.export.save(torch.export.export(nn.Linear(3, 2), (torch.ones(2, 3),)), tmp_path / "model.pt2")
    words = ("compile", "model.pt2", "--backend", "reference", "-q")
    assert run(tmp_path, monkeypatch, *words, "--trace", "trace.json") == 0
    trace = json.loads((tmp_path / "trace.json").read_text())
    ran = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = [event["name"] for event in ran]

    assert names[0] == "imports"
    assert {"capture", "partition", "build", "verify"} <= set(names)
    assert [event["cat"] for event in ran if event["cat"] not in ("stage",)] == ["build", "compare"]
    build = next(event for event in ran if event["name"] == "build")
    inside = next(event for event in ran if event["cat"] == "build")
    assert build["ts"] <= inside["ts"]
    assert inside["ts"] + inside["dur"] <= build["ts"] + build["dur"]
    threads = {event["tid"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert {event["tid"] for event in ran} == threads

    holds_to_the_format((tmp_path / "trace.json").read_text())

    for place, told in (("model.pt2", "[same-file]"), ("none/trace.json", "[report-not-writable]")):
        assert run(tmp_path, monkeypatch, *words, "--trace", place) == 2
        assert told in capsys.readouterr().err


def holds_to_the_format(text: str) -> None:
    """What "Trace Event Format" asks of complete events (X) and of metadata events (M), of which these are all."""

    def refused(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    trace = json.loads(text, parse_constant=refused)
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    named: dict[str, list[tuple[int, int]]] = {}
    stacks: dict[tuple[int, int], list[float]] = {}
    for event in trace["traceEvents"]:
        where = event["pid"], event["tid"]
        assert all(type(number) is int and number > 0 for number in where), "0 is the idle thread"
        assert isinstance(event["name"], str)
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert event["args"]["name"]
            named.setdefault(event["name"], []).append(where)
            continue
        assert event["ph"] == "X"
        assert isinstance(event["cat"], str)
        begin, end = event["ts"], event["ts"] + event["dur"]
        assert 0 <= begin <= end
        assert where in named["thread_name"], "a name for each thread, before its events"
        open_until = stacks.setdefault(where, [])
        while open_until and open_until[-1] <= begin + 1e-3:  # microseconds: rounding to a nanosecond
            open_until.pop()
        assert not open_until or end <= open_until[-1] + 1e-3, f"{event['name']} ends after what it is in"
        open_until.append(end)
    assert len({pid for pid, _ in stacks}) == len(named["process_name"]) == 1
    assert sorted(stacks) == sorted(set(named["thread_name"])), "no thread without events"


def test_steps_within_steps_on_several_threads_hold_to_the_format() -> None:
    steps = [
        TimedStep("stage", "build", {"engines": 2}, "MainThread", 1_000, 9_000, failed=False),
        TimedStep("stage", "inside", {}, "MainThread", 1_000, 4_000, failed=True),
        TimedStep("build", "engine 0", {}, "trtdiag-build-0", 2_000, 7_999, failed=False),
        TimedStep("build", "engine 1", {}, "trtdiag-build-0", 9_999, 1, failed=False),
        TimedStep("stage", "after", {}, "MainThread", 10_000, 0, failed=False),
    ]
    made = trace_events(steps, 500)
    holds_to_the_format(json.dumps(made))
    assert [event["name"] for event in made["traceEvents"] if event["ph"] == "X"][:2] == ["build", "inside"], (
        "the outer first"
    )
    crossed = [replace(steps[0], took_ns=2_000), steps[1], replace(steps[1], begun_ns=2_000, took_ns=2_000)]
    with pytest.raises(AssertionError, match="ends after what it is in"):
        holds_to_the_format(json.dumps(trace_events([crossed[1], replace(crossed[2], took_ns=9_000)], 0)))


def test_a_command_that_fails_leaves_its_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text("def build():\n    raise ValueError('no model')\n")
    assert run(tmp_path, monkeypatch, "analyze", "net.py:build", "--trace", "trace.json") == 2
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X" and event["args"]["failed"]] == ["capture"]


def test_the_logger_tells_each_step(logged: Logged) -> None:
    program = torch.export.export(nn.Linear(3, 2), (torch.ones(2, 3),))
    with logged.at_level(logging.DEBUG, LOGGER.name):
        trtdiag.analyze(program)
        with pytest.raises(KeyError), timed("build", "an engine", layers=3):
            raise KeyError
    steps = [record.step for record in logged.records if record.name == LOGGER.name]  # type: ignore[attr-defined]
    assert [step.name for step in steps][:2] == ["capture", "metadata"]
    assert (steps[-1].name, steps[-1].failed, steps[-1].facts) == ("an engine", True, {"layers": 3})
    assert "build an engine failed" in logged.text


def test_without_a_listener_nothing_is_told(logged: Logged) -> None:
    with timed("stage", "quiet"):
        pass
    assert logged.records == []


def test_events_begin_in_order_the_outer_one_first() -> None:
    def step(name: str, begun: int, took: int) -> TimedStep:
        return TimedStep("stage", name, {}, "main", begun, took, failed=False)

    events = trace_events([step("inner", 1000, 1), step("outer", 1000, 5000), step("first", 0, 7)], 0)["traceEvents"]
    assert [(event["name"], event.get("ts"), event.get("dur")) for event in events] == [
        ("process_name", None, None),
        ("thread_name", None, None),
        ("first", 0.0, 0.007),
        ("outer", 1.0, 5.0),
        ("inner", 1.0, 0.001),
    ]


def test_the_documents_name_every_logger() -> None:
    page = (ROOT / "docs/how-to/time.md").read_text()
    named = set(re.findall(r"^\| `(trtdiag[\w.]*)` \|", page, re.MULTILINE))
    used = {
        node.args[0].value
        for path in (ROOT / "trtdiag").rglob("*.py")
        if "getLogger" in (text := path.read_text())  # to parse all takes a second
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "logging.getLogger"
        and isinstance(node.args[0], ast.Constant)
        and str(node.args[0].value).startswith("trtdiag")  # torch's own is asked to be quiet, and documented by torch
    }
    assert used == named
