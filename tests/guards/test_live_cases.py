"""Live exports that a practitioner would try, each built, analyzed and fixed once for all that is asked of it.

Of the report: no guard is dropped, the allowed sizes are those measured.  Of the fix: it ends in a sound program that
keeps what a single Dim can keep.  Of both: they declare the same sizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import trtdiag
from tests.guards import cases
from tests.guards.asks import Span
from tests.guards.fix_exceptions import BEST, KEEPS_LESS, NOT_PROVEN, TOO_SLOW, TRULY_STATIC, UNSOLVABLE
from tests.guards.free_sizes import FREE, free
from tests.guards.live_exceptions import OTHER_THAN_MEASURED, UNREAD
from tests.guards.one_answer import check_one_answer, declares
from tests.guards.registry import Case
from tests.harness.admitted import Ask, admitted, asked_dims
from tests.harness.best_dim import best_kept
from tests.harness.real_runs import judge_on_data
from tests.harness.soundness import judge
from tests.models.library import live_cases, needs_library
from trtdiag.fixdims.fix import Fix, Outcome
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import InputDim
from trtdiag.frontend.read_guards import read_guard
from trtdiag.pipeline.analyze import analyze
from trtdiag.report.report import Report
from trtdiag.symbolic.evaluate_array import Array, evaluate_array, holds_array
from trtdiag.symbolic.expr import And, Sym, Truth
from trtdiag.symbolic.tree import free_symbols

MEASURED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "measured.json").read_text())
# What torch's own loop comes to.  Three of its answers pass on shapes and fail on data: hf_bart at 129 positions of
# 128, hf_whisper_full at 33 of 32, hf_bert_sep_mask where the mask has fewer rows than there are sequences.
TORCH: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "torch_loop.json").read_text())
# One Dim says one progression: what is measured for several residues counts as the best of them.
RANDOM_POINTS = 24

# One of each kind: residue, split, sizes from data.  Branches and sums are quick in tests/fixdims.  Nested floors
# (patch14_merge2) take 5 s and are slow: the quick run has them in tests/fixdims/test_choose_cases.py.
QUICK = (
    "conv_deconv_3mod4",
    "chunk2_gate",
    "nonzero_branch",
)


class Examined:
    """A case with what was made of it, by the first test that asks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.made = cases.build(name)
        self.ask = Ask(*self.made)

    @cached_property
    def report(self) -> Report:
        return analyze(self.made)

    @cached_property
    def fix(self) -> Fix:
        module, args, kwargs, dynamic_shapes = self.made
        return trtdiag.fix_dims(module, args, kwargs, dynamic_shapes=dynamic_shapes)

    @property
    def fixed(self) -> Ask:
        """What was asked, with the corrected dims."""
        return Ask(self.ask.model, self.fix.args or self.ask.args, self.fix.kwargs or {}, self.fix.dynamic_shapes)


@pytest.fixture(scope="module")
def live(request: pytest.FixtureRequest) -> Examined:
    """With this scope pytest runs all tests of a case one after the other, then lets go of it."""
    with needs_library(request.param):
        return Examined(request.param)


def spans(spec: Any) -> dict[str, Span]:
    """The ranges that a case asks for, by name."""
    if isinstance(spec, Span):
        return {spec.name: spec}
    inner = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, (tuple, list)) else ()
    return {name: span for part in inner for name, span in spans(part).items()}


def dims_of(report: Report, names: list[str]) -> list[InputDim]:
    """The input dims with these declared names."""
    return [dim for tensor in report.analysis.program.inputs for dim in tensor.dims if dim.declared_name in names]


def check_every_guard_is_read_or_named(name: str, report: Report) -> None:
    dims = report.analysis.dims
    assert dims.rows
    assert sorted(guard.text for guard in dims.unparsed) == sorted(UNREAD.get(name, ([], ""))[0])
    assert all(guard.why for guard in dims.unparsed)
    # Each guard that torch recorded is judged, or holds for any sizes, or is named as unread.
    judged, unread = {c.condition for c in dims.constraints}, {guard.text for guard in dims.unparsed}
    sites = Sites(report.analysis.program)
    for guard in report.analysis.program.guards:
        if str(guard.condition) not in unread:
            condition = read_guard(guard, sites)
            parts = condition.args if isinstance(condition, And) else (condition,)
            assert set(parts) - {Truth(True)} <= judged


