"""Bounds that users give sizes: how they are written, what each name means, and which are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.harness.rows import each
from trtdiag.asked_bounds import bound_word, bounds_by_name, read_bounds
from trtdiag.errors import ArgumentError, DimsError, UserError
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.frontend.sizes_of_data import names_of_data, sizes_of_data
from trtdiag.shapes.bounded import bounded
from trtdiag.symbolic import Range


class Chosen(nn.Module):
    """Two numbers of one line, a mask's count, a count in a tuple, and dims with a guard each."""

    def forward(self, x: Tensor, y: Tensor, which: Tensor) -> tuple[Tensor, ...]:
        first, second = which[0].item(), which[1].item()
        kinds, counts = torch.unique(y, return_counts=True)
        return torch.arange(first), torch.arange(second), x[x > 0], kinds * counts, x.view(-1, 8).sum(1)


@pytest.fixture(scope="module")
def program() -> Program:
    """``x`` is [8*h], ``y`` is [w, 2*w + 1]; neither ``h`` nor ``w`` has an end, ``c`` of ``y`` is 3."""
    h, w = Dim("_h", min=2), Dim("w", min=3)
    shapes = {"x": {0: 8 * h}, "y": {0: w, 1: 2 * w + 1, 2: None}, "which": None}
    inputs = torch.randn(40), torch.arange(5 * 11 * 3).reshape(5, 11, 3) % 7, torch.tensor([3, 4])
    return capture(lambda: (Chosen(), inputs, {}, shapes))


def _range(program: Program, name: str) -> Range:
    (symbol,) = [symbol for symbol, known in program.names.items() if known == name]
    return program.ranges[symbol]


@each(
    "row",
    [
        ("item<=4096", ("item", None, 4096)),
        ("item >= 1", ("item", 1, None)),
        ("1<=nonzero.shape[0]<=7", ("nonzero.shape[0]", 1, 7)),
        ("net.py:25<=-2", ("net.py:25", None, -2)),
        ("u0=..5", ("u0", None, 5)),
        ("u0=-3..5", ("u0", -3, 5)),
        (" u0 = 2.. ", ("u0", 2, None)),
    ],
)
def test_words_of_the_command_line(row: tuple[str, Any]) -> None:
    word, bound = row
    assert read_bounds((word,)) == (bound,)
    assert read_bounds((bound_word(bound),)) == (bound,)


@each(
    "word",
    ["", "item", "item=4", "item<5", "<=4", "4<=item>=2", "7<=item<=2", "item<=", "item<=4.5", "a=..", "a<=9<=b"],
)
def test_what_is_no_assumption(word: str) -> None:
    with pytest.raises(UserError, match="is no assumption") as refused:
        read_bounds((word,))
    assert "'nonzero<=4096', with the quotes" in refused.value.fix


@each(
    "row",
    [
        ("7<=item<=2", "its least value is greater than its greatest"),
        ("item=7..2", "its least value is greater than its greatest"),
        ("item=..", "it says neither end"),
        ("item<=99999999999999999999", "in whole numbers of at most 18 digits"),
        ("item<5", "it is none of NAME<=MAX"),
    ],
)
def test_why_it_is_none(row: tuple[str, str]) -> None:
    word, why = row
    with pytest.raises(UserError) as refused:
        read_bounds((word,))
    assert why in refused.value.because


def test_bounds_from_python() -> None:
    kept = (("a", None, 4), ("b", 1, None), ("c", 2, 2))
    assert bounds_by_name("assume", {"a": 4, "b": (1, None), " c ": [2, 2]}) == kept
    assert bounds_by_name("assume", kept) == kept
    for value in (
        {"a": None},
        {"a": (None, None)},
        {"a": (3, 2)},
        {"a": True},
        {" ": 3},
        {1: 3},
        {"a": (1, 2, 3)},
        5,
        [3],
    ):
        with pytest.raises(ArgumentError, match="assume"):
            bounds_by_name("assume", value)


def test_names_of_sizes_from_data(program: Program) -> None:
    sizes = sizes_of_data(program)
    assert [size.name for size in sizes.values()] == ["item", "item_1", "_unique2[0].shape[0]", "index.shape[0]"]
    names = names_of_data(program)
    (line,) = {line for size in sizes.values() for line in size.lines if size.name == "item"}
    assert len(names[line]) == 2
    assert names["item"] == names["u0"]
    assert names["index"] == names["index.shape[0]"]


