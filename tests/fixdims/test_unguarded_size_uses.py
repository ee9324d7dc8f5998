"""What a model does by the text or the kind of a size, or where it is not exported, is compared at every size.

Where that cannot be done, nothing is called proven.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from numbers import Integral

import torch
from torch.compiler import is_compiling
from torch.export import Dim

from tests.harness.rows import each
from trtdiag.fixdims.fix import Fix, Refuted
from trtdiag.fixdims.run import fix_dims
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.program_of_export import attempted
from trtdiag.report.fix_words import fix_verdict
from trtdiag.symbolic.ranges import Range

TABLE: dict[object, float] = {"30": 2.0, 30: 2.0}
Function = Callable[[torch.Tensor], object]


class Calls(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


def _fixed(function: Function, most: int, example: int = 7) -> Fix:
    return fix_dims(Calls(function), (torch.randn(example, 3),), dynamic_shapes=({0: Dim("n", min=2, max=most)},))


def _admitted(fix: Fix) -> tuple[int, int]:
    range_ = fix.plan.leaves["x.shape[0]"].range
    assert range_.min is not None
    assert range_.max is not None
    return range_.min, range_.max


def _noted(function: Function) -> list[str]:
    recipe = Recipe(Calls(function), (torch.randn(7, 3),), {}, ({0: Dim("n", min=2, max=40)},))
    return [escape.how for escape in attempted(recipe).escapes]


def _scaled_by_table(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * TABLE[x.shape[0]]
    except Exception:  # as models fall back: a KeyError, and a TypeError while it is exported
        return x


def _says(x: torch.Tensor) -> torch.Tensor:
    print(f"{x.shape[0]} rows")
    if not is_compiling():
        print("not compiled")
    logging.getLogger("model").debug("%s rows", x.shape[0])
    torch._check(x.shape[1] == 3, lambda: f"{x.shape[0]} rows of {x.shape[1]}")
    torch._assert(x.shape[1] == 3, f"{x.shape[0]} rows of {x.shape[1]}")
    if x.dim() == 1:
        raise ValueError(f"{x.shape[0]} numbers")
    return x


ESCAPES: list[Function] = [
    lambda x: x * 2 if f"{x.shape[0]}" == "30" else x,
    lambda x: x * TABLE.get(str(x.shape[0]), 1.0),
    lambda x: x * 2 if f"{x.shape}".endswith("[30, 3])") else x,
    lambda x: x * 2 if str(x.shape[0] / 2) == "15.0" else x,
    lambda x: x * 2 if str(x.shape[0] == 30) == "True" else x,
    lambda x: x * 2 if isinstance(x.shape[0], int) else x,
    lambda x: x * 2 if isinstance(x.shape[0], Integral | float) else x,
    lambda x: x * 2 if not isinstance(x.shape[0], torch.SymInt) else x,
    lambda x: x * round(x.shape[0], -1),
    lambda x: x * 2 if type(x.shape[0]) is int else x,
    lambda x: x if torch.compiler.is_exporting() else x * 2,
    lambda x: x if is_compiling() else x * 2,
    lambda x: _scaled_by_table(x),
    lambda x: x * (-1) ** x.shape[0],
    lambda x: x * (-0.5) ** x.shape[0],
]
NONE: list[Function] = [
    _says,
    lambda x: x * 2 if type(x.shape[1]) is int else type(x)([1.0]),
    lambda x: x * 2 ** x.shape[0] * x.shape[0] ** 2 * (-1) ** x.shape[1],
    lambda x: x * 2 if isinstance(x.shape[0], int | torch.SymInt) else x,
    lambda x: x * 2 if f"{x.shape[1]}" == "3" else x,
    lambda x: x * 2 if isinstance(x.shape[0], tuple) else x,
    lambda x: x * round(x.shape[0], 2) * 10 * round(x.shape[0] / 10),
]


@each("function", ESCAPES)
def test_lines_that_ask_of_sizes_what_torch_guards_nowhere_are_noted(function: Function) -> None:
    assert len(_noted(function)) == 1


@each("function", NONE)
def test_text_that_only_tells_people_and_kinds_that_are_the_same_are_not(function: Function) -> None:
    assert not _noted(function)


def test_nothing_is_left_behind() -> None:
    plain = torch.SymInt.__repr__
    _noted(NONE[0])
    assert torch.SymInt.__repr__ is plain
    assert globals().keys().isdisjoint({"isinstance", "type"})
    assert is_compiling is torch.compiler.is_compiling
    assert is_compiling.__module__ == "torch.compiler"


def test_a_size_that_the_text_of_it_decides_is_left_out() -> None:
    fix = _fixed(ESCAPES[0], 40)
    assert fix.proven
    assert fix.plan.defs[0].range == Range(2, 29)
    (why,) = fix.changes[0].why
    assert (why.text, why.counterexample) == ("n != 30", "n = 30")
    assert why.stack.best is not None
    assert 'f"{x.shape[0]}" == "30"' in why.stack.best.code


def test_a_size_that_being_an_int_decides_is_left_out() -> None:
    fix = _fixed(lambda x: x * 2 if isinstance(x.shape[0], int) and x.shape[0] == 30 else x, 40)
    assert fix.proven
    assert fix.plan.defs[0].range == Range(2, 29)


def test_a_size_that_is_in_a_table_that_an_export_does_not_look_into_is_left_out() -> None:
    fix = _fixed(_scaled_by_table, 40)
    assert fix.proven
    assert fix.plan.defs[0].range == Range(2, 29)


def test_a_sign_by_a_size_is_compared_and_has_another_way() -> None:
    fix = _fixed(lambda x: x * (-1) ** x.shape[0], 40)
    assert fix.proven
    odd = fix.plan.leaves["x.shape[0]"].scale == 2  # a torch that writes (-1) ** n keeps all
    program = fix.program.module()
    for size in (3, 39) if odd else (2, 3, 4, 40):
        assert torch.equal(program(torch.ones(size, 3)), torch.ones(size, 3) * (-1) ** size)
    fix = _fixed(lambda x: x * (1 - 2 * (x.shape[0] % 2)), 40)
    assert (fix.proven, fix.changes) == (True, ())


def test_a_model_that_keeps_a_tensor_of_its_export_is_no_measure() -> None:
    kept: list[torch.Tensor] = []

    def added(x: torch.Tensor) -> torch.Tensor:
        kept.append(torch.arange(3))
        return x + kept[0]

    fix = _fixed(added, 40)
    assert fix.outcome.value == "unchanged"


def test_a_size_that_only_what_is_not_exported_treats_otherwise_is_left_out() -> None:
    fix = _fixed(lambda x: x * 2 if not torch.compiler.is_exporting() and x.shape[0] == 30 else x, 40)
    assert fix.proven
    assert fix.plan.defs[0].range == Range(2, 29)


def test_text_without_consequence_stays_proven() -> None:
    fix = _fixed(lambda x: {f"{x.shape[0]}": x}[f"{x.shape[0]}"], 40)
    assert (fix.proven, fix.changes) == (True, ())


def test_too_many_sizes_to_compare_are_not_proven_and_the_line_is_named() -> None:
    fix = _fixed(ESCAPES[0], 400)
    assert not fix.proven
    assert "more than 256 sets of sizes" in fix.proof.detail
    assert any(f"{__file__}:" in note and "compare the size as a number" in note for note in fix.notes)


def test_an_example_that_the_text_decides_names_the_line() -> None:
    fix = _fixed(ESCAPES[0], 40, 30)
    assert not fix.proven
    assert fix.confirmation.exported is False, "a program that is known not to be the model was saved"
    assert fix.confirmation.note.startswith(
        f"{Refuted.MODEL.value}: with the example inputs the program gives other values"
    )
    assert any("makes text of a size" in note and f"{__file__}:" in note for note in fix.notes)


def test_text_of_a_size_is_not_called_the_cause_of_every_difference() -> None:
    """As of vision-language models: they make text of sizes for their errors, and differ for another reason."""
    fix = _fixed(lambda x: (f"{x.shape[0]} rows", x if type(x) is torch.Tensor else x + 1)[1], 30)
    assert not fix.proven
    assert fix.notes[0].startswith("what was exported is another program than the model")
    assert "makes text of a size" in fix.notes[1]


def test_sizes_that_decide_together_are_not_proven() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.sum() + (y * 2 if f"{x.shape[0]}/{y.shape[0]}" == "6/5" else y)

    dims = ({0: Dim("n", min=2, max=8)}, {0: Dim("m", min=2, max=8)})
    fix = fix_dims(Two(), (torch.randn(7), torch.randn(4)), dynamic_shapes=dims)
    assert not fix.proven
    other = "at x.shape[0] = 6, y.shape[0] = 5 the program gives other values, compared with the model"
    assert fix.proof.detail == other  # it neither fails nor refuses these sizes
    assert fix.confirmation.note == f"{Refuted.MODEL.value}: {other}"
    assert fix_verdict(fix).text == f"nothing found to change: not proven ({other}), exported"
    assert any("makes text of a size" in note for note in fix.notes)


# Python rounds each step; torch.export has one expression for several, and may see no condition at all.
FLOATS: list[Function] = [
    lambda x: x * 2 if x.shape[0] * 0.1 + x.shape[0] * 0.2 == x.shape[0] * 0.3 else x,
    lambda x: x * 2 if x.shape[0] * (1 / 49) * 49 == x.shape[0] else x,
    lambda x: x * 2 if x.shape[0] / 3 + x.shape[0] / 7 >= 10 * x.shape[0] / 21 else x,
    lambda x: x * 2 if x.shape[0] / 2 % 1 == 0 else x,
    lambda x: x * 2 if 2.2 * x.shape[0] // 1.1 == 2 * x.shape[0] else x,
    lambda x: x * 2 if x.shape[0] * 0.1 == x.shape[1] / 10 * (x.shape[0] / x.shape[1]) else x,
    lambda x: x[: torch.sym_int(x.shape[0] * 0.1 + x.shape[0] * 0.2)],
]
FEW_STEPS: list[Function] = [
    lambda x: x * 2 if x.shape[0] * 0.6 >= 30 else x,
    lambda x: x * 2 if 64 / max(x.shape[0], 3) * x.shape[0] >= 64 else x,
    lambda x: x * 2 if x.shape[0] / 2 + 1 >= 16 else x,
    lambda x: x * (x.shape[0] * 0.1 + x.shape[0] * 0.2),
    lambda x: x[: math.floor(x.shape[0] * 0.3)],
]


@each("function", FLOATS)
def test_floats_that_are_rounded_more_than_once_are_noted_where_they_decide(function: Function) -> None:
    assert set(_noted(function)) == {"decides by floats of sizes that Python rounds more than once"}


@each("function", FEW_STEPS)
def test_floats_that_are_read_as_python_has_them_are_not_noted(function: Function) -> None:
    assert not _noted(function)


def test_sizes_at_which_such_floats_decide_otherwise_are_left_out() -> None:
    fix = _fixed(FLOATS[2], 24)
    assert fix.proven
    program, least, most = fix.program.module(), *_admitted(fix)
    for size in range(least, most + 1):
        x = torch.randn(size, 3)
        assert torch.equal(program(x), Calls(FLOATS[2])(x))


def test_a_condition_that_holds_at_the_example_in_floats_alone_is_not_read() -> None:
    # 10 * 0.1 + 0.2 is 1.2, and as fractions of these floats it is more than 12 / 10.
    fix = _fixed(lambda x: x * 2 if x.shape[0] * 0.1 + 0.2 == (x.shape[0] + 2) / 10 else x, 60, 10)
    assert (fix.outcome.value, fix.proven) == ("changed", True)
    assert fix.plan.leaves["x.shape[0]"].value == 10
