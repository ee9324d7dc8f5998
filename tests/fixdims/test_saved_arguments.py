"""A program has to be exported again with the arguments that the user's own forward takes, ``*args`` among them."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram, export

from tests.fixdims.structure_cases import CASES, t
from tests.harness.rows import thinned
from trtdiag.dims.dynamic_shapes.asked import structure_of
from trtdiag.dims.plan import LeafKind, program_plan
from trtdiag.fixdims.run import fix_dims
from trtdiag.frontend.capture import capture
from trtdiag.frontend.reexport import program_recipe

A = Dim.AUTO


class Gathers(torch.nn.Module):
    def forward(self, *xs: Any) -> Tensor:
        return xs[0][:, :5] * 2 + xs[1].sum()


class Rest(torch.nn.Module):
    def forward(self, x: Tensor, y: Any = None, *rest: Any, scale: float = 2.0, opts: Any = None) -> Tensor:
        return x * scale + rest[0]["q"][0][:4].sum() + rest[1].sum() + opts["k"][1].sum()


class Numbered(torch.nn.Module):
    """``x_1`` is a parameter of its own although it looks like one of ``*x``."""

    def forward(self, x: Tensor, x_1: Tensor, pair: Any, *args: Any) -> Tensor:
        return x[:3].sum() + x_1 + pair[0][:2].sum() + args[0]["a"][:3].sum()


def _named() -> ExportedProgram:
    dims = (({0: Dim("b", min=2, max=50), 1: A}, {0: A}),)
    return export(Gathers(), (t(4, 7), t(3)), dynamic_shapes=dims)


def _rest() -> ExportedProgram:
    args, kwargs = (t(4), None, {"q": [t(7)]}, t(4)), {"opts": {"k": [t(2), t(5)]}, "scale": 3.0}
    spec = {
        "x": {0: A}, "y": None, "rest": ({"q": [{0: A}]}, {0: A}), "scale": None, "opts": {"k": [{0: A}, {0: A}]},
    }  # fmt: skip
    return export(Rest(), args, kwargs, dynamic_shapes=spec)


def _numbered() -> ExportedProgram:
    spec = {"x": {0: A}, "x_1": {0: A}, "pair": ({0: A}, None), "args": ({"a": {0: A}},)}
    return export(Numbered(), (t(7), t(5), (t(4), 2), {"a": t(6)}), dynamic_shapes=spec)


PROGRAMS = {"gathers": _named, "rest": _rest, "numbered": _numbered}
SITES = {
    "gathers": ["xs[0].shape[0]", "xs[0].shape[1]", "xs[1].shape[0]"],
    "rest": [
        "x.shape[0]", "rest[0]['q'][0].shape[0]", "rest[1].shape[0]", "opts['k'][0].shape[0]", "opts['k'][1].shape[0]",
    ],
    "numbered": ["x.shape[0]", "x_1.shape[0]", "pair[0].shape[0]", "args[0]['a'].shape[0]"],
}  # fmt: skip


def _saved(exported: ExportedProgram) -> ExportedProgram:
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


# Quick: saved programs, which have lost more.
@pytest.mark.parametrize("how", [pytest.param("live", marks=pytest.mark.slow), "saved"])
# Quick: the ends.
@thinned("name", PROGRAMS, every=9)
def test_each_dim_is_called_what_the_user_calls_it_and_is_found_again(name: str, how: str) -> None:
    exported = PROGRAMS[name]() if how == "live" else _saved(PROGRAMS[name]())
    program = capture(exported)
    assert list(program_plan(program).leaves) == SITES[name]
    recipe = program_recipe(program)
    assert recipe is not None
    assert set(SITES[name]) <= set(structure_of(recipe).dims)
    again = export(recipe.module, recipe.args, recipe.kwargs, dynamic_shapes=None)
    inputs, named = recipe.args, recipe.kwargs
    torch.testing.assert_close(again.module()(*inputs, **named), recipe.module(*inputs, **named))


# The quick run has every structure in test_spell_exports.py.
@thinned("case", CASES, every=6)
def test_the_dims_of_a_program_are_dims_of_what_is_exported_again(case: str) -> None:
    recipe = CASES[case]()
    program = capture(export(recipe.module, recipe.args, recipe.kwargs, dynamic_shapes=recipe.dynamic_shapes))
    again = program_recipe(program)
    assert again is not None
    assert set(program_plan(program).leaves) <= set(structure_of(again).dims)


@pytest.mark.parametrize("name", ["gathers", pytest.param("rest", marks=pytest.mark.slow)])
@pytest.mark.slow  # quick: each dim is found and exported again, above
def test_fix_dims_answers_for_saved_arguments(name: str) -> None:
    fix = fix_dims(_saved(PROGRAMS[name]()))
    assert fix.confirmation.exported
    assert fix.proven
    assert list(fix.plan.leaves) == SITES[name]
    assert all(leaf.kind is LeafKind.DIM for leaf in fix.plan.leaves.values())
    assert fix.plan.range_of(fix.plan.leaves[SITES[name][0]].root).min == 2


@pytest.mark.slow  # quick: each dim is called what the user calls it and is found again
def test_what_is_declared_fits_the_users_own_module() -> None:
    fix = fix_dims(_saved(_named()))
    assert '"xs": (' in fix.code
    export(Gathers(), (t(4, 7), t(3)), dynamic_shapes=fix.dynamic_shapes)
