"""Random nested inputs, declarations and plans: what is spelled says the plan and leaves the rest."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.export import Dim, export

from tests.fixdims.structure_cases import Pair, Sample, Two
from tests.random_cases import cases
from trtdiag.dims.dynamic_shapes.asked import asked_plan, structure_of
from trtdiag.dims.dynamic_shapes.spell import asked_code, plan_diff, spell, spell_sites
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.frontend.factory import Recipe
from trtdiag.symbolic import Range

ROOTS = (("_h", Range(2, 40)), ("w", Range(None, 97)), ("class", Range(3)), ("N", Range()))
KEYS = st.sampled_from(["a", "b c", "it's", 'say "x"', "back\\slash", 0, 7])


def tensors() -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from([1, 2, 3, 5, 7]), min_size=1, max_size=3).map(lambda sizes: torch.ones(sizes))


def below(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(parts, min_size=1, max_size=3),
        st.lists(parts, min_size=1, max_size=2).map(tuple),
        st.dictionaries(KEYS, parts, min_size=1, max_size=3),
        st.tuples(parts, parts).map(lambda pair: Pair(*pair)),
        st.tuples(tensors(), st.lists(tensors(), min_size=1, max_size=2)).map(lambda pair: Sample(*pair)),
    )


INPUTS = st.recursive(st.one_of(tensors(), st.sampled_from([3, "s", None, 2.5])), below, max_leaves=5)
LEAVES = st.one_of(
    st.builds(
        lambda root, scale, offset, name: Leaf(LeafKind.DIM, root, scale, offset, name=name),
        st.sampled_from([name for name, _ in ROOTS]),
        st.sampled_from([1, 2, 8]),
        st.sampled_from([0, 1, 5, -1, -3]),
        st.sampled_from(["", "h", "_h", "Dim", "w"]),
    ),
    st.builds(
        lambda kind, low, more: Leaf(kind, range=Range(low, None if more is None else (low or 0) + more)),
        st.sampled_from([LeafKind.AUTO, LeafKind.DYNAMIC]),
        st.sampled_from([None, 1, 3]),
        st.sampled_from([None, 0, 94]),
    ),
    st.sampled_from([1, 2, 7]).map(lambda value: Leaf(LeafKind.STATIC, value=value)),
)


@st.composite
def planned(draw: st.DrawFn) -> tuple[Recipe, Plan]:
    recipe = Recipe(Two(), (draw(INPUTS),), {"y": draw(INPUTS)}, None)
    sites = [site for site, dim in structure_of(recipe).dims.items() if dim.index is not None]
    leaves = draw(st.dictionaries(st.sampled_from(sites), LEAVES, max_size=4)) if sites else {}
    return recipe, Plan(tuple(DimDef(name, values) for name, values in ROOTS), leaves)


def meaning(plan: Plan) -> dict[str, Any]:
    """What each dim of a plan takes: its root's place in the order of use, its factors and its range."""
    order: dict[str, int] = {}
    found: dict[str, Any] = {}
    for site, leaf in sorted(plan.leaves.items()):
        if leaf.kind is LeafKind.DIM:
            values = plan.range_of(leaf.root)
            place = order.setdefault(leaf.root, len(order))
            found[site] = (place, leaf.scale, leaf.offset, values.max)
        else:
            found[site] = (leaf.kind, leaf.value, leaf.range)
    return found


def run(code: str) -> Any:
    found: dict[str, Any] = {}
    exec(compile(code, "dims.py", "exec"), found)
    return found["dynamic_shapes"]


@given(planned())
@settings(max_examples=cases(60), deadline=None)
def test_spelled_plan_is_read_back(case: tuple[Recipe, Plan]) -> None:
    recipe, plan = case
    spelled = spell(plan, structure_of(recipe))
    for spec in (spelled.dynamic_shapes, run(spelled.code)):
        structure = structure_of(Recipe(recipe.module, recipe.args, recipe.kwargs, spec))
        again = asked_plan(structure)
        assert meaning(again) == meaning(plan)
        # Names of derived variables are no part of a Dim: from here on nothing changes any more.
        twice = spell(again, structure)
        assert meaning(
            asked_plan(structure_of(Recipe(recipe.module, recipe.args, recipe.kwargs, twice.dynamic_shapes)))
        ) == meaning(plan)
        assert asked_code(structure) == twice.code
        assert plan_diff(asked_code(structure), twice.code) == ""


@pytest.mark.slow  # 15 exports; the quick run exports what is spelled in test_spell_exports.py
@given(planned())
@settings(max_examples=15, deadline=None)
def test_torch_takes_what_is_spelled(case: tuple[Recipe, Plan]) -> None:
    """Hints alone fit any example size that lies in their bounds."""
    recipe, plan = case
    dims = structure_of(recipe).dims
    leaves = {site: Leaf(LeafKind.AUTO) for site in plan.leaves if dims[site].size > 1}
    if not any(dim.index is not None for dim in dims.values()):
        return
    spelled = spell(Plan((), leaves), structure_of(recipe))
    for spec in (spelled.dynamic_shapes, run(spelled.code)):
        exported = export(recipe.module, recipe.args, recipe.kwargs, dynamic_shapes=spec, strict=False)
        assert (len(exported.range_constraints) > 0) == (len(leaves) > 0)


@given(planned())
@settings(max_examples=40, deadline=None)
def test_names_alone_give_the_same_leaves(case: tuple[Recipe, Plan]) -> None:
    recipe, plan = case
    inputs = [(node.name, None) for node in structure_of(recipe).inputs.inputs()]
    spelled = spell_sites(plan, inputs)
    assert str(run(spelled.code)) == str(spelled.dynamic_shapes)
    by_structure = spell(plan, structure_of(recipe)).dynamic_shapes

    def entries(spec: Any) -> list[str]:
        if isinstance(spec, (dict, list, tuple)):
            return [entry for part in (spec.values() if isinstance(spec, dict) else spec) for entry in entries(part)]
        return [] if spec is None else [str(spec)]

    assert sorted(entries(spelled.dynamic_shapes)) == sorted(entries(by_structure))


@given(st.sampled_from([1, 2, 3, 8]), st.integers(-20, 20), st.integers(0, 9), st.integers(1, 60))
@settings(max_examples=cases(60), deadline=None)
def test_derived_sizes_keep_every_size_from_zero(scale: int, offset: int, low: int, more: int) -> None:
    structure = structure_of(Recipe(Two(), (torch.ones(3),), {}, None))
    values = [scale * root + offset for root in range(low, low + more + 1)]
    kept = [value for value in values if value >= 0]
    plan = Plan((DimDef("h", Range(low, low + more)),), {"x.shape[0]": Leaf(LeafKind.DIM, "h", scale, offset)})
    if len(kept) < 2:
        try:
            spell(plan, structure)
        except ValueError:
            return
        raise AssertionError("a Dim of fewer than two values was spelled")
    dim: Any = spell(plan, structure).dynamic_shapes["x"][0]
    assert isinstance(dim, Dim)
    assert (dim.min, dim.max) == (kept[0], kept[-1])
