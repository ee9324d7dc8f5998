"""The limit on solving: the best that was found is the answer, and the answer says so."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.export import Dim

from tests.fixdims import small_models as models
from trtdiag import fix_dims
from trtdiag.dims.dynamic_shapes.asked import asked_plan, structure_of
from trtdiag.dims.solver.time_limit import Clock
from trtdiag.fixdims.child_export import planned, trial
from trtdiag.fixdims.export_loop import Search
from trtdiag.fixdims.fix import Outcome
from trtdiag.fixdims.time_budget import Allowance
from trtdiag.frontend.factory import recipe_of

ARGS = (torch.randn(2, 20), torch.randn(2, 10))
SPEC = {"x": {1: Dim("dx", min=2, max=4096)}, "y": {1: Dim("dy", min=2, max=4096)}}


def test_a_live_model_is_exported_once_and_answered_without_proof_that_there_was_no_time_for() -> None:
    steps: list[str] = []
    fix = fix_dims(models.EverySecond(), ARGS, dynamic_shapes=SPEC, solve_limit_s=0.001, progress=steps.append)
    assert sum(step.startswith("export") for step in steps) == 1
    assert fix.outcome is Outcome.CHANGED
    assert fix.confirmation.exported is False
    assert not fix.proven
    (note,) = (note for note in fix.notes if "--solve-limit" in note)
    assert "0.001 s" in note
    assert "best that was found" in note


@pytest.mark.slow  # quick: only what is computed counts
def test_with_time_enough_nothing_is_said_of_the_limit() -> None:
    fix = fix_dims(models.EverySecond(), ARGS, dynamic_shapes=SPEC, solve_limit_s=600)
    assert fix.confirmation.exported
    assert not any("limit" in note for note in fix.notes)


@pytest.mark.slow  # quick: a live model is exported once
def test_exports_of_a_saved_program_count(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    spec = {"x": {1: 2 * Dim("half", min=2, max=64)}, "y": {1: Dim.AUTO}}
    program = torch.export.export(models.EverySecond(), ARGS, dynamic_shapes=spec)
    torch.export.save(program, path)
    steps: list[str] = []
    fix = fix_dims(str(path), solve_limit_s=0.001, progress=steps.append)
    assert fix.proven <= bool(fix.confirmation.exported)  # what no export has confirmed is not proven
    assert sum(step.startswith("export") for step in steps) <= 1


def test_what_is_given_back_does_not_count() -> None:
    over = Allowance(0.0)
    assert over.look()
    more = Allowance(0.0)
    more.add(-100.0)
    assert not more.look()
    assert more.least(8.0) == pytest.approx(8.0)
    assert not Allowance(None).look()
    assert Allowance(None).least(7.0) == 7.0
    assert 0 < Allowance(0.0).least(8.0) < 1


def test_only_what_is_computed_counts() -> None:
    """On a machine that others use, the wall clock took the proof of a Swin from its answer."""
    allowance, clock = Allowance(0.2), Clock(0.2)
    time.sleep(0.4)
    assert not allowance.look()
    assert not clock.out
    allowance.add(0.3)  # of an export in a process of its own
    assert allowance.look()
    began = time.thread_time()
    while time.thread_time() - began < 0.25:
        sum(range(1000))
    assert clock.out


def test_what_is_run_beside_an_export_is_bounded_and_counts() -> None:
    """Runs of a live model's program took what they wanted: only the solving between exports counted."""
    asked = structure_of(recipe := recipe_of((models.EverySecond(), ARGS, {}, SPEC), "test"))
    plan = asked_plan(asked)
    tried = trial(recipe, plan, None, lambda: planned(recipe, asked, plan), own_s=0.0)
    assert tried.own_seconds > 0
    assert not tried.on_data.runs
    counted = Allowance(600.0)
    Search(plan, {}, lambda _plan, _why: replace(tried, own_seconds=700.0), 1, solving=counted).run()
    assert counted.look()


def test_a_search_without_a_limit_says_why_an_export_gave_no_answer() -> None:
    """The limit that it has not was put into words: a TypeError for each further program whose process ended."""
    asked = structure_of(recipe := recipe_of((models.EverySecond(), ARGS, {}, SPEC), "test"))
    plan = asked_plan(asked)
    tried = trial(recipe, plan, None, lambda: planned(recipe, asked, plan))
    found = Search(plan, {}, lambda _plan, _why: "the process was killed", 2, tried).run()
    assert not found.confirmed
    assert "the export gave no answer: the process was killed" in found.notes
