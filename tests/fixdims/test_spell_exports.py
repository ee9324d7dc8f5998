"""Plans spelled in the user's structure: the object and the code are what torch takes, and mean the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim, export

from tests.fixdims.structure_cases import CASES, Args, One, Pair, Rest, Sample, Times, Two, t
from tests.harness.rows import each, thinned
from trtdiag.dims.dynamic_shapes.asked import asked_plan, structure_of
from trtdiag.dims.dynamic_shapes.spell import Spelled, asked_code, spell, spell_sites
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.frontend.factory import Recipe
from trtdiag.symbolic import Range


def sizes(recipe: Recipe, dynamic_shapes: Any) -> tuple[list[str], str]:
    """The sizes that torch gives to the inputs, and their ranges: what a declaration means."""
    exported = export(recipe.module, recipe.args, recipe.kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    vals = [node.meta.get("val") for node in exported.graph.nodes if node.op == "placeholder"]
    shown = [str(tuple(val.shape) if isinstance(val, torch.Tensor) else val) for val in vals]
    return shown, str(sorted((str(key), str(value)) for key, value in exported.range_constraints.items()))


def run(code: str) -> Any:
    found: dict[str, Any] = {}
    exec(compile(code, "dims.py", "exec"), found)
    return found["dynamic_shapes"]


def respelled(recipe: Recipe, spelled: Spelled) -> Spelled:
    structure = structure_of(Recipe(recipe.module, recipe.args, recipe.kwargs, spelled.dynamic_shapes))
    return spell(asked_plan(structure), structure)


# The quick run has every structure below, with nothing and with all asked.
@thinned("case", CASES, every=12)
def test_asked_plan_spelled_is_what_was_asked(case: str) -> None:
    recipe = CASES[case]()
    structure = structure_of(recipe)
    spelled = spell(asked_plan(structure), structure)
    wanted = sizes(recipe, recipe.dynamic_shapes)
    assert sizes(recipe, spelled.dynamic_shapes) == wanted
    assert sizes(recipe, run(spelled.code)) == wanted
    assert asked_code(structure) == spelled.code
    assert respelled(recipe, spelled).code == spelled.code


@each("case", CASES)
def test_empty_plan_leaves_everything(case: str) -> None:
    structure = structure_of(CASES[case]())
    assert spell(Plan((), {}), structure).code == spell(asked_plan(structure), structure).code


ROOT = DimDef("_h", Range(2, 40))
FULL = Leaf(LeafKind.DIM, "_h", scale=8, offset=-1, name="h")


# Quick: the ends and one between; plans that are asked for are spelled, too.
@thinned(
    ("module", "args", "kwargs", "spec", "site", "written"),
    [
        (One(), (t(15, 5),), {}, None, "x.shape[0]", '{\n    "x": {0: h},\n}'),
        (One(), (t(5, 15),), {}, {"x": None}, "x.shape[1]", '{\n    "x": {1: h},\n}'),
        (One(), (t(15, 5),), {}, ({1: None},), "x.shape[0]", "({1: None, 0: h},)"),
        (One(), (t(15, 5),), {}, {"x": {-2: Dim("h")}}, "x.shape[0]", '{\n    "x": {-2: h},\n}'),
        (One(), (t(15, 5),), {}, {"x": [None, None]}, "x.shape[0]", '{\n    "x": [h, None],\n}'),
        (One(), (t(15, 5),), {}, {"x": (15, 5)}, "x.shape[0]", '{\n    "x": (h, 5),\n}'),
        (
            One(),
            ({"b": t(2), "a": [t(15)]},),
            {},
            None,
            "x['a'][0].shape[0]",
            '{\n    "x": {"b": None, "a": [{0: h}]},\n}',
        ),
        (One(), (Pair(t(2), t(15)),), {}, None, "x.mask.shape[0]", '{\n    "x": Pair(image=None, mask={0: h}),\n}'),
        (One(), (Sample(t(2), [t(15)]),), {}, None, "x.boxes[0].shape[0]", '{\n    "x": [None, [{0: h}]],\n}'),
        (Two(), (t(2),), {"y": (t(15), 3)}, None, "y[0].shape[0]", '{\n    "x": None,\n    "y": ({0: h}, None),\n}'),
        (Two(), (), {"y": t(15), "x": t(2)}, [None, None], "y.shape[0]", "[\n    None,\n    {0: h},\n]"),
        (Args(), (t(15), t(3)), {}, None, "args[0].shape[0]", '{\n    "args": ({0: h}, None),\n}'),
        (Rest(), (t(2), t(15)), {}, None, "rest[0].shape[0]", '{\n    "x": None,\n    "rest": ({0: h},),\n}'),
        (Rest(), (t(2), t(15)), {}, None, "args[0].shape[0]", '{\n    "x": None,\n    "rest": ({0: h},),\n}'),
    ],
    every=7,
)
def test_plan_is_laid_into_the_structure(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any, site: str, written: str
) -> None:
    recipe = Recipe(module, args, kwargs, spec)
    spelled = spell(Plan((ROOT,), {site: FULL}), structure_of(recipe))
    assert spelled.code.endswith(f'_h = Dim("_h", min=2, max=40)\nh = 8 * _h - 1\n\ndynamic_shapes = {written}\n')
    shown, ranges = sizes(recipe, spelled.dynamic_shapes)
    assert (shown, ranges) == sizes(recipe, run(spelled.code))
    assert "VR[15, 319]" in ranges
    assert sum("8*" in text for text in shown) == 1


def test_what_torch_refuses_is_mended() -> None:
    """``None`` for a container, an input that is left out, a list for a tuple."""
    recipe = Recipe(Two(), ((t(15), t(3)), {"a": [t(2)]}), {}, {"x": [{0: Dim.AUTO}, None], "y": None})
    structure = structure_of(recipe)
    spelled = spell(asked_plan(structure), structure)
    assert spelled.dynamic_shapes == {"x": ({0: Dim.AUTO}, None), "y": {"a": [None]}}
    sizes(recipe, spelled.dynamic_shapes)
    assert '"y": None' in asked_code(structure)


# Quick: the last, which says most.
@pytest.mark.parametrize(
    "hint",
    [*(pytest.param(hint, marks=pytest.mark.slow) for hint in (Dim.AUTO, Dim.DYNAMIC)), Dim.DYNAMIC(min=2, max=97)],
)
def test_hints_at_negative_indices_are_mended(hint: Any) -> None:
    """torch takes them in silence and leaves the dim static."""
    recipe = Recipe(One(), (t(7, 5),), {}, {"x": {-2: Dim("h", max=97), -1: hint}})
    assert sizes(recipe, recipe.dynamic_shapes)[0][0].endswith(", 5)")
    structure = structure_of(recipe)
    assert set(asked_plan(structure).leaves) == {"x.shape[0]", "x.shape[1]"}
    spelled = spell(asked_plan(structure), structure)
    assert list(spelled.dynamic_shapes["x"]) == [-2, 1]
    shown = sizes(recipe, spelled.dynamic_shapes)
    assert ", s" in shown[0][0]
    assert sizes(recipe, run(spelled.code)) == shown


def test_dims_out_of_the_plan_stay_as_they_were() -> None:
    h, w = Dim("h", min=3, max=97), Dim("w", min=3)
    recipe = Recipe(Two(), (t(15, 5), t(15, 11)), {}, {"x": {0: h, 1: w}, "y": (h, 2 * w + 1)})
    plan = Plan((DimDef("h", Range(8, 32)),), {"x.shape[0]": Leaf(LeafKind.DIM, "h")})
    spelled = spell(plan, structure_of(recipe))
    assert spelled.code == (
        "from torch.export import Dim\n\n"
        'h = Dim("h", min=8, max=32)\nw = Dim("w", min=3)\n\n'
        'dynamic_shapes = {\n    "x": {0: h, 1: w},\n    "y": (h, 2 * w + 1),\n}\n'
    )
    spec = spelled.dynamic_shapes
    assert spec["x"][0] is spec["y"][0]
    assert spec["y"][1].root is spec["x"][1]
    sizes(recipe, spec)


def test_derived_dims_are_one_object() -> None:
    recipe = Recipe(Two(), (t(15, 17), t(15, 3)), {}, None)
    up = Leaf(LeafKind.DIM, "_h", scale=8, offset=1)
    spelled = spell(
        Plan((ROOT,), {"x.shape[0]": FULL, "x.shape[1]": up, "y.shape[0]": FULL}), structure_of(recipe)
    ).dynamic_shapes
    assert spelled["x"][0] is spelled["y"][0]
    assert (spelled["x"][0].min, spelled["x"][0].max, spelled["x"][1].min) == (15, 319, 17)
    sizes(recipe, spelled)


def test_root_keeps_what_no_size_below_zero_comes_from() -> None:
    """torch refuses a derived Dim whose minimum is negative, and no input has such a size."""
    recipe = Recipe(Two(), (t(15), t(13)), {}, None)
    plan = Plan(
        (DimDef("_h", Range(None, 40)),),
        {"x.shape[0]": FULL, "y.shape[0]": Leaf(LeafKind.DIM, "_h", scale=5, offset=3)},
    )
    spelled = spell(plan, structure_of(recipe))
    assert spelled.dynamic_shapes["x"][0].root.min == 1
    assert 'Dim("_h", min=1, max=40)' in spelled.code
    assert spelled.dynamic_shapes["x"][0].min == 7
    lowest = spell(
        Plan((DimDef("_h", Range()),), {"x.shape[0]": Leaf(LeafKind.DIM, "_h", 3, -6)}), structure_of(recipe)
    )
    assert (lowest.dynamic_shapes["x"][0].root.min, lowest.dynamic_shapes["x"][0].min) == (2, 0)


def test_integers_take_hints_for_dims() -> None:
    recipe = Recipe(Times(), (t(15, 5), 7), {}, {"x": None, "n": None})
    plan = Plan((ROOT,), {"n": FULL})
    spelled = spell(plan, structure_of(recipe))
    assert spelled.code.endswith('dynamic_shapes = {\n    "x": None,\n    "n": Dim.DYNAMIC(min=15, max=319),\n}\n')
    assert "[15, 319]" in sizes(recipe, spelled.dynamic_shapes)[1]
    static = spell(Plan((), {"n": Leaf(LeafKind.STATIC, value=7)}), structure_of(recipe))
    assert static.code == 'dynamic_shapes = {\n    "x": None,\n    "n": None,\n}\n'


@pytest.mark.parametrize(
    ("plan", "match"),
    [
        (Plan((DimDef("h", Range(5, 5)),), {"x.shape[0]": Leaf(LeafKind.DIM, "h")}), "fewer than two values"),
        (Plan((DimDef("h", Range(6, 5)),), {"x.shape[0]": Leaf(LeafKind.DIM, "h")}), "fewer than two values"),
        (Plan((DimDef("h", Range(None, 0)),), {"x.shape[0]": Leaf(LeafKind.DIM, "h")}), "fewer than two values"),
        (Plan((DimDef("h", Range(0, 1)),), {"x.shape[0]": Leaf(LeafKind.DIM, "h", 2, -1)}), "fewer than two values"),
        (Plan((DimDef("h", Range(2, 5)),), {"x.shape[0]": Leaf(LeafKind.DIM, "h", 0, 3)}), "does not increase"),
        (Plan((DimDef("h", Range(2, 5)),), {"x.shape[0]": Leaf(LeafKind.DIM, "h", -1, 9)}), "does not increase"),
        (Plan((), {"x.shape[0]": Leaf(LeafKind.DIM, "h")}), "does not define 'h'"),
        (Plan((), {"x.shape[2]": Leaf(LeafKind.AUTO)}), "no dim of the inputs"),
        (Plan((), {"z.shape[0]": Leaf(LeafKind.AUTO)}), "no dim of the inputs"),
        (Plan((DimDef("h", Range(2)), DimDef("h", Range(3))), {"x.shape[0]": Leaf(LeafKind.DIM, "h")}), "twice"),
    ],
)
def test_plans_that_cannot_be_said(plan: Plan, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        spell(plan, structure_of(Recipe(One(), (t(15, 5),), {}, None)))


def test_structure_from_names_alone() -> None:
    recipe = Recipe(Two(), ({"b": [t(2), t(15)], "a": t(3)}, t(7, 5)), {}, None)
    plan = Plan(
        (ROOT, DimDef("k", Range())),
        {"x['b'][1].shape[0]": FULL, "y.shape[1]": Leaf(LeafKind.DIM, "k"), "y.shape[0]": Leaf(LeafKind.DYNAMIC)},
    )
    inputs = [("x['b'][0]", 1), ("x['b'][1]", 1), ("x['a']", None), ("y", 2)]
    spelled = spell_sites(plan, inputs)
    assert spelled.code.endswith(
        'dynamic_shapes = {\n    "x": {"b": [None, {0: h}], "a": None},\n    "y": {0: Dim.DYNAMIC, 1: k},\n}\n'
    )
    assert sizes(recipe, spelled.dynamic_shapes) == sizes(recipe, run(spelled.code))


def test_structure_from_names_of_rest_and_fields() -> None:
    plan = Plan((ROOT,), {"args[1]['q'].shape[0]": FULL, "s.boxes[0].shape[0]": FULL, "n": FULL})
    spelled = spell_sites(plan, [("args[1]['q']", None), ("s.image", 3), ("s.boxes[0]", 1), ("n", None)])
    assert spelled.code.endswith(
        'dynamic_shapes = {\n    "args": (None, {"q": {0: h}}),\n    "s": [None, [{0: h}]],\n'
        '    "n": Dim.DYNAMIC(min=15, max=319),\n}\n'
    )
    assert spell_sites(Plan((), {}), [("x", 2)]).code == 'dynamic_shapes = {\n    "x": None,\n}\n'
    with pytest.raises(ValueError, match="no dim of the inputs"):
        spell_sites(plan, [("s.image", 3)])


def test_names_that_are_no_paths_are_keys() -> None:
    odd = ["x", "x[0]", "f(x)", "a[b]", "a[1:2]", "l x", "k[None]", "k[[1]]", "\0", "(" * 500, "-y", ""]
    names = [*odd, "y[0]", "z[5000]"]
    leaves = {f"{name}.shape[0]": Leaf(LeafKind.AUTO) for name in names if name}
    spelled = spell_sites(Plan((), leaves), [(name, 1) for name in reversed(names)])
    entry = {0: Dim.AUTO}
    assert spelled.dynamic_shapes == {**dict.fromkeys(odd, entry), "": None, "y": [entry], "z": {5000: entry}}
    assert run(spelled.code) == spelled.dynamic_shapes
