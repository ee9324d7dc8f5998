"""The text of a spelled plan: names, layout, imports, diffs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import deque, namedtuple
from pathlib import Path
from typing import Any

import pytest
from torch.export import Dim, export

from tests.fixdims.structure_cases import CASES, One, Pair, Two, t
from tests.harness.rows import thinned
from trtdiag.dims.dynamic_shapes.asked import asked_plan, structure_of
from trtdiag.dims.dynamic_shapes.spell import plan_diff, spell, spell_sites
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.frontend.dim_names import Names
from trtdiag.frontend.factory import Recipe
from trtdiag.symbolic import Range


def run(code: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(code, "dims.py", "exec"), found)
    return found


def two_dims(first: str, second: str, *, derived: bool = False, name: str = "") -> str:
    scale = 2 if derived else 1
    plan = Plan(
        (DimDef(first, Range(2, 9)), DimDef(second, Range(3, 97))),
        {"x.shape[0]": Leaf(LeafKind.DIM, first, scale, name=name), "x.shape[1]": Leaf(LeafKind.DIM, second, scale, 1)},
    )
    return spell_sites(plan, [("x", 2)]).code


@pytest.mark.parametrize(
    ("wanted", "used"),
    [
        ("class", "class_2"),
        ("None", "None_2"),
        ("Dim", "Dim_2"),
        ("torch", "torch_2"),
        ("dynamic_shapes", "dynamic_shapes_2"),
        ("dim", "dim"),
        ("x.shape[0]", "x_shape_0_"),
        ("8h", "_8h"),
        ("größe", "größe"),
    ],
)
def test_names_that_python_does_not_take(wanted: str, used: str) -> None:
    code = two_dims(wanted, "w")
    assert f'{used} = Dim("{used}", min=2, max=9)\n' in code
    assert run(code)["dynamic_shapes"]["x"][0].__name__ == used


# Quick: the ends and each third; torch evaluates all of them alike.
@thinned("wanted", ["N", "S", "Q", "beta", "oo", "lambda", "re", "test"], every=3)
def test_roots_that_torch_cannot_compute_with(wanted: str) -> None:
    """torch names ``2*Dim("N")`` by evaluating ``N`` with sympy, where it is a function."""
    assert f'{wanted}_2 = Dim("{wanted}_2", min=2' in two_dims(wanted, "w", derived=True)
    recipe = Recipe(One(), (t(8, 15),), {}, None)
    plan = Plan((DimDef(wanted, Range(2, 9)),), {"x.shape[0]": Leaf(LeafKind.DIM, wanted, 2)})
    spelled = spell(plan, structure_of(recipe))
    export(recipe.module, recipe.args, dynamic_shapes=spelled.dynamic_shapes, strict=False)
    assert run(spelled.code)["dynamic_shapes"]["x"][0].__name__ == f"2*{wanted}_2"


def test_plain_dims_may_have_names_of_sympy() -> None:
    assert 'N = Dim("N", min=2, max=9)' in two_dims("N", "w")


def test_names_do_not_collide() -> None:
    code = two_dims("h", "h_2", derived=True, name="h")
    assert "h_3 = 2 * h\n" in code
    assert "{0: h_3, 1: 2 * h_2 + 1}" in code
    assert two_dims("h", "w", name="h2") == two_dims("h", "w")  # a plain Dim is its own variable
    names = Names(["Pair"])
    assert [names.take("Pair", derived=False), names.take("h", derived=True), names.take("h", derived=True)] == [
        "Pair_2",
        "h",
        "h_2",
    ]


def test_user_dims_of_one_name_with_two_ranges() -> None:
    spec = {"x": {0: Dim("h", min=3, max=9)}, "y": {0: Dim("h", min=3, max=11)}}
    recipe = Recipe(Two(), (t(5, 2), t(7)), {}, spec)
    with pytest.raises(Exception, match="different definitions"):
        export(recipe.module, recipe.args, dynamic_shapes=spec, strict=False)
    structure = structure_of(recipe)
    spelled = spell(asked_plan(structure), structure)
    assert 'h = Dim("h", min=3, max=9)\nh_2 = Dim("h_2", min=3, max=11)\n' in spelled.code
    export(recipe.module, recipe.args, dynamic_shapes=spelled.dynamic_shapes, strict=False)


def test_named_derived_dims_come_after_the_dims() -> None:
    h = Leaf(LeafKind.DIM, "_h", 8, name="h")
    plan = Plan(
        (DimDef("_h", Range(17, 270)), DimDef("b", Range(1, 16))),
        {
            "image.shape[0]": Leaf(LeafKind.DIM, "b"),
            "image.shape[2]": h,
            "mask.shape[0]": h,
            "mask.shape[1]": Leaf(LeafKind.AUTO, range=Range(2)),
            "mask.shape[2]": Leaf(LeafKind.STATIC, value=5),
            "mask.shape[3]": Leaf(LeafKind.DIM, "_h", 1, -3),
        },
    )
    assert spell_sites(plan, [("image", 4), ("mask", 4), ("scale", 0)]).code == (
        "from torch.export import Dim\n"
        "\n"
        '_h = Dim("_h", min=17, max=270)\n'
        'b = Dim("b", min=1, max=16)\n'
        "h = 8 * _h\n"
        "\n"
        "dynamic_shapes = {\n"
        '    "image": {0: b, 2: h},\n'
        '    "mask": {0: h, 1: Dim.AUTO(min=2), 2: 5, 3: _h - 3},\n'
        '    "scale": None,\n'
        "}\n"
    )


def test_open_ends_are_not_written() -> None:
    ranges = {"a": Range(), "b": Range(4), "c": Range(None, 9), "d": Range(0, 9)}
    plan = Plan(
        tuple(DimDef(name, values) for name, values in ranges.items()),
        {f"x.shape[{index}]": Leaf(LeafKind.DIM, name) for index, name in enumerate(ranges)},
    )
    spelled = spell_sites(plan, [("x", 4)])
    assert [line for line in spelled.code.splitlines() if " = Dim(" in line] == [
        'a = Dim("a")',
        'b = Dim("b", min=4)',
        'c = Dim("c", max=9)',
        'd = Dim("d", min=0, max=9)',
    ]
    assert [str(dim.max) for dim in spelled.dynamic_shapes["x"].values()] == ["int_oo", "int_oo", "9", "9"]


LONG = {
    "images": [t(7, 5), t(7, 5)],
    "a 'quoted' key": (t(3),),
    'a "doubly" quoted key of more than enough letters': {"deep": [t(3, 11), {1: t(5, 7), "one": (t(4, 4, 4, 4),)}]},
}


def _long_plan() -> tuple[Plan, Recipe]:
    recipe = Recipe(Two(), (LONG, Pair(t(2, 3), deque([t(5), t(7)]))), {}, None)
    structure = structure_of(recipe)
    leaves = {site: Leaf(LeafKind.DIM, f"d{i % 3}", 1 + i % 3, i % 2) for i, site in enumerate(structure.dims)}
    return Plan(tuple(DimDef(f"d{i}", Range(2 + i, 1000 + i)) for i in range(3)), leaves), recipe


def test_long_structures_are_broken_where_they_are_too_long() -> None:
    plan, recipe = _long_plan()
    code = spell(plan, structure_of(recipe)).code
    assert max(map(len, code.splitlines())) <= 100
    assert run(code)["dynamic_shapes"].keys() == {"x", "y"}
    assert code.splitlines()[:4] == [
        "from collections import deque",
        "",
        "from tests.fixdims.structure_cases import Pair",
        "from torch.export import Dim",
    ]


@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="the formatter is not installed")
def test_text_is_as_a_formatter_leaves_it(tmp_path: Path) -> None:
    plan, recipe = _long_plan()
    texts = [spell(plan, structure_of(recipe)).code]
    for make in CASES.values():
        structure = structure_of(make())
        texts.append(spell(asked_plan(structure), structure).code)
    for index, text in enumerate(texts):
        (tmp_path / f"dims_{index}.py").write_text(text, encoding="utf-8")
    for arguments in (["format", "--check", "--diff"], ["check", "--select", "F"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--isolated", "--line-length", "100", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_named_tuple_that_cannot_be_imported_is_defined() -> None:
    local = namedtuple("local", ["image", "mask"])  # noqa: PYI024  # the untyped form is what users have
    recipe = Recipe(One(), (local(t(3), t(5)),), {}, None)
    code = spell(Plan((), {"x.mask.shape[0]": Leaf(LeafKind.AUTO)}), structure_of(recipe)).code
    assert 'local = namedtuple("local", ["image", "mask"])' in code
    found = run(code)
    assert found["dynamic_shapes"]["x"].image is None


def test_nothing_dynamic_needs_no_import() -> None:
    recipe = Recipe(Two(), (t(3), t(5)), {}, {"x": {0: 3}, "y": None})
    structure = structure_of(recipe)
    assert spell(asked_plan(structure), structure).code == 'dynamic_shapes = {\n    "x": {0: 3},\n    "y": None,\n}\n'
    assert spell(Plan((), {}), structure_of(CASES["nothing"]())).code == "dynamic_shapes = None\n"


def test_diff_names_both_sides() -> None:
    structure = structure_of(CASES["one input alone"]())
    before = spell(asked_plan(structure), structure).code
    plan = Plan((DimDef("_h", Range(2, 12)),), {"x.shape[0]": Leaf(LeafKind.DIM, "_h", 8, -1, name="h")})
    after = spell(plan, structure).code
    assert plan_diff(before, after) == (
        "--- asked\n"
        "+++ fixed\n"
        "@@ -1,6 +1,7 @@\n"
        " from torch.export import Dim\n"
        " \n"
        '-h = Dim("h", min=3, max=97)\n'
        '+_h = Dim("_h", min=2, max=12)\n'
        "+h = 8 * _h - 1\n"
        " \n"
        " dynamic_shapes = {\n"
        '     "x": {0: h},\n'
    )
    assert plan_diff(after, after) == ""
    assert plan_diff("", after).splitlines()[2].startswith("@@ -0,0 +1,")