def test_what_is_said_of_sizes(program: Program) -> None:
    found = bounded(program, [("item", None, 9), ("u0", 2, None), ("index", None, 3)], [("x.shape[0]", 70), ("w", 8)])
    assert _range(found, "item") == Range(2, 9)
    assert _range(found, "index.shape[0]") == Range(0, 3)
    assert _range(found, "w") == Range(3, 8)
    assert [str(bound.range) for bound in found.bounds if not bound.assumed] == ["2..8", "3..8"]  # 8*8 is 64
    assert found.exported is not program.exported
    assert program.ranges != found.ranges
    assert found.unassumed.ranges == {**program.ranges, **{b.symbol: b.range for b in found.bounds if not b.assumed}}
    assert [guard.condition for guard in found.guards] == [guard.condition for guard in program.guards]


def test_nothing_said_is_nothing_changed(program: Program) -> None:
    assert bounded(program) is program
    once = bounded(program, [("item", 0, 9)], [("w", 8)])
    again = bounded(replace(once, bounds=()), [("item", None, 9)], [("w", 8)])
    assert [(bound.unneeded, bound.said) for bound in again.bounds] == [(True, (None, None))] * 2
    assert again.exported is not None
    assert once.exported is not None
    assert len(again.exported.graph.nodes) == len(once.exported.graph.nodes)


@each(
    "row",
    [
        ({"assumed": [("nozero", None, 3)]}, "unknown-size", r"no size .* 'nozero'", "item \\(aten.item.default at"),
        ({"assumed": [("itme", None, 3)]}, "unknown-size", r"'itme'", "those that the data decides"),
        ({"assumed": [("w", None, 3)]}, "unknown-size", "nothing need be assumed of w", "--max w=SIZE"),
        ({"assumed": [("item", None, -1)]}, "assumption-not-allowed", "item<=-1 cannot be", r"item is 0 or more"),
        ({"assumed": [("item", 5, None), ("item", 1, 4)]}, "assumption-not-allowed", "1<=item<=4", "item is 5 or more"),
        ({"max_sizes": [("t", 3)]}, "unknown-dim", "no dim of the program is called 't'", "w"),
        ({"max_sizes": [("y.shape[2]", 3)]}, "max-not-allowed", "cannot have a maximum", "it is always 3"),
        ({"max_sizes": [("w", 2)]}, "max-not-allowed", "w cannot be at most 2", "w is 3 or more"),
        ({"max_sizes": [("w", 4)]}, "max-not-allowed", "w cannot be at most 4", "its example has w = 5"),
        ({"max_sizes": [("y.shape[1]", 9)]}, "max-not-allowed", "at most 9", r"y.shape\[1\] = 11"),
        ({"max_sizes": [("item", 9)]}, "max-not-allowed", "--max is not for item", "--assume 'item<=9'"),
    ],
    ids=lambda row: str(row[0]),
)
def test_what_is_refused(program: Program, row: tuple[dict[str, Any], str, str, str]) -> None:
    asked, reference, message, because = row
    with pytest.raises(DimsError, match=message) as refused:
        bounded(program, **asked)
    assert refused.value.reference == reference
    told = f"{refused.value.because} {refused.value.fix}"
    assert because.replace("\\", "") in told


def test_a_line_with_several_sizes_is_none_of_them(program: Program) -> None:
    (line,) = {line for size in sizes_of_data(program).values() for line in size.lines if size.name == "item_1"}
    with pytest.raises(DimsError, match="several sizes are called") as refused:
        bounded(program, [(line, None, 3)])
    assert refused.value.because == "they are item, item_1"


def test_a_maximum_beyond_what_a_program_takes(program: Program) -> None:
    narrow = bounded(program, (), [("w", 8)])
    with pytest.raises(DimsError, match="w cannot be up to 9") as refused:
        bounded(narrow, (), [("w", 9)])
    assert refused.value.because == "the program takes at most 8"


class Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch._check(x.shape[0] % 6 == 0)
        torch._check(x.shape[0] * x.shape[1] >= 40)
        return x.sum(1)


def test_a_maximum_that_guards_forbid() -> None:
    shapes = {"x": {0: Dim.DYNAMIC(min=2), 1: Dim.DYNAMIC(min=2)}}  # type: ignore[operator]
    made = capture(lambda: (Halved(), (torch.randn(12, 9),), {}, shapes))
    assert bounded(made, (), [("x.shape[0]", 13)]).bounds[0].range == Range(2, 13)
    with pytest.raises(DimsError, match="cannot be at most 5") as refused:
        bounded(_without_example(made), (), [("x.shape[0]", 5)])
    assert "% 6" in refused.value.because
    assert refused.value.fix == "give a greater one, at least 6"
    with pytest.raises(DimsError, match="no sizes are left with --max"):
        bounded(_without_example(made), (), [("x.shape[0]", 6), ("x.shape[1]", 6)])


def _without_example(program: Program) -> Program:
    return replace(program, hints={})
