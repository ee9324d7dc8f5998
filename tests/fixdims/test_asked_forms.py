"""The user's dynamic_shapes read beside his inputs: sites as the exports name them, entries as he wrote them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim, ShapesCollection, export

import trtdiag
from tests.fixdims.structure_cases import CASES, Args, One, Rest, Times, Two, t
from tests.harness.rows import thinned
from trtdiag.dims.declare import declared
from trtdiag.dims.dynamic_shapes.asked import asked_plan, structure_of
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.dims.solver.choose import choose
from trtdiag.errors import CaptureError, DimsError
from trtdiag.fixdims.fix import Outcome
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.inputs import input_tensors
from trtdiag.frontend.program_of_export import attempted, input_sketch
from trtdiag.symbolic import Range


# The quick run has every structure in test_spell_exports.py.
@thinned("case", CASES, every=6)
def test_sites_are_those_of_the_exports(case: str) -> None:
    recipe = CASES[case]()
    dims = structure_of(recipe).dims
    sites = [dim.site for dim in dims.values() if dim.index is not None]
    assert len(set(sites)) == len(sites)

    sketch = input_sketch(recipe, [], None)
    assert sorted(dim.site for tensor in sketch for dim in tensor.dims) == sorted(sites)
    assert {dim.site: dim.hint for tensor in sketch for dim in tensor.dims} == {site: dims[site].size for site in sites}

    exported = export(recipe.module, recipe.args, recipe.kwargs, dynamic_shapes=recipe.dynamic_shapes, strict=False)
    found = {dim.site: dim for tensor in input_tensors(exported, [], {}) for dim in tensor.dims}
    declared = {site for site, leaf in asked_plan(structure_of(recipe)).leaves.items() if leaf.kind is LeafKind.DIM}
    # Without a dynamic dim in it, a program does not say what the parameter of *args is called.
    assert declared <= set(found)
    if recipe.rest_name() == "args":
        assert set(found) == set(sites)


def test_refused_export_finds_symbols_of_rest() -> None:
    class Odd(torch.nn.Module):
        def forward(self, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
            return x if rest[1].shape[0] % 2 else x + 1

    recipe = Recipe(Odd(), (t(3), t(5), t(7)), {}, (None, (None, {0: Dim("k", min=2, max=97)})))
    program = attempted(recipe)
    assert program.failure is not None
    assert [tensor.name for tensor in program.inputs] == ["x", "rest[0]", "rest[1]"]
    assert str(program.inputs[2].dims[0].expr) != str(program.inputs[1].dims[0].expr)
    assert list(program.names.values()) == ["k"]
    assert list(structure_of(recipe).dims) == ["x.shape[0]", "rest[0].shape[0]", "rest[1].shape[0]"]


def _leaf(kind: str, low: int | None = None, high: int | None = None) -> Leaf:
    return Leaf(LeafKind[kind], range=Range(low, high))


class Cut(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x[:, :n] + 1


@pytest.mark.slow  # quick: the plan alone, below
def test_a_named_dim_of_an_integer_becomes_a_hint() -> None:
    dims = {"x": {1: Dim("w", min=2, max=61)}, "n": Dim("n", min=2, max=13)}
    fix = trtdiag.fix_dims(Cut(), (t(2, 31), 5), dynamic_shapes=dims)
    change = next(change for change in fix.changes if change.sites == ("n",))
    assert (change.before, change.after) == ("n: 2..13", "Dim.DYNAMIC(min=2, max=13)")
    assert [reason.text for reason in change.why] == ["torch.export takes no named Dim for an integer input"]
    program = export(Cut(), (t(2, 31), 5), dynamic_shapes=fix.dynamic_shapes).module()
    for size in (2, 7, 13):
        assert program(t(2, 31), size).shape == (2, size)


def test_what_is_solved_for_dims_keeps_integers() -> None:
    plan = Plan((DimDef("n", Range(2, 13)),), {"n": Leaf(LeafKind.DIM, "n")})
    new = declared(choose([], {}, {}), (), plan, plan)
    assert new == Plan((), {"n": _leaf("DYNAMIC", 2, 13)})


def _dim(root: str, scale: int = 1, offset: int = 0) -> Leaf:
    return Leaf(LeafKind.DIM, root=root, scale=scale, offset=offset)


@pytest.mark.parametrize(
    ("case", "defs", "leaves"),
    [
        ("nothing", (), {}),
        (
            "shared",
            (("h", 3, 97), ("w", None, None)),
            {"x.shape[0]": _dim("h"), "y.shape[0]": _dim("h"), "y.shape[1]": _dim("w")},
        ),
        (
            "derived",
            (("h", 3, 97),),
            {"x.shape[0]": _dim("h"), "y.shape[0]": _dim("h", 2, -1), "y.shape[1]": _dim("h", 6, 6)},
        ),
        ("root of no input", (("_h", 2, 40),), {"x.shape[0]": _dim("_h", 8, -1), "y.shape[1]": _dim("_h", 8)}),
        ("negative index", (("h", 3, 97),), {"x.shape[0]": _dim("h")}),
        ("tuple of dims", (("h", 3, 97),), {"x.shape[0]": Leaf(LeafKind.STATIC, value=7), "x.shape[1]": _dim("h")}),
        ("ints", (("h", 3, 97),), {"x.shape[0]": Leaf(LeafKind.STATIC, value=7), "x.shape[1]": _dim("h")}),
        (
            "open ranges",
            (("a", None, None), ("b", 4, None), ("c", None, 9)),
            {"x.shape[0]": _dim("a"), "x.shape[1]": _dim("b"), "y.shape[0]": _dim("c")},
        ),
        (
            "hints",
            (),
            {
                "x.shape[0]": _leaf("AUTO"),
                "x.shape[1]": _leaf("DYNAMIC"),
                "x.shape[2]": Leaf(LeafKind.STATIC, value=3),
                "y.shape[0]": _leaf("AUTO", 2, 97),
                "y.shape[1]": _leaf("DYNAMIC", None, 90),
            },
        ),
        ("keywords by position", (("h", 3, 97),), {"y.shape[0]": _dim("h")}),
        ("nested", (("h", 3, 97),), {"x['image'][0].shape[0]": _dim("h"), "x['image'][1][1].shape[1]": _leaf("AUTO")}),
        ("named tuple", (("h", 3, 97),), {"x.image.shape[0]": _dim("h")}),
        ("dataclass", (("h", 3, 97),), {"x.image.shape[0]": _dim("h"), "x.boxes[1].shape[0]": _leaf("AUTO")}),
        (
            "registered class",
            (("h", 3, 97),),
            {"x[0].corner.shape[0]": _dim("h"), "x[0].rest['score'].shape[1]": _leaf("DYNAMIC")},
        ),
        ("args", (("h", 3, 97),), {"args[0].shape[0]": _dim("h"), "args[1]['q'].shape[0]": _leaf("AUTO")}),
        ("rest", (("h", 3, 97),), {"rest[1][0].shape[1]": _dim("h")}),
        ("bounded integer", (("h", 3, 97),), {"x.shape[0]": _dim("h"), "n": _leaf("DYNAMIC", 2, 9)}),
        ("integer in a list", (("h", 3, 97),), {"x[0].shape[0]": _dim("h"), "x[1]": _leaf("AUTO")}),
        ("collection", (("h", 3, 97),), {"x.shape[0]": _dim("h"), "y['a'][1].shape[1]": _leaf("DYNAMIC", 2)}),
        ("collection of classes", (("h", 3, 97),), {"x.boxes[0].shape[1]": _dim("h")}),
        ("additional inputs", (), {"x.shape[0]": _leaf("DYNAMIC"), "y['a'][1].shape[1]": _leaf("DYNAMIC")}),
    ],
)
def test_entries_become_plain_values(
    case: str, defs: tuple[tuple[str, int | None, int | None], ...], leaves: dict[str, Leaf]
) -> None:
    plan = asked_plan(structure_of(CASES[case]()))
    assert plan.defs == tuple(DimDef(name, Range(low, high)) for name, low, high in defs)
    assert plan.leaves == leaves


def test_one_name_with_two_ranges_is_two_dims() -> None:
    spec = ({0: Dim("h", min=3, max=9), 1: Dim("h_2")}, {0: Dim("h", min=3, max=9), 1: Dim("h", min=3)})
    plan = asked_plan(structure_of(Recipe(Two(), (t(5, 7), t(5, 11)), {}, spec)))
    assert [(definition.name, definition.range) for definition in plan.defs] == [
        ("h", Range(3, 9)),
        ("h_2", Range()),
        ("h_3", Range(3)),
    ]
    assert [leaf.root for leaf in plan.leaves.values()] == ["h", "h_2", "h", "h_3"]


@pytest.mark.parametrize(
    ("module", "args", "kwargs", "spec", "dynamic"),
    [
        (Rest(), (t(3), t(5), t(7)), {}, (None, {0: Dim.AUTO}, None), {"rest[0].shape[0]"}),
        (Rest(), (t(3), t(5)), {}, (None, {0: Dim.AUTO}), {"rest[0].shape[0]"}),
        (Args(), (t(3), t(5)), {}, ({0: Dim.AUTO}, None), {"args[0].shape[0]"}),
        (One(), ((t(3), t(5)),), {}, {"x": [None, {0: Dim.AUTO}]}, {"x[1].shape[0]"}),
        (One(), ([t(3)],), {}, {"x": {0: Dim.AUTO}}, {"x[0].shape[0]"}),
        (Two(), (t(3), t(5)), {}, {"y": {0: Dim.AUTO}}, {"y.shape[0]"}),
        (Two(), (t(3),), {}, {"x": {0: Dim.AUTO}, "y": None}, {"x.shape[0]"}),
    ],
)
def test_forms_that_torch_refuses_without_doubt_are_read(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any, dynamic: set[str]
) -> None:
    with pytest.raises(Exception, match=r"mismatch|top-level keys"):
        export(module, args, kwargs, dynamic_shapes=spec, strict=False)
    assert set(asked_plan(structure_of(Recipe(module, args, kwargs, spec))).leaves) == dynamic


class Keywords(torch.nn.Module):
    def forward(self, x: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        return x + more["m"].sum()


def test_keywords_of_any_name_are_read_in_both_forms() -> None:
    for spec in ({"x": None, "more": {"m": {0: Dim.AUTO}}}, {"x": None, "m": {0: Dim.AUTO}}):
        structure = structure_of(Recipe(Keywords(), (t(3),), {"m": t(5)}, spec))
        assert list(structure.dims) == ["x.shape[0]", "m.shape[0]"]
        assert set(asked_plan(structure).leaves) == {"m.shape[0]"}


@pytest.mark.parametrize(
    ("spec", "because"),
    [
        ({"x": Dim("h"), "y": None}, "stands for a tensor of 2 dims"),
        ({"x": {2: Dim("h")}, "y": None}, "2 is no dim of a tensor of 2 dims"),
        ({"x": {"0": Dim("h")}, "y": None}, "'0' is no dim"),
        ({"x": (Dim("h"),), "y": None}, "1 entries stand for the 2 dims"),
        ({"x": {0: 3.5}, "y": None}, "3.5 is a float"),
        ({"z": {0: Dim("h")}}, "'z' is none of ['x', 'y']"),
        ({"x": None, "y": [None]}, "a list stands for a dict"),
        ({"x": None, "y": {"a": Dim("h")}}, "stands for a tensor of 1 dims"),
        ((None, None, {0: Dim("h")}), "3 entries stand for 2 inputs"),
        (Dim("h"), "stands for a dict"),
    ],
)
def test_what_says_nothing_is_refused(spec: Any, because: str) -> None:
    with pytest.raises(DimsError) as caught:
        structure_of(Recipe(Two(), (t(3, 5), {"a": t(7)}), {}, spec))
    assert because in caught.value.because


def test_inputs_that_forward_does_not_take() -> None:
    with pytest.raises(CaptureError, match="does not take these inputs"):
        structure_of(Recipe(Times(), (t(3),), {}, None))


def test_collection_of_other_tensors_is_refused() -> None:
    shapes, other = ShapesCollection(), t(3)
    shapes[other] = {0: Dim.AUTO}
    with pytest.raises(DimsError, match="does not fit the inputs"):
        structure_of(Recipe(One(), (t(3),), {}, shapes))


def test_inputs_of_rest_have_three_names() -> None:
    recipe = CASES["rest"]()
    structure = structure_of(recipe)
    site = "rest[1][0].shape[1]"
    assert [structure.site(text) for text in (site, "args[1][0].shape[1]", "rest_1[0].shape[1]")] == [site] * 3
    exported = export(recipe.module, recipe.args, dynamic_shapes=recipe.dynamic_shapes, strict=False)
    saved = structure_of(Recipe(exported.module(), recipe.args, {}, None))
    assert [saved.site(f"{top}.shape[0]") for top in ("rest[0]", "rest_0")] == ["rest_0.shape[0]"] * 2
    assert saved.site(site) == "rest_1[0].shape[1]"
    for other in ("args[2].shape[0]", "rest[2].shape[0]", "x[0].shape[0]", "x_0.shape[0]"):
        with pytest.raises(KeyError):
            structure.site(other)


@pytest.mark.parametrize("nested", [False, True])
def test_a_program_of_rest_whose_dims_are_all_pinned_has_its_names(nested: bool) -> None:
    """Nothing dynamic is left then whose source would tell the parameter."""

    class Pinned(torch.nn.Module):
        def forward(self, *a: torch.Tensor) -> torch.Tensor:
            return a[0].reshape(2, 192).relu()

    spec = {0: Dim("batch", min=1, max=4), 1: Dim("n", min=2, max=99)}
    fix = trtdiag.fix_dims(Pinned(), (torch.randn(2, 64, 3),), dynamic_shapes=((spec,),) if nested else (spec,))
    assert fix.proven
    assert [change.sites for change in fix.changes] == [("a[0].shape[0]",), ("a[0].shape[1]",)]
    assert "(({0: 2, 1: 64},),)" in fix.code


class Sums(torch.nn.Module):
    def forward(self, *a: torch.Tensor) -> torch.Tensor:
        return a[0] * 2 + a[1]


class Named(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * 2 + y


BATCH = Dim("batch", min=1, max=6)
FORMS = {  # as asked, and the code that torch takes
    "rest": (Sums(), ({0: BATCH}, {0: BATCH}), "dynamic_shapes = (({0: batch}, {0: batch}),)"),
    "left out": (Named(), {"x": {0: BATCH}}, '"y": None'),
}


@pytest.mark.parametrize("case", FORMS)
def test_a_form_that_torch_refuses_is_written_as_torch_takes_it(case: str) -> None:
    """Its sizes are right, so that nothing but the form changes: it was called unchanged, and proven."""
    module, asked, code = FORMS[case]
    args = torch.randn(2, 3), torch.randn(2 if case == "rest" else 1, 3)
    with pytest.raises(torch._dynamo.exc.UserError, match="`dynamic_shapes`"):
        export(module, args, dynamic_shapes=asked)
    fix = trtdiag.fix_dims(module, args, dynamic_shapes=asked)
    assert (fix.outcome, fix.changes, fix.proven) == (Outcome.CHANGED, (), True)
    assert code in fix.code
    assert any("does not take the dynamic_shapes as they are written" in note for note in fix.notes)
    export(module, args, dynamic_shapes=fix.dynamic_shapes)


def test_what_torch_does_not_take_of_keywords_is_said_and_pins_no_dim() -> None:
    asked = (Keywords(), (t(3),), {"m": t(5)}, {"x": None, "more": {"m": {0: Dim("n", min=2, max=9)}}})
    module, args, kwargs, shapes = asked
    try:
        export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
    except AssertionError:
        fix = trtdiag.fix_dims(asked)
        assert fix.failure.startswith("torch.export takes no dynamic_shapes where forward has **keywords: name these")
        assert fix.changes == ()
        assert "name these in its signature" in str(trtdiag.analyze(asked))
    else:
        pytest.skip("this torch takes them; 2.13 does not")
