"""Live exports that a practitioner would try: each ends in a sound program that keeps what a single Dim can keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trtdiag
from tests.guards import cases
from tests.guards.fix_exceptions import BEST, KEEPS_LESS, NOT_PROVEN, TOO_SLOW, TRULY_STATIC, UNSOLVABLE
from tests.harness.admitted import Ask, admitted, asked_dims
from tests.harness.best_dim import best_kept
from tests.harness.soundness import judge
from tests.models.library import live_cases, needs_library
from trtdiag.fixdims.fix import Fix, Outcome

# What torch's own loop comes to.  Three of its answers pass on shapes and fail on data: hf_bart at 129 positions of
# 128, hf_whisper_full at 33 of 32, hf_bert_sep_mask where the mask has fewer rows than there are sequences.
TORCH: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parent.parent / "guards" / "torch_loop.json").read_text()
)

# Sum, product, sizes from data, a table that allows one size.  The quick run has residues, unions of them, splits,
# pinned batches, relations and nested floors in test_choose_cases, test_fix_dims_relations and test_one_answer.
QUICK = ("topk_quarter_pair",)
# One Dim says one progression: what is measured for several residues counts as the best of them.
RANDOM_POINTS = 24


def ask_of(name: str) -> Ask:
    with needs_library(name):
        return Ask(*cases.build(name))


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


@pytest.mark.slow  # quick: tests/guards/test_one_answer.py answers a live case
@pytest.mark.parametrize("name", live_cases(QUICK))
def test_live_fix(name: str) -> None:
    ask = ask_of(name)
    if name in TOO_SLOW:
        check_the_limit_is_named(ask)
        return
    asked = asked_dims(ask)
    fix = trtdiag.fix_dims((ask.model, ask.args, dict(ask.kwargs), ask.dynamic_shapes))
    if name in UNSOLVABLE:
        check_nothing_helps(fix)
        return
    assert fix.outcome is not Outcome.IMPOSSIBLE, (fix.notes, fix.failure, fix.conflicts)
    final = Ask(ask.model, fix.args or ask.args, fix.kwargs or {}, fix.dynamic_shapes)
    found = judge(fix.program, final, asked, random=RANDOM_POINTS)
    assert found.failures == []
    assert found.points > 0
    assert fix.confirmation.exported
    assert fix.proven == (name not in NOT_PROVEN), fix.proof

    of = admitted(fix.program, final, asked)
    kept = {one.name: len(of.kept(one)) for one in asked}
    assert {dim for dim, count in kept.items() if count <= 1} == set(TRULY_STATIC.get(name, ()))
    less = {dim: f"{kept[dim]} of {best}" for dim, best in best_kept(name).items() if kept[dim] < best}
    assert less == KEEPS_LESS.get(name, ({}, ""))[0]
    if TORCH.get(name, {}).get("sound"):
        assert of.combinations() >= TORCH[name]["joint"]


def test_exceptions_name_cases_that_exist() -> None:
    named = {*UNSOLVABLE, *TOO_SLOW, *TRULY_STATIC, *KEEPS_LESS, *NOT_PROVEN, *BEST}
    assert named <= set(cases.CASES)