def allowed_count(report: Report, symbol: str, values: Array, dims: list[InputDim], asked: dict[str, Span]) -> int:
    """How many values of a symbol satisfy every constraint on it and keep each of its dims in the asked range.

    Other sizes are as in the example, as they were when this was measured, those of the same Dim as this one; a size
    born from data has none.
    """
    allowed = np.ones(len(values), dtype=bool)
    for dim in dims:
        assert dim.declared_name is not None
        sizes = evaluate_array(dim.expr, {symbol: values})
        allowed &= (sizes >= asked[dim.declared_name].low) & (sizes <= asked[dim.declared_name].high)
    hints, names = report.analysis.program.hints, report.analysis.program.names
    for constraint in report.analysis.dims.constraints:
        others = set(constraint.symbols) - {symbol}
        if symbol in constraint.symbols and others <= set(hints):
            rest = {name: values if names[name] == names[symbol] else np.int64(hints[name]) for name in others}
            allowed &= holds_array(constraint.condition, {symbol: values, **rest})
    return int(allowed.sum())


def alone_in(dims: list[InputDim], symbol: str) -> list[InputDim]:
    """Those dims whose size this symbol decides and no other."""
    return [dim for dim in dims if free_symbols(dim.expr) == {symbol}]


def check_allowed_sizes_are_those_measured(name: str, report: Report) -> None:
    asked = spans(cases.CASES[name].make().spec)
    differing = {}
    for measured in MEASURED[name]["allowed"]:
        dims = dims_of(report, measured["dims"])
        symbols = {dim.expr.name: asked[dim.declared_name or ""] for dim in dims if isinstance(dim.expr, Sym)}
        # Where the export fails, torch is left to its own dims, and ties those of one Dim only if the model does.
        if not symbols or len(symbols) > 1 < len(measured["dims"]):
            differing["/".join(measured["dims"])] = "no symbol of its own"
            continue
        counts = {
            allowed_count(report, symbol, np.arange(span.low, span.high + 1), alone_in(dims, symbol), asked)
            for symbol, span in symbols.items()
        }
        count = ", ".join(map(str, sorted(counts)))
        if count != str(measured["count"]):
            differing["/".join(measured["dims"])] = f"{count} for {measured['count']}"
    assert differing == OTHER_THAN_MEASURED.get(name, ({}, ""))[0]


@pytest.mark.parametrize("live", live_cases(QUICK), indirect=True)
def test_live_case(live: Examined) -> None:
    check_every_guard_is_read_or_named(live.name, live.report)
    if MEASURED.get(live.name, {}).get("allowed"):
        check_allowed_sizes_are_those_measured(live.name, live.report)


@pytest.mark.parametrize("live", live_cases(()), indirect=True)  # quick: tests/fixdims/test_from_text_exports.py
def test_both_commands_give_one_answer(live: Examined) -> None:
    if live.name in TOO_SLOW:
        pytest.skip(f"no answer to compare: {TOO_SLOW[live.name]}")
    check_one_answer(live.report, live.fix)


def check_nothing_helps(fix: Fix) -> None:
    assert fix.outcome is Outcome.IMPOSSIBLE
    assert fix.conflicts or fix.checks or fix.failure


def check_the_limit_is_named(ask: Ask) -> None:
    """Of a model for which torch.export needs many minutes it is said what ended the search, and what to do."""
    fix = trtdiag.fix_dims((ask.model, ask.args, dict(ask.kwargs), ask.dynamic_shapes), time_limit_s=20.0)
    assert fix.outcome is Outcome.IMPOSSIBLE
    assert not fix.proven
    assert fix.failure == (
        "it took longer than 20 s (--time-limit, time_limit_s=): "
        "give torch.export more time, or make fewer dims dynamic"
    )


