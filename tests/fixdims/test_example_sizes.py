"""Example inputs of other sizes: values stay what the model expects, the given tensors stay as they are."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

import trtdiag
from tests.fixdims.structure_cases import CASES, Box, Pair, Rest, Sample, Two, t
from tests.harness.rows import each
from trtdiag.dims.dynamic_shapes.asked import structure_of
from trtdiag.dims.dynamic_shapes.examples import resized
from trtdiag.frontend.factory import Recipe


def one(tensor: Any, sizes: dict[str, int]) -> torch.Tensor:
    args, kwargs = resized((tensor,), {}, ["x"], sizes)
    assert kwargs == {}
    found = args[0]
    assert isinstance(found, torch.Tensor)
    return found


@pytest.mark.parametrize("size", [0, 1, 2, 5, 7, 15])
def test_values_are_repeated_or_cut(size: int) -> None:
    tokens = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    found = one(tokens, {"x.shape[1]": size})
    assert found.shape == (2, size)
    assert found.dtype is torch.int64
    assert all(found[row, index] == tokens[row, index % 5] for row in range(2) for index in range(size))


def test_several_dims_at_once() -> None:
    found = one(torch.arange(6).reshape(2, 3), {"x.shape[0]": 3, "x.shape[1]": 2})
    assert found.tolist() == [[0, 1], [3, 4], [0, 1]]


@pytest.mark.parametrize(
    ("dtype", "value"), [(torch.bool, False), (torch.float16, 0.0), (torch.int32, 0), (torch.complex64, 0)]
)
def test_dims_of_no_values_give_zeros(dtype: torch.dtype, value: Any) -> None:
    found = one(torch.ones(3, 0, 2, dtype=dtype), {"x.shape[1]": 5, "x.shape[0]": 1})
    assert found.shape == (1, 5, 2)
    assert found.dtype is dtype
    assert (found == value).all()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(2, 3, 5, 7),
        torch.randn(2, 3, 5, 7).to(memory_format=torch.channels_last),
        torch.randn(2, 3, 5, 7, 2).to(memory_format=torch.channels_last_3d),
        torch.randn(5, 3, 2, 7).transpose(0, 2),
        torch.randn(2, 3, 1, 7).expand(2, 3, 5, 7),
    ],
    ids=["contiguous", "channels_last", "channels_last_3d", "transposed", "expanded"],
)
def test_order_in_memory_is_kept(tensor: torch.Tensor) -> None:
    found = one(tensor, {"x.shape[2]": 11, "x.shape[3]": 4})
    assert found.shape[2:4] == (11, 4)
    for form in (torch.contiguous_format, torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d):
        assert found.is_contiguous(memory_format=form) == (
            tensor.is_contiguous(memory_format=form) or (tensor.stride(2) == 0 and form is torch.contiguous_format)
        )
    assert torch.equal(found[:, :, :5], tensor[:, :, :, :4])


def test_gradients_and_values_of_the_given_tensor_stay() -> None:
    tensor = torch.randn(3, 5, requires_grad=True)
    before = tensor.detach().clone()
    found = one(tensor, {"x.shape[0]": 7})
    assert found.requires_grad
    assert found.is_leaf
    with torch.no_grad():
        found.zero_()
    assert torch.equal(tensor, before)
    assert tensor.shape == (3, 5)
    assert not one(torch.ones(3), {"x.shape[0]": 4}).requires_grad


def test_same_sizes_are_the_same_tensor() -> None:
    tensor = t(3, 5)
    assert one(tensor, {"x.shape[0]": 3, "x.shape[1]": 5}) is tensor


def test_containers_are_kept_and_others_untouched() -> None:
    text, label = t(2, 3), {"none": None, "text": "s", "number": 2.5, "flag": True}
    args = (Pair([Sample(t(7, 5), [t(3)])], Box(t(3), t(5, 3))), text)
    sizes = {
        "x.image[0].image.shape[1]": 2,
        "x.image[0].boxes[0].shape[0]": 4,
        "x.mask.rest['score'].shape[0]": 1,
        "y['a'].shape[0]": 9,
    }
    kwargs = {"y": {"a": t(1), **label}}
    given = copy.deepcopy(pytree.tree_map(lambda leaf: getattr(leaf, "shape", leaf), (args, kwargs)))
    (first, second), found = resized(args, kwargs, ["x", "z", "y"], sizes)
    assert isinstance(first, Pair)
    assert isinstance(first.image[0], Sample)
    assert isinstance(first.mask, Box)
    assert (first.image[0].image.shape, first.image[0].boxes[0].shape, first.mask.score.shape) == ((7, 2), (4,), (1, 3))
    assert second is text
    assert found["y"]["a"].shape == (9,)
    assert {key: found["y"][key] for key in label} == label
    left = pytree.tree_map(lambda leaf: getattr(leaf, "shape", leaf), (args, kwargs))
    assert pytree.tree_leaves(left) == pytree.tree_leaves(given)


@pytest.mark.parametrize("top", ["rest", "args"])
def test_inputs_of_rest_are_found_by_either_name(top: str) -> None:
    recipe = Recipe(Rest(), (t(2), t(3), [t(5, 2)]), {}, None)
    args, _ = resized(recipe.args, recipe.kwargs, recipe.parameter_names(), {f"{top}[1][0].shape[0]": 4})
    assert (args[0].shape, args[1].shape, args[2][0].shape) == ((2,), (3,), (4, 2))


def test_integers_get_the_number() -> None:
    args, kwargs = resized((t(3), [4, True]), {"n": 7}, ["x", "y", "n"], {"n": 11, "y[0]": 5})
    assert (args[1], kwargs) == ([5, True], {"n": 11})


@pytest.mark.parametrize("site", ["z.shape[0]", "x.shape[2]", "x", "x[0].shape[0]", "y['a'].shape[0]", "n.shape[0]"])
def test_unknown_sites_are_refused(site: str) -> None:
    with pytest.raises(KeyError):
        resized((t(3, 5), {"b": t(2)}), {"n": 3}, ["x", "y", "n"], {site: 4})


@each("case", CASES)
def test_every_site_of_every_form_can_be_resized(case: str) -> None:
    recipe = CASES[case]()
    dims = structure_of(recipe).dims
    sizes = {site: dim.size + 1 + place for place, (site, dim) in enumerate(dims.items())}
    args, kwargs = resized(recipe.args, recipe.kwargs, recipe.parameter_names(), sizes)
    changed = structure_of(Recipe(recipe.module, args, kwargs, None)).dims
    assert {site: dim.size for site, dim in changed.items()} == sizes
    assert {site: dim.size for site, dim in structure_of(recipe).dims.items()} == {
        site: dim.size for site, dim in dims.items()
    }


def test_module_runs_on_resized_inputs() -> None:
    recipe = Recipe(Two(), ({"a": [t(3, 5)]}, t(7)), {}, None)
    args, kwargs = resized(recipe.args, recipe.kwargs, recipe.parameter_names(), {"x['a'][0].shape[0]": 4})
    assert recipe.module(*args, **kwargs) == 4 * 5 + 7


class EvenBothWays(torch.nn.Module):
    """Takes heights and widths whose quarters, rounded, are even: half of the residues modulo 8 each."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if ((x.shape[1] - 1) // 4 + 1) % 2 or ((x.shape[2] - 1) // 4 + 1) % 2:
            raise ValueError("even numbers of rows and columns are needed")
        return x.relu()


@pytest.mark.slow  # quick: what decides nothing, in test_several_programs.py
def test_further_programs_have_examples_next_to_the_given_one() -> None:
    """Of sizes by chance the nearest was far off: a program of 1 MB was saved with an example of 100 MB."""
    dims = {"x": {1: Dim("h", min=4, max=4000), 2: Dim("w", min=4, max=4000)}}
    fix = trtdiag.fix_dims((EvenBothWays(), (torch.rand(1, 24, 32),), {}, dims), programs=3)
    assert len(fix.programs) == 3
    assert all(max(program.args[0].shape) <= 40 for program in fix.programs if program.args)
