"""The verdict line and the order of findings by cause."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_analysis import FINDINGS, analysis, clean_analysis, finding

from trtdiag.analysis.finding import Impact, Severity
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.report.verdict import cause_trees, not_covered, verdict

NOTE = finding(1, "MET103", Severity.INFO, "12 ops have no user source line")


def test_names_the_worst_root_cause_first() -> None:
    result = verdict(analysis())
    assert result.status == "error"
    assert result.text.startswith("1 error, 2 warnings, 1 note: GRD301 a guard breaks the declared range of h")


def test_warnings_alone_are_a_warning() -> None:
    result = verdict(clean_analysis(findings=(FINDINGS[1],)))
    assert (result.status, result.text) == ("warning", "1 warning: TYP402 a float64 tensor: arange")


def test_clean_names_notes_and_what_was_not_checked() -> None:
    result = verdict(clean_analysis(findings=(NOTE,), not_checked=("a", "b")))
    assert result.status == "clean"
    assert result.text == "No findings at or above warning (1 note); 2 things not checked"


@pytest.mark.parametrize(("many", "told"), [(1, 1), (5, 5), (8, 8), (11, 8)])
def test_what_was_not_checked_is_named_and_only_a_long_list_is_cut(many: int, told: int) -> None:
    open_things = tuple(f"thing {number}" for number in range(many))
    lines = not_covered(clean_analysis(not_checked=open_things))
    assert [line for line in lines if "not checked: " in line] == [
        f"not checked: {each}" for each in open_things[:told]
    ]
    assert [line for line in lines if "more not checked" in line] == [f"and {many - 8} more not checked"] * (many > 8)


def test_clean_claims_no_more_than_findings() -> None:
    assert verdict(clean_analysis()).text == "No findings"


def test_failed_stage_is_never_clean() -> None:
    failed = (StageTiming("capture", "ok", 0.1), StageTiming("dims", "failed", 0.1, "no"))
    result = verdict(clean_analysis(stages=failed))
    assert (result.status, result.text) == ("incomplete", "Analysis incomplete: dims failed")
    assert "dims failed" in result.caveat


def test_the_headline_begins_with_what_failed() -> None:
    stages = (StageTiming("capture", "ok", 0.1), StageTiming("build", "failed", 0.1, "no kernel"))
    result = verdict(analysis(stages=stages))
    assert result.headline.startswith("build failed: 1 error, 2 warnings, 1 note")
    assert "build failed" in result.caveat  # the terminal's line does not name it
    assert "failed" not in result.uncovered
    assert verdict(analysis(stages=stages[:1])).headline.startswith("1 error")


def test_stage_that_did_not_run_is_in_the_caveat() -> None:
    assert "build not run" in verdict(clean_analysis(stages=(StageTiming("build", "not run", 0.0),))).caveat


def test_caused_findings_stand_under_their_root() -> None:
    trees = cause_trees(FINDINGS)
    assert [tree.finding.id for tree in trees] == ["GRD301-1", "TYP402-1", "MET103-1"]
    assert [child.finding.id for child in trees[0].caused] == ["SYM205-1"]


def test_mild_root_of_an_error_stands_above_a_warning() -> None:
    root = finding(1, "MET101", Severity.INFO, "a node lost its value")
    caused = finding(1, "SYM201", Severity.ERROR, "a symbol without bounds", root="MET101-1")
    other = finding(2, "TYP402", Severity.WARNING, "float64")
    assert [tree.finding.id for tree in cause_trees((caused, other, root))] == ["MET101-1", "TYP402-2"]


@pytest.mark.parametrize("roots", [("B-1", "A-1"), ("A-1", "B-1"), ("none-1", None), ("B-1", "C-1")])
def test_every_finding_is_shown_once_whatever_its_root(roots: tuple[str | None, str | None]) -> None:
    chain = (
        finding(1, "A", Severity.ERROR, "a", root=roots[0]),
        finding(1, "B", Severity.ERROR, "b", root=roots[1]),
        finding(1, "C", Severity.ERROR, "c", root="B-1"),
    )
    shown = [found.id for tree in cause_trees(chain) for found in tree.walk()]
    assert sorted(shown) == ["A-1", "B-1", "C-1"]


def test_long_chain_of_causes_is_walked() -> None:
    chain = tuple(
        replace(finding(at, "A", Severity.ERROR, "a"), root=f"A-{at - 1}" if at > 1 else None) for at in range(1, 61)
    )
    shown = [found.id for tree in cause_trees(chain) for found in tree.walk()]
    assert shown == [f"A-{at}" for at in range(1, 61)]


def test_of_one_severity_what_costs_more_engines_then_ops_then_bytes_comes_first() -> None:
    costs = (None, Impact(0, 9, 5), Impact(2, 1, 0), Impact(0, 9, None), Impact(0, 9, 700), Impact(2, 3, 0))
    found = tuple(finding(at, "A", Severity.WARNING, "a", impact=cost) for at, cost in enumerate(costs))
    error = finding(9, "Z", Severity.ERROR, "z")
    ordered = [tree.finding.id for tree in cause_trees((*found, error))]
    assert ordered == ["Z-9", "A-5", "A-2", "A-3", "A-4", "A-1", "A-0"]


def test_a_cause_has_the_weight_of_what_it_causes() -> None:
    root = finding(1, "A", Severity.WARNING, "a float64 constant")
    caused = finding(1, "B", Severity.WARNING, "an op stays", root="A-1", impact=Impact(3, 1, 0))
    other = finding(2, "C", Severity.WARNING, "another op stays", impact=Impact(1, 50, 1 << 30))
    assert [tree.finding.id for tree in cause_trees((other, root, caused))] == ["A-1", "C-2"]
