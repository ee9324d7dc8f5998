"""Profiles: least, usual and greatest size of every dim, and the sizes that engines are tuned for."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.harness.staged import staged
from trtdiag.errors import DimsError
from trtdiag.shapes.opt_sizes import allowed_box, opt_sizes
from trtdiag.shapes.profile import DimProfile, input_profile
from trtdiag.symbolic import Range, evaluate, free_symbols, parse_expr, symbol

BOX = {"s": Range(1, 64), "h": Range(17, 2161), "t": Range(2, None)}
OPT = {"s": 7, "h": 541, "t": 31}


def profile(text, box=BOX, opt=OPT):
    return input_profile([parse_expr(text, symbol)], box, opt)[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3", DimProfile(3, 3, 3)),
        ("s", DimProfile(1, 7, 64)),
        ("2*s", DimProfile(2, 14, 128)),
        ("s + 1", DimProfile(2, 8, 65)),
        ("(h - 1)//8", DimProfile(2, 67, 270)),
        ("8*((h - 1)//8)", DimProfile(16, 536, 2160)),
        ("s*h", DimProfile(17, 7 * 541, 64 * 2161)),
        ("h % 8", DimProfile(0, 5, 7)),  # not monotone: neither end is at a corner
        ("s*s - 20*s + 101", DimProfile(1, 10, 64 * 64 - 20 * 64 + 101)),  # least inside, at s = 10
        ("t", DimProfile(2, 31, None)),
        ("t + s", DimProfile(3, 38, None)),
        ("t//(s + 1)", DimProfile(0, 3, None)),
    ],
)
def test_ends_are_exact(text, wanted):
    assert profile(text) == wanted


@pytest.mark.parametrize("low", [0, 1, 2])
def test_the_least_size_is_the_declared_one(low):
    assert profile("s", {"s": Range(low, 5)}, {"s": 3}) == DimProfile(low, 3, 5)


def test_the_usual_size_is_never_outside():
    for text, size in itertools.product(("s", "2*s", "s + 1", "(s + 6)//8", "s % 5", "17 % s"), (1, 2, 31, 64)):
        found = profile(text, {"s": Range(1, 64)}, {"s": size})
        expr = parse_expr(text, symbol)
        reached = [int(evaluate(expr, {"s": value})) for value in range(1, 65)]
        assert (found.min, found.max) == (min(reached), max(reached))
        assert found.min <= found.opt <= found.max
        assert found.opt == evaluate(expr, {"s": size})


def test_a_symbol_that_nobody_declared_has_no_end():
    assert profile("u0 + 3", {}, {}) == DimProfile(3, 4, None)


class Sum(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.sum() + y.sum()


def two_inputs(dims):
    return staged(Sum(), (torch.randn(2, 9), torch.randn(4, 18)), dims).program


def by_name(program, sizes):
    return {program.names.get(own, own): size for own, size in sizes.items()}


def test_the_example_is_the_default_and_names_are_the_users():
    half = Dim("half", min=1, max=40)
    program = two_inputs({"x": {0: Dim("batch", min=1, max=8), 1: half}, "y": {1: 2 * half}})
    assert by_name(program, opt_sizes(program, program.ranges, ())) == {"batch": 2, "half": 9}
    assert by_name(program, opt_sizes(program, program.ranges, (("half", 31),))) == {"batch": 2, "half": 31}
    batch = next(own for own, name in program.names.items() if name == "batch")
    assert opt_sizes(program, program.ranges, ((batch, 8),))[batch] == 8
    sizes = opt_sizes(program, program.ranges, (("y.shape[1]", 62), ("x.shape[0]", 1)))
    assert by_name(program, sizes) == {"batch": 1, "half": 31}
    dims = [dim.expr for tensor in program.inputs for dim in tensor.dims]
    found = input_profile(dims, program.ranges, sizes)
    assert found == (DimProfile(1, 1, 8), DimProfile(1, 31, 40), DimProfile(4, 4, 4), DimProfile(2, 62, 80))


def test_an_example_outside_the_box_moves_to_its_end():
    program = two_inputs({"x": {0: Dim("batch", min=1, max=8)}, "y": {}})
    (own,) = program.ranges
    assert opt_sizes(program, {own: Range(5, 8)}, ()) == {own: 5}
    assert opt_sizes(program, {own: Range(1, 1)}, ()) == {own: 1}


def test_a_symbol_without_example():
    class Found(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.nonzero() * 2

    program = staged(Found(), (torch.ones(11),), {"x": {}}).program
    (own,) = program.ranges
    assert opt_sizes(program, {own: Range(0, 11)}, ()) == {own: 5}
    assert opt_sizes(program, {own: Range(0, None)}, ()) == {own: 1}


@pytest.mark.parametrize(
    ("asked", "reference", "told", "fix"),
    [
        (("batch", 9), "opt-not-allowed", "batch is 1..8", "ask for 8"),
        (("batch", 0), "opt-not-allowed", "batch is 1..8", "ask for 1"),
        (("y.shape[1]", 61), "opt-not-allowed", "it is 2*half, and half is 1..40", "ask for 60 or 62"),
        (("y.shape[1]", 90), "opt-not-allowed", "it is 2*half", "ask for 80"),
        (("hight", 9), "unknown-dim", "batch", "name one of them"),
        (("y.shape[0]", 5), "opt-of-static-dim", "the size is always 4", "leave it out"),
    ],
)
def test_what_cannot_be_asked_for(asked, reference, told, fix):
    half = Dim("half", min=1, max=40)
    program = two_inputs({"x": {0: Dim("batch", min=1, max=8), 1: half}, "y": {1: 2 * half}})
    with pytest.raises(DimsError) as caught:
        opt_sizes(program, program.ranges, (asked,))
    assert caught.value.reference == reference
    assert told in caught.value.because
    assert fix in caught.value.fix


def test_an_unknown_name_is_answered_with_names_alone():
    part = Dim("part", min=2, max=40)
    program = two_inputs({"x": {0: Dim("batch", min=1, max=8)}, "y": {1: 2 * part}})
    inputs = tuple(
        replace(each, dims=tuple(replace(dim, declared_name=None, declared_root=None) for dim in each.dims))
        for each in program.inputs
    )
    (symbol,) = {name for dim in inputs[1].dims for name in free_symbols(dim.expr)}
    lost = replace(program, inputs=inputs, names={**program.names, symbol: "_y_dim1"})
    with pytest.raises(DimsError) as caught:
        opt_sizes(lost, lost.ranges, (("hight", 9),))
    assert caught.value.because == "its dynamic dims are x.shape[0], y.shape[1], batch"
    assert lost.words.homes[symbol].site == "y.shape[1]"


def test_a_static_size_may_be_said_again():
    program = two_inputs({"x": {0: Dim("batch", min=1, max=8)}, "y": {}})
    assert list(opt_sizes(program, program.ranges, (("y.shape[0]", 4),)).values()) == [2]


class Grouped(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if x.shape[0] % 8 != 3:
            x = x * 2
        if x.shape[0] + y.shape[0] <= 70:
            y = y + 1
        return x.view(-1, 4).sum() + y.sum()


def grouped():
    return staged(Grouped(), (torch.randn(16), torch.randn(12)), {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}).program


def test_guards_are_kept():
    program = grouped()
    box = dict.fromkeys(program.ranges, Range(1, 67))
    x, y = box
    assert opt_sizes(program, box, ()) == {x: 16, y: 12}
    assert opt_sizes(program, box, ((x, 64),)) == {x: 64, y: 6}  # y gives way: together at most 70
    assert opt_sizes(program, box, ((y, 61),)) == {x: 8, y: 61}
    with pytest.raises(DimsError, match=f"engines cannot be tuned for {x}=17") as caught:
        opt_sizes(program, box, ((x, 17),))
    assert "% 4" in caught.value.because
    assert "16 or 20" in caught.value.fix
    with pytest.raises(DimsError) as caught:
        opt_sizes(program, box, ((x, 64), (y, 7)))
    assert caught.value.reference == "opt-sizes-conflict"
    assert "70" in caught.value.because


def test_ends_of_a_profile_are_sizes_that_the_guards_allow():
    program = grouped()
    box = dict.fromkeys(program.ranges, Range(1, 67))
    x, y = box
    # Not 4: torch's guards keep the size of the view, x//4, apart from 1.
    assert allowed_box(program, box) == {x: Range(8, 64), y: Range(1, 67)}
    assert allowed_box(program, {x: Range(2, None), y: Range(1, 67)})[x] == Range(8, None)
