"""``ShapesSpec`` handed in where ``dynamic_shapes`` are asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from trtdiag.errors import DimsError
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.shapes_spec import with_plain_shapes

spec = pytest.importorskip("torch.fx.experimental.dynamic_spec", reason="torch 2.13 is the first to have it")


class Several(nn.Module):
    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor], n: int, *rest: Tensor, **named: Tensor) -> Tensor:
        total = x.sum() + pair[0].sum() + pair[1].sum() + n
        return total + sum(r.sum() for r in rest) + sum(k.sum() for k in named.values())


def recipe(shapes: Any) -> Recipe:
    pair = torch.rand(6), torch.rand(3)
    return Recipe(Several(), (torch.rand(4, 9), pair, 5, torch.rand(4)), {"mask": torch.rand(6)}, shapes)


def test_every_part_is_read() -> None:
    b, h = spec.ShapeVar("b", min=2, max=8), spec.ShapeVar("h", max=64, optimization_hint=6)
    params = {
        "x": spec.TensorSpec([b, 2 * b + 1]),
        "pair": spec.SeqSpec([spec.TensorSpec([h])]),
        "n": spec.IntVar("n", min=1, max=9),
        "*args": [spec.TensorSpec([b])],
        "**kwargs": {"mask": spec.TensorSpec([h])},
    }
    for given in (spec.ShapesSpec(params), spec.ParamsSpec(params), spec.ShapesSpec(spec.ParamsSpec(params))):
        shapes = with_plain_shapes(recipe(given)).dynamic_shapes
        dim, other = shapes["x"][0], shapes["pair"][0][0]
        assert (dim.__name__, dim.min, dim.max) == ("b", 2, 8)
        assert (other.__name__, other.min, other.max) == ("h", 0, 64)
        derived = shapes["x"][1]
        assert derived.root is dim
        assert [derived.fn(value) for value in (2, 8)] == [5, 17]
        assert shapes["pair"][1] is None
        assert (shapes["n"].min, shapes["n"].max) == (1, 9)
        assert shapes["rest"] == ({0: dim},)
        assert shapes["named"] == {"mask": {0: other}}


def test_variables_of_one_name_stay_two() -> None:
    first, second = spec.ShapeVar("b", max=8), spec.ShapeVar("b", max=8)
    shapes = with_plain_shapes(
        Recipe(
            nn.Bilinear(3, 3, 2),
            (torch.rand(4, 3), torch.rand(4, 3)),
            {},
            spec.ShapesSpec({"input1": spec.TensorSpec([first, None]), "input2": spec.TensorSpec([second, 3])}),
        )
    ).dynamic_shapes
    assert shapes["input1"][0].__name__ == "b"
    assert shapes["input2"][0].__name__ == "b_2"
    assert shapes["input2"][1] == 3


def test_other_forms_are_left_alone() -> None:
    for shapes in (None, {"x": {0: Dim("b")}}, ({0: Dim.AUTO},)):
        given = Recipe(nn.ReLU(), (torch.rand(3),), {}, shapes)
        assert with_plain_shapes(given) is given


B, H = (spec.ShapeVar("b"), spec.ShapeVar("h"))
UNSAYABLE = {
    "assumption": (spec.ShapesSpec({"input": spec.TensorSpec([B, None])}, assumptions=[B % 2 == 0]), "assumes"),
    "two variables": (spec.ShapesSpec({"input": spec.TensorSpec([B * H, None])}), "has the size"),
    "no place of its own": (spec.ShapesSpec({"input": spec.TensorSpec([2 * B, None])}), "has the size"),
    "falling": (spec.ShapesSpec({"input": spec.TensorSpec([B, 9 - B])}), "has the size"),
    "rank": (spec.ShapesSpec({"input": spec.TensorSpec([B])}), "a tensor of 2 dims"),
    "no tensor": (spec.ShapesSpec({"input": B}), "a tensor of 2 dims"),
    "name": (spec.ShapesSpec({"image": spec.TensorSpec([B, None])}), "names 'image'"),
}


@pytest.mark.parametrize("case", UNSAYABLE)
def test_what_no_dims_say_is_refused_with_its_reason(case: str) -> None:
    shapes, words = UNSAYABLE[case]
    with pytest.raises(DimsError) as refused:
        with_plain_shapes(Recipe(nn.ReLU(), (torch.rand(4, 3),), {}, shapes))
    assert words in f"{refused.value.message} {refused.value.because}"


@pytest.mark.skipif(torch.__version__ >= "2.14", reason="torch.export takes it from 2.14 on")
def test_torch_export_does_not_take_it() -> None:
    with pytest.raises(TypeError, match="ShapesSpec"):
        export(nn.ReLU(), (torch.rand(4, 3),), dynamic_shapes=spec.ShapesSpec({"input": spec.TensorSpec([B, None])}))


class Apart(nn.Module):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input[:, ::4][:, 1:].reshape(input.shape[0], -1, 2).sum(2)


@pytest.mark.skipif(torch.__version__ < "2.14", reason="torch.export takes it from 2.14 on")
def test_an_export_with_assumptions_runs_where_they_hold_and_nowhere_else() -> None:
    height = spec.ShapeVar("height", min=16, max=256)
    shapes = spec.ShapesSpec({"input": spec.TensorSpec([2, height])}, assumptions=[((height - 1) // 4) % 2 == 0])
    exported = export(Apart(), (torch.rand(2, 37),), dynamic_shapes=shapes)
    report = trtdiag.analyze(exported)
    assert "GRD301" in {finding.rule for finding in report.findings}
    compiled = trtdiag.compile(exported, backend="reference", force=True)
    for size in range(16, 34):
        if (size - 1) // 4 % 2 == 0:
            given = torch.rand(2, size)
            torch.testing.assert_close(compiled(given), Apart()(given))
        else:
            with pytest.raises(RuntimeError, match="Runtime assertion failed"):
                exported.module()(torch.rand(2, size))


def test_commands_take_it() -> None:
    shapes = spec.ShapesSpec({"input": spec.TensorSpec([spec.ShapeVar("b", min=1, max=31), None])})
    source = (
        nn.PixelUnshuffle(1),
        (torch.rand(4, 3, 8, 8),),
        {},
        spec.ShapesSpec({"input": spec.TensorSpec([spec.ShapeVar("b", min=2, max=31), None, None, None])}),
    )
    fix = trtdiag.fix_dims(nn.ReLU(), (torch.rand(4, 3),), dynamic_shapes=shapes)
    assert fix.outcome.value == "unchanged"
    assert 'b = Dim("b", min=1, max=31)' in fix.code
    (found,) = trtdiag.capture(source).inputs
    assert found.dims[0].declared == "b"
