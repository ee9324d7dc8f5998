"""Decoders with caches: no answer called proven fails on real data, at sizes that differ wherever they are free."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import trtdiag
from tests.guards import cases
from tests.harness.admitted import Ask, admitted, asked_dims
from tests.harness.real_runs import judge_on_data
from tests.models.library import live_cases, needs_library
from trtdiag.fixdims.fix import Fix

DECODERS = [name for name, case in cases.CASES.items() if {"kv-cache", "cross"} & set(case.tags)]

# Which sizes the answer leaves free: names that stand for one size are one entry.  By hand, from the model.
FREE: dict[str, set[frozenset[str]]] = {
    "step_separate_kv": {frozenset({"b"}), frozenset({"tk", "tv"})},
    "step_cache_a_layer": {frozenset({"b"}), *(frozenset({f"k{i}", f"v{i}"}) for i in range(3))},
    "step_separate_batches": {frozenset({"b", "bk", "bv"}), frozenset({"tk", "tv"})},
    "cross_attention_mask": {frozenset({"b"}), frozenset({"t"}), frozenset({"s", "m"})},
    "cross_cache": {frozenset({"b"}), frozenset({"tk", "tv"}), frozenset({"sk", "sv"})},
    "grouped_query_native": {frozenset({"b"}), frozenset({"tk", "tv"})},
    "grouped_query_expanded": {frozenset({"b"}), frozenset({"tk", "tv"})},
    "sliding_window": {frozenset({"b"}), frozenset({"q"}), frozenset({"tk", "tv"})},
    "prefill_and_decode": {frozenset({"b"}), frozenset({"q"}), frozenset({"tk", "tv"})},
    "static_cache_positions": {frozenset({"b"}), frozenset({"q", "p"}), frozenset({"ck", "cv"})},
    "cache_slots": {frozenset({"b"}), frozenset({"q", "n"}), frozenset({"ck", "cv"})},
    "rotary_positions": {frozenset({"b"}), frozenset({"q", "p"}), frozenset({"tk", "tv"})},
    "beam_reorder": {frozenset({"b", "n"}), frozenset({"bk"}), frozenset({"bv"}), frozenset({"tk", "tv"})},
    "quantized_cache": {frozenset({"b"}), frozenset({"tk", "sk", "tv", "sv"})},
    "packed_cache": {frozenset({"b"}), frozenset({"t"})},
    "paged_cache": {frozenset({"b", "n", "rows"}), frozenset({"pk"}), frozenset({"pv"}), frozenset({"t"})},
    "rolling_cache": {frozenset({"b"}), frozenset({"q"}), frozenset({"wk", "wv", "m"})},
    "cache_by_name": {frozenset({"b"}), frozenset({"k0", "v0"}), frozenset({"k1", "v1"})},
    "learned_positions": {frozenset({"b"}), frozenset({"q"}), frozenset({"tk", "tv"})},
    "relative_distances": {frozenset({"b"}), frozenset({"q"}), frozenset({"tk", "tv"})},
}
# One of several caches takes 2 s; what ties sizes on data is quick in test_on_data.py on models of a few ops.
QUICK = ("step_separate_kv",)


def fixed(name: str) -> tuple[Ask, Fix]:
    with needs_library(name):
        ask = Ask(*cases.build(name))
    return ask, trtdiag.fix_dims((ask.model, ask.args, dict(ask.kwargs), ask.dynamic_shapes))


def decoders() -> list[Any]:
    return [param for param in live_cases(QUICK) if param.values[0] in DECODERS]


@pytest.mark.slow  # quick: tests/fixdims/test_real_runs_judge.py judges runs on real data
@pytest.mark.parametrize("name", decoders())
def test_answer_runs_on_real_data(name: str) -> None:
    ask, fix = fixed(name)
    asked = asked_dims(ask)
    final = Ask(ask.model, fix.args or ask.args, fix.kwargs or {}, fix.dynamic_shapes)
    found = judge_on_data(fix.program, final, asked=asked)
    assert found.failures == []
    assert found.points >= 3
    assert fix.proven, fix.proof
    of = admitted(fix.program, final, asked)
    # Every asked length keeps more than its example, and what is not tied to another is as wide as it was asked.
    assert all(len(of.kept(one)) > 1 for one in asked)
    if name in FREE:
        assert _free(of) == FREE[name]


@pytest.mark.parametrize(
    ("name", "most"), [("learned_positions", 128), pytest.param("relative_distances", 63, marks=pytest.mark.slow)]
)
@pytest.mark.slow  # the quick run has test_a_table_of_positions_ends_the_range in test_on_data.py
def test_the_greatest_sizes_stay_inside_a_table_of_positions(name: str, most: int) -> None:
    """The judge looks at small sizes; a table ends at large ones."""
    ask, fix = fixed(name)
    of = admitted(fix.program, Ask(ask.model, ask.args, {}, fix.dynamic_shapes), asked_dims(ask))
    ends = {one.name: max(of.kept(one)) for one in of.asked}
    batch, new, past = (ends[key] for key in ("b", "q", "tk"))
    assert ends["tv"] == past
    shapes = of.shapes({axis.name: of.values(axis)[-1] for axis in of.axes})
    made = [torch.zeros(shape or (), dtype=given.dtype) for shape, given in zip(shapes, ask.args, strict=True)]
    assert made[0].shape[:2] == (batch, new)
    fix.program.module()(*made)
    # Not one token more, whichever dim gives it.
    assert new + past == most if name == "learned_positions" else 2 * new - 1 == most


def _free(of: Any) -> set[frozenset[str]]:
    """The asked names by what decides their sizes: those that follow the same axes are one."""
    groups: dict[tuple[str, ...], set[str]] = {}
    for one in of.asked:
        axes = tuple(axis.name for axis in of.axes_of(one.leaf, one.dim))
        if len(axes) == 1:
            groups.setdefault(axes, set()).add(one.name)
    return {frozenset(names) for names in groups.values()}
