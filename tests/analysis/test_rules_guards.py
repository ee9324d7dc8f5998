"""The guard and export rules on facts written by hand: grouping, texts, severities, root causes, fixes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.harness import facts
from trtdiag.analysis.finding import Applicability, Finding, Severity
from trtdiag.analysis.run import run
from trtdiag.dims.facts import (
    Conflict,
    DimRow,
    DimSuggestion,
    DimSystem,
    GuardOrigin,
    Pinned,
    Tied,
    UnparsedGuard,
    Verdict,
)
from trtdiag.frontend.program import ExportFailure, InputDim, InputTensor, Program
from trtdiag.graph.source import Stack
from trtdiag.symbolic import mul
from trtdiag.symbolic.expr import Sym
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range

EXHAUSTIVE = Proof(ProofKind.EXHAUSTIVE, 2026)


def found(system: DimSystem, program: Program | None = None, *select: str) -> list[Finding]:
    given = {Program: program or facts.program(), DimSystem: system}
    return list(run(given, select=select).findings)


def suggestion(**changes: Any) -> DimSuggestion:
    plain: dict[str, Any] = {
        "symbols": ("s0",),
        "code": ('_h = Dim("_h", min=17, max=270)',),
        "spelled": "8*_h",
        "summary": "h % 8 == 0: keeps 254 of 2026 values",
        "kept": (254, 2026),
        "proof": EXHAUSTIVE,
        "alternatives": (),
    }
    return DimSuggestion(**(plain | changes))


def row(site: str, symbol: str, suggested: str) -> DimRow:
    return DimRow(site, symbol, "h", Range(135, 2160), "", suggested, "breaks")


@pytest.mark.parametrize(
    ("rows", "severity"), [((), Severity.WARNING), ((row("x.shape[2]", "u0", ""),), Severity.ERROR)]
)
def test_an_unbacked_size_is_of_data_where_it_is_of_no_input(rows: tuple[DimRow, ...], severity: Severity) -> None:
    guard = facts.constraint("u0 % 8 == 0", counterexample={"u0": 9}, witness={"u0": 8})
    finding = next(f for f in found(facts.dims(constraints=(guard,), rows=rows)) if f.rule == "GRD301")
    assert finding.severity is severity
    assert ("depends on data" in finding.message) is (severity is Severity.WARNING)


def test_a_broken_guard_says_what_works_what_fails_and_what_to_write() -> None:
    guard = facts.constraint("h % 8 == 0", line=41, allowed="h % 8 == 0: 254 of 2026 values", kept=(254, 2026))
    system = facts.dims(constraints=(guard,), suggestions=(suggestion(),), rows=(row("x.shape[2]", "s0", "8*_h"),))
    (finding,) = found(system)
    assert finding.rule == "GRD301"
    assert finding.severity is Severity.ERROR
    assert finding.message == "guard h % 8 == 0 breaks the declared range of h: h = 136 works, h = 137 fails"
    said = [(e.fact, e.source) for e in finding.evidence]
    assert ("guard h % 8 == 0", "_guards_code") in said
    assert ("h = 137 breaks it", "exhaustive, 2,026 values") in said
    assert ("allowed: h % 8 == 0: 254 of 2026 values", "exhaustive, 2,026 values") in said
    assert ("y = y.view(-1, 8)", "/home/me/model.py:41") in said
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.UNSAFE
    assert finding.fix.code == '_h = Dim("_h", min=17, max=270)\n# x.shape[2]: 8*_h'
    assert finding.places[0].frame is not None
    assert finding.places[0].frame.line == 41


def test_sizes_that_one_of_several_guards_allows_are_not_called_allowed() -> None:
    first = facts.constraint("(h - 11) // 32 != 2", line=41, allowed="h <= 74 or h >= 107", kept=(417, 449))
    other = facts.constraint("(h - 11) // 16 >= 4", line=41, allowed="h >= 75", kept=(438, 449))
    (finding,) = found(facts.dims(constraints=(other, first)))
    said = [evidence.fact for evidence in finding.evidence]
    assert "allowed by (h - 11) // 32 != 2 alone: h <= 74 or h >= 107" in said
    assert not any(fact.startswith("allowed:") for fact in said)


def test_a_suggestion_that_keeps_every_value_is_safe_only_with_a_proof() -> None:
    guard = facts.constraint("h % 8 == 0")
    for proof, expected in ((EXHAUSTIVE, Applicability.SAFE), (Proof(ProofKind.SAMPLED), Applicability.UNSAFE)):
        (finding,) = found(facts.dims(constraints=(guard,), suggestions=(suggestion(kept=(9, 9), proof=proof),)))
        assert finding.fix is not None
        assert finding.fix.applicability is expected


def test_guards_of_one_line_and_size_are_one_finding_led_by_the_narrowest() -> None:
    guards = (
        facts.constraint("h >= 16", line=41, kept=(2000, 2026)),
        facts.constraint("h % 8 == 0", line=41, kept=(254, 2026)),
        facts.constraint("w % 4 == 0", line=41, counterexample={"w": 5}, refused={"s1": 5}),
        facts.constraint("h != 140", line=50),
    )
    messages = [f.message for f in found(facts.dims(constraints=guards))]
    assert messages == [
        "guard h % 8 == 0 breaks the declared range of h: h = 136 works, h = 137 fails (with 1 more guard)",
        "guard w % 4 == 0 breaks the declared range of w: w = 4 works, w = 5 fails",
        "guard h != 140 breaks the declared range of h: h = 136 works, h = 137 fails",
    ]


def test_many_guards_are_counted_not_dropped() -> None:
    guards = tuple(facts.constraint(f"h != {i}", line=41) for i in range(140, 160))
    (finding,) = found(facts.dims(constraints=guards))
    assert "(with 19 more guards)" in finding.message
    assert "14 more guards on the same sizes" in [e.fact for e in finding.evidence]


def test_guards_that_hold_are_silent() -> None:
    assert found(facts.dims(constraints=(facts.constraint("h > 1", verdict=Verdict.HOLDS, branch=True),))) == []


def test_a_guard_on_data_is_a_warning_without_a_declaration_as_fix() -> None:
    guard = facts.constraint("u0 <= h")
    (finding,) = found(facts.dims(constraints=(guard,), suggestions=(suggestion(),)))
    assert finding.severity is Severity.WARNING
    assert finding.fix is None


def test_a_python_branch_is_the_root_of_the_broken_guard() -> None:
    guard = facts.constraint("h % 8 == 0", line=41, branch=True, kept=(254, 2026))
    error, warning = found(facts.dims(constraints=(guard,)))
    assert (error.rule, warning.rule) == ("GRD301", "GRD303")
    assert error.root == warning.id
    assert warning.message == (
        "the Python condition on h at /home/me/model.py:41 was decided once:"
        " only the side of h % 8 == 0 is in the program"
    )
    assert "1,772 of 2,026 declared values take the other side" in [e.fact for e in warning.evidence]


def test_an_undecided_guard_is_named_once() -> None:
    system = facts.dims(constraints=(facts.constraint("b * t % 16 == 0", verdict=Verdict.UNKNOWN),))
    assert [(f.rule, f.severity) for f in found(system)] == [("GRD306", Severity.WARNING)]
    branch = facts.dims(constraints=(facts.constraint("b * t % 16 == 0", verdict=Verdict.UNKNOWN, branch=True),))
    assert [f.rule for f in found(branch)] == ["GRD303"]
    by_data = facts.dims(constraints=(facts.constraint("u0 < 9", verdict=Verdict.UNKNOWN),))
    assert found(by_data) == []


def test_an_unread_guard_is_named_with_its_text() -> None:
    (finding,) = found(facts.dims(unparsed=(UnparsedGuard("f(h) == 1", "unknown function f", "_guards_code"),)))
    assert (finding.rule, finding.message) == ("GRD305", "guard could not be read: f(h) == 1")
    assert ("f(h) == 1", "_guards_code: unknown function f") in [(e.fact, e.source) for e in finding.evidence]


def tied(smallest: int) -> DimSystem:
    guard = facts.constraint("a == b", line=7)
    tie = Tied(("x.shape[0]", "y.shape[0]"), ("a", "b"), guard, smallest)
    return facts.dims(constraints=(guard,), tied=(tie,))


def test_tied_dims_are_reported_once_and_are_safe_to_join_from_two_on() -> None:
    (finding,) = found(tied(2))
    assert finding.rule == "GRD302"
    assert finding.message == "x.shape[0] (a) and y.shape[0] (b) are declared apart but must always be equal"
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.SAFE
    (broadcast,) = found(tied(1))
    assert broadcast.fix is not None
    assert broadcast.fix.applicability is Applicability.UNSAFE


def test_a_conflict_lists_its_guards_and_the_box() -> None:
    low, high = facts.constraint("h % 8 == 0", line=3), facts.constraint("h % 8 == 1", line=9)
    conflict = Conflict((low, high), ("9 <= h <= 64",), Proof(ProofKind.SMT))
    finding = next(f for f in found(facts.dims(constraints=(low, high), conflicts=(conflict,))) if f.rule == "GRD304")
    assert finding.message == (
        "no value with 9 <= h <= 64 satisfies these 2 guards together: h % 8 == 0 and h % 8 == 1"
    )
    assert ("no values satisfy all of these", "smt") in [(e.fact, e.source) for e in finding.evidence]


def failed(message: str, relaxed: str | None = None) -> Program:
    return facts.program(failure=ExportFailure("UserError", message, relaxed))


def test_a_failed_export_is_explained_by_the_guard_that_breaks() -> None:
    system = facts.dims(constraints=(facts.constraint("h % 8 == 0", line=41),))
    by_rule = {f.rule: f for f in found(system, failed("Constraints violated (h)!\n  - Not all values"))}
    assert by_rule["ART802"].root == by_rule["GRD301"].id
    assert by_rule["ART802"].message == "torch.export failed: Constraints violated (h)!"
    assert "torch.export refused these dynamic_shapes" in [e.fact for e in by_rule["GRD301"].evidence]


def test_a_crash_of_torchs_solver_is_explained_where_the_relaxed_export_passed() -> None:
    system = facts.dims(constraints=(facts.constraint("h % 8 == 0"),))
    by_rule = {f.rule: f for f in found(system, failed("list index out of range", relaxed="with Dim.AUTO"))}
    assert by_rule["ART802"].root == by_rule["GRD301"].id


def test_a_failure_about_something_else_has_no_root_in_the_dims() -> None:
    system = facts.dims(constraints=(facts.constraint("h % 8 == 0"),))
    by_rule = {f.rule: f for f in found(system, failed("Could not guard on data-dependent expression"))}
    assert by_rule["ART802"].root is None
    assert by_rule["ART802"].fix is not None
    assert "line that torch names" in by_rule["ART802"].fix.title
    assert "trtdiag fix-dims tells whether the inputs" in by_rule["ART802"].fix.title


def test_a_failure_without_a_word_still_has_evidence() -> None:
    (finding,) = found(facts.dims(), failed(""))
    assert finding.message == "torch.export failed: UserError"


@pytest.mark.parametrize(
    "ending",
    [
        "",
        # torch 2.15, after every undecided condition
        " If this was caused by Python `not` on a symbolic boolean, use torch.sym_not() or an equivalent comparison"
        " instead; Python `not` cannot be overloaded outside Dynamo bytecode tracing.",
    ],
)
def test_what_torch_says_after_every_undecided_condition_is_no_evidence(ending: str) -> None:
    advice = "consider using data-dependent friendly APIs such as guard_or_false."
    unhinted = " (unhinted: Eq(u0, 1)).  (Size-like symbols: none)"
    place = 'The following call raised this error:\n  File "a.py", line 1, in b\n    if x.sum() > 0:\n'
    message = (
        f"Could not guard on data-dependent expression Eq(u0, 1){unhinted}\n{advice}{ending}\nCaused by: (a.py:1 in b)"
        f"\n\n{place}"
    )
    (finding,) = found(facts.dims(), failed(message))
    said = [evidence.fact for evidence in finding.evidence if evidence.source == "UserError"]
    assert said == ["Could not guard on data-dependent expression Eq(u0, 1)"]


def test_a_pinned_dim_explains_a_failure_when_nothing_stronger_does() -> None:
    pin = Pinned("x.shape[1]", "seq", 12, "the model needs it to be 12", GuardOrigin(("ShapeEnv",)))
    by_rule = {f.rule: f for f in found(facts.dims(pinned=(pin,)), failed("Constraints violated (seq)!"))}
    assert by_rule["ART802"].root == by_rule["SYM202"].id == "SYM202-1"
    assert by_rule["SYM202"].fix is not None
    assert by_rule["SYM202"].fix.code == "{1: Dim.STATIC}  # for x: always 12"


def test_a_guard_that_breaks_only_with_another_is_counted_there() -> None:
    guards = (
        facts.constraint("h % 4 == 0", line=50, follows=True),
        facts.constraint("h % 8 == 0", line=41),
    )
    (finding,) = found(facts.dims(constraints=guards))
    assert finding.message.startswith("guard h % 8 == 0 breaks")
    assert "1 more guard broken only where these are" in [e.fact for e in finding.evidence]


def test_a_branch_stays_a_finding_even_where_another_guard_breaks_first() -> None:
    guards = (
        facts.constraint("h % 4 == 0", line=50, follows=True, branch=True),
        facts.constraint("h % 8 == 0", line=41),
    )
    assert sorted(f.rule for f in found(facts.dims(constraints=guards))) == ["GRD301", "GRD303"]


def test_a_guard_that_breaks_at_zero_only_is_worth_knowing_and_explains_no_failure() -> None:
    system = facts.dims(constraints=(facts.constraint("b != 0", only_at_zero=True, counterexample={"b": 0}),))
    by_rule = {f.rule: f for f in found(system, failed("Constraints violated (seq)!"))}
    assert by_rule["GRD301"].severity is Severity.INFO
    assert by_rule["ART802"].root is None


def test_a_site_is_named_once_in_the_code() -> None:
    code = ('_h = Dim("_h", min=17, max=270)', "# x.shape[2]: 8*_h")
    guard = facts.constraint("h % 8 == 0")
    rows = (row("x.shape[2]", "s0", "8*_h"), row("y.shape[2]", "s0", "8*_h"))
    (finding,) = found(facts.dims(constraints=(guard,), suggestions=(suggestion(code=code),), rows=rows))
    assert finding.fix is not None
    assert finding.fix.code.splitlines()[1:] == ["# x.shape[2]: 8*_h", "# y.shape[2]: 8*_h"]


def test_what_is_said_to_work_satisfies_every_guard() -> None:
    """136 satisfies the guard that 137 breaks, but another guard refuses it: 144 is the nearest that works."""
    guards = (facts.constraint("h % 8 == 0", line=41), facts.constraint("h // 8 != 17", line=50))
    first = found(facts.dims(constraints=guards))[0]
    assert first.message == "guard h % 8 == 0 breaks the declared range of h: h = 144 works, h = 137 fails"


def test_the_example_is_what_works_where_two_dims_take_part() -> None:
    guard = facts.constraint("h == 2 * w", counterexample={"h": 135, "w": 4}, refused={})
    (finding,) = found(facts.dims(constraints=(guard,)), facts.program(hints={"s0": 140, "s1": 70}))
    assert finding.message.endswith("breaks the declared range of h and w: h = 140, w = 70 works, h = 135, w = 4 fails")


def test_nothing_is_said_to_work_where_nothing_is_known_to() -> None:
    guard = facts.constraint("h == 2 * w", counterexample={"h": 135, "w": 4}, refused={})
    (finding,) = found(facts.dims(constraints=(guard,)), facts.program(hints={"s0": 141, "s1": 70}))
    assert finding.message.endswith("of h and w: h = 135, w = 4 fails")


def test_an_assertion_is_no_branch() -> None:
    for code in ("assert h % 8 == 0", "torch._check(h % 8 == 0)"):
        asserted = facts.constraint("h % 8 == 0", branch=True)
        stack = Stack((facts.frame(41, code),))
        guard = replace(asserted, origin=replace(asserted.origin, stack=stack))
        assert [f.rule for f in found(facts.dims(constraints=(guard,)))] == ["GRD301"]


def test_a_broken_guard_within_a_contradiction_is_shown_under_it() -> None:
    guard = facts.constraint("h % 4096 == 0", line=3)
    conflict = Conflict((guard,), ("h in 135..2160",), EXHAUSTIVE)
    by_rule = {f.rule: f for f in found(facts.dims(constraints=(guard,), conflicts=(conflict,)))}
    assert by_rule["GRD301"].root == by_rule["GRD304"].id
    assert by_rule["GRD304"].message == "no value with h in 135..2160 satisfies guard h % 4096 == 0"


def test_torchs_boilerplate_is_no_evidence() -> None:
    message = (
        'Constraints violated (h)! For more information, run with TORCH_LOGS="+dynamic".\n'
        "  - Not all values\n\n"
        "Suggested fixes:\n"
        "  h = 8*_h\n"
        "The error above occurred when calling torch.export.export. If you would like"
    )
    (finding,) = found(facts.dims(), failed(message))
    assert [e.fact for e in finding.evidence] == [
        "Constraints violated (h)!",
        "Not all values",
        "Suggested fixes: h = 8*_h",
        "no graph could be obtained",
    ]


def test_tied_dims_get_the_range_that_both_allow() -> None:
    inputs = tuple(
        InputTensor(name, name, torch.float32, (InputDim(name, 0, Sym("s0"), declared_range=ranges),))
        for name, ranges in (("x", Range(2, 64)), ("y", Range(4, None)))
    )
    (finding,) = found(tied(2), facts.program(inputs=inputs))
    assert finding.fix is not None
    assert finding.fix.code == 'a = Dim("a", min=4, max=64)\n# x.shape[0]: a\n# y.shape[0]: a'


def test_the_equation_that_pins_a_dim_is_not_a_second_finding() -> None:
    for verdict in (Verdict.BREAKS, Verdict.UNKNOWN):
        guard = facts.constraint("h == 12", line=7, verdict=verdict)
        pin = Pinned("x.shape[1]", "seq", 12, "tracing compared it with 12", guard.origin)
        assert [f.rule for f in found(facts.dims(constraints=(guard,), pinned=(pin,)))] == ["SYM202"]
        elsewhere = replace(pin, origin=facts.constraint("h == 12", line=8).origin)
        assert len(found(facts.dims(constraints=(guard,), pinned=(elsewhere,)))) == 2


def test_a_derived_dim_is_shown_as_the_size_that_the_user_passes() -> None:
    size = InputDim("x", 3, mul(4, Sym("s1")), declared_root="_w")
    program = facts.program(
        names={"s1": "_w"}, ranges={"s1": Range(8, 64)}, inputs=(InputTensor("x", "x", torch.float32, (size,)),)
    )
    guard = facts.constraint("w == 25", counterexample={"x.shape[3]": 32}, refused={"s1": 8}, witness={})
    (finding,) = found(facts.dims(constraints=(guard,)), program)
    assert finding.message.endswith("of x.shape[3]: x.shape[3] = 100 works, x.shape[3] = 32 fails")
    assert "x.shape[3] = 4*_w" in [e.fact for e in finding.evidence]


def test_a_relation_gets_dims_only_where_they_are_shown_to_satisfy_it() -> None:
    guard = facts.constraint("h == 2 * w", counterexample={"h": 135, "w": 4}, refused={})
    for proof, applicability in ((EXHAUSTIVE, Applicability.UNSAFE), (Proof(ProofKind.NONE), Applicability.MANUAL)):
        (finding,) = found(facts.dims(constraints=(guard,), suggestions=(suggestion(proof=proof),)))
        assert finding.fix is not None
        assert finding.fix.applicability is applicability
        assert bool(finding.fix.code) is (applicability is Applicability.UNSAFE)


def test_the_suggested_dim_comes_with_its_proof_and_what_else_could_be_said() -> None:
    words = ("h % 8 == 5: keeps 253 of 2026 values", "allowed by the guards: h % 8 in {0, 5..7}")
    system = facts.dims(constraints=(facts.constraint("h % 8 == 0"),), suggestions=(suggestion(alternatives=words),))
    said = [(e.fact, e.source) for e in found(system)[0].evidence]
    assert ("8*_h satisfies every guard", "exhaustive, 2,026 values") in said
    assert ("instead: h % 8 == 5: keeps 253 of 2026 values", "another Dim") in said
    assert not any("allowed by the guards" in fact for fact, _ in said)
