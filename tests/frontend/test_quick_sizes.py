"""Torch computes with sizes, and notes stacks, in fewer steps: what it gives is the same."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any
from unittest import mock

import pytest
import sympy
import torch
from sympy.simplify.simplify import signsimp
from torch import Tensor, nn
from torch.export import Dim
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _traceback
from torch.utils._sympy import interp, value_ranges
from torch.utils._sympy.functions import FloorDiv, Mod

from trtdiag.frontend.quick_sizes import quick_sizes

SIMPLIFY = import_module("sympy.simplify.simplify")
KNOWN = torch.__version__.startswith("2.13.")


class Windows(nn.Module):
    """Sizes that are added, divided, compared and found equal; a guard joins two dims."""

    def forward(self, x: Tensor, y: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        batch, height, width = x.shape
        parts = x.reshape(batch, height // 2, 2, width).flatten(0, 1)
        kept = torch.nonzero(lengths)
        return parts[:, :, : width - 1] @ parts.transpose(1, 2)[:, : width - 1], x + y * kept.shape[0]


def exported(quick: bool) -> list[Any]:
    height = 2 * Dim("half", min=2, max=19)
    dims = ({0: Dim.AUTO, 1: height, 2: Dim.AUTO}, {0: Dim.AUTO, 1: height, 2: Dim.AUTO}, None)
    example = (torch.ones(3, 14, 7), torch.ones(3, 14, 7), torch.ones(5))
    with quick_sizes() if quick else nullcontext():
        program = torch.export.export(Windows(), example, dynamic_shapes=dims)
    nodes = [
        (node.format_node(), node.meta.get("stack_trace"), str(node.meta.get("val"))) for node in program.graph.nodes
    ]
    guards = program.graph_module.meta.get("guards_code"), program._guards_code
    return [nodes, guards, {str(name): str(found) for name, found in program.range_constraints.items()}]


def test_an_export_is_the_same() -> None:
    before = exported(quick=False)
    assert exported(quick=True) == before
    assert any("test_quick_sizes.py" in (stack or "") for _, stack, _ in before[0])
    assert len(before[2]) > 2  # a size of the data among them


@pytest.mark.skipif(not KNOWN, reason="another release of torch is let alone")
def test_the_shorter_steps_are_taken_and_taken_back() -> None:
    names = [
        (SymNode, "expr"),
        (SymNode, "maybe_as_int"),
        (ShapeEnv, "_create_fx_call_function"),
        (_traceback, "_extract_symbolized_tb"),
        (sympy, "simplify"),
        (SIMPLIFY, "simplify"),
        (sympy.Basic, "atoms"),
        (sympy.Basic, "xreplace"),
        (sympy.Basic, "_xreplace"),
        (symbolic_shapes, "safe_expand"),
        (symbolic_shapes, "_fast_expand"),
        (value_ranges, "sympy_interp"),
    ]
    before = [vars(owner)[name] for owner, name in names]
    with suppress(ZeroDivisionError), quick_sizes():
        assert all(vars(owner)[name] is not was for (owner, name), was in zip(names, before, strict=True))
        raise ZeroDivisionError
    assert [vars(owner)[name] for owner, name in names] == before


def simplified(quick: bool) -> tuple[list[str], int]:
    """Quotients in quotients as they are simplified, and how many expressions were."""
    size: Any = sympy.Symbol("s", integer=True, positive=True)
    found = []
    with quick_sizes() if quick else nullcontext(), mock.patch.object(SIMPLIFY, "signsimp", wraps=signsimp) as begun:
        for depth in range(1, 4):
            size = FloorDiv(size + depth, 2) * depth + Mod(size, 7)
            found.append(str(sympy.simplify(size)))
    return found, begun.call_count


@pytest.mark.slow  # quick: test_each_that_asks_for_parts_has_a_set_of_its_own
@pytest.mark.skipif(not KNOWN, reason="another release of torch is let alone")
def test_a_quotient_in_others_is_simplified_once() -> None:
    plain, often = simplified(quick=False)
    quick, once = simplified(quick=True)
    assert quick == plain
    assert once * 4 < often


@pytest.mark.skipif(not KNOWN, reason="another release of torch is let alone")
def test_each_that_asks_for_parts_has_a_set_of_its_own() -> None:
    a, b = sympy.symbols("a b", integer=True)
    size = FloorDiv(a + 3, b) + 2
    with quick_sizes():
        size.atoms(FloorDiv).clear()
        assert size.atoms(FloorDiv) == {FloorDiv(a + 3, b)}
        assert size.atoms(sympy.Integer) == {sympy.Integer(2), sympy.Integer(3)}
        assert size.atoms() == {a, b, sympy.Integer(2), sympy.Integer(3)}


def padded(depth: int) -> Any:
    """The size of an axis whose windows of 7 are padded, halved so many times."""
    size: Any = sympy.Symbol("s", integer=True, positive=True)
    for _ in range(depth):
        size = FloorDiv(size + 1, 2)
        size = size + Mod(7 - Mod(size, 7), 7)
    return (size + 1) * (FloorDiv(size, 7) + 2)


def bounded(quick: bool) -> tuple[list[str], int]:
    """The expanded expressions of padded windows with their ranges, and how many parts were looked at."""
    found: list[str] = []
    ranges = {sympy.Symbol("s", integer=True, positive=True): value_ranges.ValueRanges(127, 641)}
    handler = mock.patch.object(interp, "_run_sympy_handler", wraps=interp._run_sympy_handler)
    with quick_sizes() if quick else nullcontext(), handler as read:
        for depth in range(4):
            size = symbolic_shapes.safe_expand(padded(depth))
            found += [str(size), str(value_ranges.bound_sympy(size, ranges))]
            found.append(str(value_ranges.bound_sympy(sympy.Eq(size, 64), ranges)))
    return found, read.call_count


@pytest.mark.skipif(not KNOWN, reason="another release of torch is let alone")
def test_the_parts_of_a_size_are_bounded_once() -> None:
    symbolic_shapes.safe_expand.cache_clear()
    plain, often = bounded(quick=False)
    quick, once = bounded(quick=True)
    assert quick == plain
    assert once * 2 < often


@pytest.mark.skipif(not KNOWN, reason="another release of torch is let alone")
def test_what_stands_for_a_size_is_put_into_each_part_once() -> None:
    s, t = (sympy.Symbol(name, integer=True, positive=True) for name in "st")
    size = padded(3)
    plain = [str(size.xreplace(rule)) for rule in ({s: t + 1}, {s: sympy.Integer(641)}, {t: s}, {})]
    made = mock.patch.object(FloorDiv, "eval", wraps=FloorDiv.eval)
    with made as often:
        size.xreplace({s: 2 * t + 5})
    rule = {s: t + 1}
    with quick_sizes():
        assert [str(size.xreplace(each)) for each in (rule, {s: sympy.Integer(641)}, {t: s}, {})] == plain
        assert size.xreplace({t: s}) is size
        rule[s] = sympy.Integer(641)  # the same dict says something else now
        assert str(size.xreplace(rule)) == plain[1]
        with mock.patch.object(FloorDiv, "eval", wraps=FloorDiv.eval) as once:
            size.xreplace({s: 2 * t + 7})
    assert once.call_count < often.call_count


@pytest.mark.skipif(not KNOWN, reason="another release of torch is let alone")
def test_what_needs_no_expansion_stays_itself() -> None:
    """Torch makes an expression anew whose parts are others, though equal."""
    with quick_sizes():
        for _ in range(2):
            size = FloorDiv(sympy.Symbol("s", integer=True, positive=True) + 3, 2)
            assert symbolic_shapes._fast_expand(size) is size
            assert symbolic_shapes._fast_expand((size + 1) * (size + 2)) == size**2 + 3 * size + 2


def told(quick: bool) -> list[object]:
    """What is known of a sum of sizes before and after one of them is found to be a number, and both equal."""
    env = ShapeEnv()
    first, second = (env.create_unbacked_symint() for _ in range(2))
    total = first * 2 + second
    found: list[object] = []
    with quick_sizes() if quick else nullcontext():
        for fact in (True, first == 7, second == first):
            torch._check(fact)
            found += [(str(size.node.expr), size.node.maybe_as_int()) for size in (first, second, total)]
            found.append(str((total + first).node.expr))
    return found


def test_a_size_that_is_found_to_be_a_number_is_told_as_that() -> None:
    before = told(quick=False)
    assert told(quick=True) == before
    assert before[0] == ("u0", None)
    assert ("7", 7) in before
    assert before[-2] == ("21", 21)