# Quick: residues, unions of them, splits, pinned batches, relations and nested floors in test_choose_cases and
# test_fix_dims_relations of tests/fixdims.
@pytest.mark.parametrize("live", live_cases(()), indirect=True)
def test_live_fix(live: Examined) -> None:
    name = live.name
    if name in TOO_SLOW:
        check_the_limit_is_named(live.ask)
        return
    fix, asked = live.fix, asked_dims(live.ask)
    if name in UNSOLVABLE:
        check_nothing_helps(fix)
        return
    assert fix.outcome is not Outcome.IMPOSSIBLE, (fix.notes, fix.failure, fix.conflicts)
    found = judge(fix.program, live.fixed, asked, random=RANDOM_POINTS)
    assert found.failures == []
    assert found.points > 0
    assert fix.confirmation.exported
    assert fix.proven == (name not in NOT_PROVEN), fix.proof

    of = admitted(fix.program, live.fixed, asked)
    kept = {one.name: len(of.kept(one)) for one in asked}
    assert {dim for dim, count in kept.items() if count <= 1} == set(TRULY_STATIC.get(name, ()))
    less = {dim: f"{kept[dim]} of {best}" for dim, best in best_kept(name).items() if kept[dim] < best}
    assert less == KEEPS_LESS.get(name, ({}, ""))[0]
    if TORCH.get(name, {}).get("sound"):
        assert of.combinations() >= TORCH[name]["joint"]


def slow_cases(takes: Callable[[str, Case], object]) -> list[Any]:
    """Those that it takes by name and case."""
    return [param for param in live_cases(()) if takes(str(param.values[0]), cases.CASES[str(param.values[0])])]


DECODERS = slow_cases(lambda _name, case: {"kv-cache", "cross"} & set(case.tags))
DETECTORS = slow_cases(lambda _name, case: case.family == "detectors")
TABLES = {"learned_positions": 128, "relative_distances": 63}


# Quick: what ties sizes on data in tests/fixdims/test_on_data.py, the judge in test_real_runs_judge.py there.
@pytest.mark.parametrize("live", DECODERS, indirect=True)
def test_a_decoders_answer_runs_on_real_data(live: Examined) -> None:
    """No answer called proven fails at sizes that differ wherever they are free."""
    asked = asked_dims(live.ask)
    found = judge_on_data(live.fix.program, live.fixed, asked=asked)
    assert found.failures == []
    assert found.points >= 3
    assert live.fix.proven, live.fix.proof
    of = admitted(live.fix.program, live.fixed, asked)
    # Every asked length keeps more than its example, and what is not tied to another is as wide as it was asked.
    assert all(len(of.kept(one)) > 1 for one in asked)
    if live.name in FREE:
        assert free(of) == FREE[live.name]


# The quick run has test_a_table_of_positions_ends_the_range in tests/fixdims/test_on_data.py.
@pytest.mark.parametrize("live", slow_cases(lambda name, _case: name in TABLES), indirect=True)
def test_the_greatest_sizes_stay_inside_a_table_of_positions(live: Examined) -> None:
    """The judge looks at small sizes; a table ends at large ones."""
    of = admitted(live.fix.program, live.fixed, asked_dims(live.ask))
    ends = {one.name: max(of.kept(one)) for one in of.asked}
    batch, new, past = (ends[key] for key in ("b", "q", "tk"))
    assert ends["tv"] == past
    shapes = of.shapes({axis.name: of.values(axis)[-1] for axis in of.axes})
    made = [torch.zeros(shape or (), dtype=given.dtype) for shape, given in zip(shapes, live.ask.args, strict=True)]
    assert made[0].shape[:2] == (batch, new)
    live.fix.program.module()(*made)
    # Not one token more, whichever dim gives it.
    assert {"learned_positions": new + past, "relative_distances": 2 * new - 1}[live.name] == TABLES[live.name]


@pytest.mark.parametrize("live", DETECTORS, indirect=True)
def test_a_detector_runs_at_the_least_and_the_greatest_sizes_that_either_command_declares(live: Examined) -> None:
    code = next(
        finding.fix.code
        for finding in live.report.findings
        if finding.fix is not None and declares(finding) and "not proven" not in finding.fix.title
    )
    names: dict[str, Any] = {}
    exec(code, names)  # what a user would paste
    assert live.fix.proven
    for declared in (names["dynamic_shapes"], live.fix.dynamic_shapes):
        program = torch.export.export(live.ask.model, live.ask.args, dynamic_shapes=declared, strict=False).module()
        ((height, width),) = ((dims[2], dims[3]) for dims in declared)
        for sizes in ((1, height.min, width.min), (2, height.min, width.max), (1, height.max, width.max)):
            batch, *picture = sizes
            program(torch.randn(batch, 3, *picture))


def test_exceptions_name_cases_that_exist() -> None:
    named = {*UNSOLVABLE, *TOO_SLOW, *TRULY_STATIC, *KEEPS_LESS, *NOT_PROVEN, *BEST}
    assert named <= set(cases.CASES)
