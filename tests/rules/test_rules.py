"""Each rule fires on its bad programs exactly as its expected text says, and is silent on its good one."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.harness.findings import rendered
from tests.harness.rows import thinned
from trtdiag.analysis.finding import Applicability, Severity
from trtdiag.analysis.registry import rules
from trtdiag.pipeline.analyze import analyze
from trtdiag.report.report import Report
from trtdiag.targets import installed_rtx_version

HERE = Path(__file__).parent
BAD = sorted(HERE.glob("*/bad*.py"))
GOOD = sorted(HERE.glob("*/good.py"))

TARGET = "11.4"
"""What the expected files were written for: with a newer release nothing of them changes."""

# TRTDIAG_WRITE_EXPECTED=1 rewrites the expected files; read the difference before committing it.
WRITE = bool(os.environ.get("TRTDIAG_WRITE_EXPECTED"))

TORCH = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def case(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def report_of(path: Path) -> Report:
    torch.manual_seed(0)
    module = case(path)
    if getattr(module, "NEEDS", None) == "tensorrt-rtx" and installed_rtx_version() is None:
        pytest.skip("tensorrt-rtx is not installed")
    return analyze(module.program(), **{"target": TARGET, **getattr(module, "OPTIONS", {})})


def named(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def test_every_rule_has_its_folder_with_both_sides() -> None:
    ids = {entry.id for entry in rules()}
    assert {path.parent.name for path in BAD if path.stem == "bad"} == ids
    assert {path.parent.name for path in GOOD} == ids
    assert {path.name for path in HERE.iterdir() if path.is_dir() and path.name != "__pycache__"} == ids


def expected_of(path: Path) -> Path:
    """``expected.txt``, or ``expected.torch-2.15.txt`` beside it: torch 2.15 and later record other guards there."""
    name = path.stem.replace("bad", "expected")
    since = {
        tuple(map(int, other.stem.rpartition("-")[2].split("."))): other
        for other in HERE.glob(f"{path.parent.name}/{name}.torch-*.txt")
    }
    newest = max((torch_ for torch_ in since if torch_ <= TORCH), default=None)
    return path.with_name(f"{name}.txt") if newest is None else since[newest]


# Quick: one program for each rule; further ones show other words of it.
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.stem == "bad" else pytest.mark.slow) for path in BAD],
    ids=[named(path) for path in BAD],
)
def test_bad_fires_exactly_as_expected(path: Path) -> None:
    if path.stem == "bad_unproved" and TORCH < (2, 12):
        pytest.skip("torch 2.11 proves this guard itself and exports the program")
    found = [finding for finding in report_of(path).findings if finding.rule == path.parent.name]
    assert found, "the rule is silent on its bad program"
    # A note may say that all is well: integers that are shown to fit.
    assert all(finding.fix or finding.severity is Severity.INFO for finding in found), "it does not say what to do"
    text = rendered(found)
    expected = expected_of(path)
    if WRITE:
        expected.write_text(text)
    assert text == expected.read_text()


# Quick: each third; those that a safe fix gives are run below, and other clean programs in tests/examples.
@thinned("path", GOOD, every=3, ids=named)
def test_good_is_silent(path: Path) -> None:
    assert [f.message for f in report_of(path).findings if f.rule == path.parent.name] == []


@pytest.mark.parametrize("rule_id", ["SYM202", "GRD302", "GRD307", "ART801"])
def test_a_safe_fix_accepts_what_was_accepted_and_gives_the_same_numbers(rule_id: str) -> None:
    """``good.py`` is ``bad.py`` with the fix applied; the good program must do all that the bad one did."""
    bad = report_of(HERE / rule_id / "bad.py")
    fixes = [finding.fix for finding in bad.findings if finding.rule == rule_id]
    assert [fix.applicability for fix in fixes if fix] == [Applicability.SAFE]
    fixed = report_of(HERE / rule_id / "good.py").analysis.program.exported
    before = bad.analysis.program.exported
    assert fixed is not None
    assert before is not None
    for inputs in case(HERE / rule_id / "good.py").accepted():
        torch.testing.assert_close(fixed.module()(*inputs), before.module()(*inputs))
