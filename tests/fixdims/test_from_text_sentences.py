"""Sentences of torch 2.13 beyond guards on named dims: hints, floats, single sizes, bare guards, several errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn
from torch.export import Dim, export

from trtdiag.cli.fix_dims import fix_dims
from trtdiag.dims.plan import LeafKind
from trtdiag.fixdims.error_text.from_text import fix_text
from trtdiag.fixdims.fix import Fix, Outcome
from trtdiag.report.fix_json import fix_json
from trtdiag.report.fix_text import fix_text as printed

SIZE = "L['x'].size()[1]"
DYNAMIC = "- Received user-specified dim hint Dim.DYNAMIC(min=None, max=None), but "


def sentence(guard: str, name: str = "h", source: str = SIZE) -> str:
    subject = f"{name} = {source} in the specified range {name} <= 64"
    return f"  - Not all values of {subject} satisfy the generated guard {guard}."


def made(fix: Fix) -> Any:
    values: dict[str, Any] = {}
    exec(fix.code, values)
    return values["dynamic_shapes"]


def checks(fix: Fix) -> list[str]:
    return [check.code for check in fix.checks]


def failing(module: nn.Module, args: tuple[Any, ...], shapes: Any, kwargs: dict[str, Any] | None = None) -> str:
    with pytest.raises(Exception, match=r".+") as failed:
        export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
    return str(failed.value)


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Keyword(nn.Module):
    def forward(self, x: Tensor, **kwargs: Tensor) -> Tensor:
        return x + 1 if kwargs["spec"].shape[2] == 80 else x


def test_a_dim_below_inputs_is_that_input() -> None:
    fix = fix_text(f"{DYNAMIC}tracing inferred a static shape of 80 for dimension inputs['spec'].shape[2].")
    assert made(fix) == {"spec": {2: 80}}


def test_a_keyword_of_the_model_stays_below_its_name() -> None:
    shapes = {"x": None, "kwargs": {"spec": {2: Dim.DYNAMIC}}}
    text = failing(Keyword(), (torch.zeros(2),), shapes, {"spec": torch.zeros(2, 3, 80)})
    assert made(fix_text(text)) == {"kwargs": {"spec": {2: 80}}}


def test_an_example_of_size_1_under_a_hint() -> None:
    text = failing(Doubled(), (torch.zeros(1, 4),), {"x": {0: Dim.DYNAMIC}})
    assert "due to hint of 1" in text
    fix = fix_text(text)
    assert fix.plan.leaves["x.shape[0]"].kind is LeafKind.DYNAMIC
    assert fix.plan.sizes["x.shape[0]"] >= 2
    program = export(Doubled(), (torch.zeros(4, 4),), dynamic_shapes=made(fix), strict=False)
    assert program.module()(torch.zeros(7, 4)).shape == (7, 4)


def test_a_warning_of_auto_names_the_example() -> None:
    fix = fix_text(
        "dimension inputs['x'].shape[0] 0/1 specialized; Dim.AUTO was specified along "
        "with a sample input with hint = 1."
    )
    assert fix.changes[0].kind == "example"


def test_a_hinted_range_beside_another_is_a_conflict() -> None:
    class Above(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1 if x.shape[0] > 100 else x

    fix = fix_text(failing(Above(), (torch.zeros(150),), {"x": {0: Dim.DYNAMIC(min=2, max=64)}}))
    assert fix.outcome is Outcome.IMPOSSIBLE
    assert [reason.text for reason in fix.conflicts[0].reasons] == ["x.shape[0] >= 101"]
    assert fix.conflicts[0].ranges == ("x.shape[0]: 2..64",)


@pytest.mark.parametrize(
    ("condition", "codes"),
    [
        ("And(u0 >= 2, u0 <= 7)", ["torch._check(u0 >= 2)", "torch._check(u0 <= 7)"]),
        ("Or(u0 > 7, Eq(u1, 4))", ["torch._check((u0 >= 8) | (u1 == 4))"]),
    ],
)
def test_checks_have_no_truth_of_their_own(condition: str, codes: list[str]) -> None:
    assert sorted(checks(fix_text(f"Runtime assertion failed for expression {condition} on node 'x'"))) == sorted(codes)


def test_checks_with_or_and_and_can_be_traced() -> None:
    class Checked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            n, m = x.tolist()
            for code in codes:
                exec(code, {"torch": torch, "u0": n, "u1": m})
            return x + 1

    codes = []
    for condition in ("Or(u0 > 7, Eq(u1, 4))", "And(u0 >= 2, u1 <= 7)"):
        codes += checks(fix_text(f"Runtime assertion failed for expression {condition} on node 'x'"))
    assert len(codes) == 3
    export(Checked(), (torch.tensor([9, 3]),), strict=False)


def test_a_number_with_a_fraction_is_no_size() -> None:
    asserted = fix_text("Runtime assertion failed for expression zuf0 <= 1 on node 'x'")
    assert not asserted.plan.leaves
    assert checks(asserted) == ["torch._check(zuf0 <= 1)"]
    (check,) = fix_text("Could not guard on data-dependent expression zuf0 > 0.5 (unhinted: zuf0 > 0.5).").checks
    assert check.code == "torch._check(zuf0 > 0.5)"
    assert "zuf0 stands for a number with a fraction" in check.note
    given = fix_text("eval zf0 > 0.5 [guard added] at a.py:3 in f")
    assert not given.plan.leaves
    assert "no size" in given.unread[0].why


def test_a_truncated_number_below_zero() -> None:
    fix = fix_text(
        "Could not guard on data-dependent expression TruncToInt(zuf0) < 0 (unhinted: TruncToInt(zuf0) < 0)."
    )
    assert checks(fix) == ["torch._check(int(zuf0) >= 0)"]
    assert "torch._check(int(zuf0) < 0)" in fix.checks[0].note
    assert checks(fix_text("Could not guard on data-dependent expression u0 < 0 (unhinted: u0 < 0)."))[0].endswith(
        "(u0 >= 0)"
    )
    assert fix_text(sentence(f"TruncToInt({SIZE} / 2) > 3")).plan.defs[0].range.min == 8


SOLVED = "  - solving the guards generated for dy = L['y'].size()[0] resulted in a specialized value of "


@pytest.mark.parametrize("suggestion", ["", "\nSuggested fixes:\n  dy = 12"])
def test_the_one_size_that_is_left_is_the_answer(suggestion: str) -> None:
    fix = fix_text(f"Specializations unexpectedly required (dy)!\n{SOLVED}12.\n{suggestion}")
    assert made(fix) == {"y": {0: 12}}
    assert not fix.proven


def test_a_solved_size_of_1_asks_for_another_example() -> None:
    fix = fix_text(f"Specializations unexpectedly required (dy)!\n{SOLVED}1.\n")
    assert fix.changes[0].kind == "example"
    assert fix.plan.sizes["y.shape[0]"] >= 2
    assert fix.plan.leaves["y.shape[0]"].root == "dy"


def test_a_size_of_a_form() -> None:
    fix = fix_text("Expected input x.shape[0] = 5 to be of the form 2*s1 + 1, where s1 is an integer")
    leaf = fix.plan.leaves["x.shape[0]"]
    assert (leaf.scale, leaf.offset % 2) == (2, 1)
    text = failing(Doubled(), (torch.zeros(5, 4),), {"x": {0: 2 * Dim("_h", min=1, max=9)}})
    assert "of the form" in text
    fix = fix_text(text)
    assert not fix.proven
    assert "its example has size 5 in dim 0" in fix.unread[0].why


@pytest.mark.parametrize(("asked", "least", "most"), [("<= 16, but got 20", None, 16), (">= 4, but got 3", 4, None)])
def test_bounds_at_run_time(asked: str, least: int | None, most: int | None) -> None:
    fix = fix_text(f"Expected input at *args[0].shape[0] to be {asked}")
    (definition,) = fix.plan.defs
    assert definition.range.max == most
    assert least is None or definition.range.min == least
    assert list(fix.plan.leaves) == ["args[0].shape[0]"]


@pytest.mark.parametrize(
    "text", [f"{SIZE} % 8 == 0", f"(({SIZE} % 8) == 0)", f"see:\n\n  - Eq(Mod({SIZE}, 8), 0).\n\nthanks"]
)
def test_a_guard_alone(text: str) -> None:
    fix = fix_text(text)
    assert fix.proven
    assert fix.plan.leaves["x.shape[1]"].scale == 8


def test_a_guard_alone_that_may_be_cut() -> None:
    assert not fix_text(f"{SIZE} <= 21\n60").proven
    assert not fix_text(f"def\nspecializations(x):\n    assert\n{SIZE} == 3").proven


@pytest.mark.parametrize(
    "other",
    [
        sentence("(h % 4) == 0"),
        "Guard failed: x.size()[1] % 4 == 0",
        "create_symbol s0 = 8 for L['x'].size()[1] [2, 64]\neval Eq(Mod(s0, 4), 0) [guard added]",
    ],
)
def test_a_name_and_its_size_are_one_dim(other: str) -> None:
    fix = fix_text(f"{sentence(f'{SIZE} <= 20')}\n{other}\n")
    (leaf,) = fix.plan.leaves.values()
    assert (leaf.root, leaf.scale, fix.plan.range_of(leaf.root).max) == ("_h", 4, 5)


def test_the_only_name_of_an_error_is_its_only_size() -> None:
    fix = fix_text(
        "Constraints violated (h)!\n"
        "  - Not all values of h in the specified range h <= 64 satisfy the generated guard (h % 4) == 0.\n"
        f"  - Not all values of {SIZE} satisfy the generated guard {SIZE} <= 20.\n"
    )
    assert list(fix.plan.leaves) == ["x.shape[1]"]
    assert fix.code.count("import") == 1


def test_names_of_other_alphabets() -> None:
    class Quarters(nn.Module):
        def forward(self, größe: Tensor) -> Tensor:
            return größe.view(größe.shape[0] // 4, 4)

    example = (torch.zeros(16),)
    fix = fix_text(failing(Quarters(), example, {"größe": {0: Dim("höhe", min=4, max=64)}}))
    assert fix.plan.leaves["größe.shape[0]"].root == "_höhe"
    export(Quarters(), example, dynamic_shapes=made(fix), strict=False)
    alone = fix_text("Suggested fixes:\n  höhe = 4*_höhe\n")
    assert "höhe = 4 * _höhe" in alone.code


TWO = (
    f"Constraints violated (h)!\n{sentence(f'({SIZE} % 8) == 0')}\n\nepoch 2\n"
    f"Constraints violated (h)!\n{sentence(f'({SIZE} % 8) == 3')}\n"
)


def test_two_errors_get_two_answers() -> None:
    fix = fix_text(TWO)
    (other,) = fix.others
    assert (fix.plan.leaves["x.shape[1]"].offset, other.plan.leaves["x.shape[1]"].offset) == (0, 3)
    assert fix.proven
    assert other.proven
    assert any("2 different errors" in note for note in fix.notes)
    document = fix_json(fix)
    assert isinstance(document["others"], list)
    assert "8 * _h + 3" in printed(fix)
    assert printed(fix).index("8 * _h\n") < printed(fix).index("8 * _h + 3")


def test_the_command_shows_both_answers() -> None:
    ran = CliRunner().invoke(fix_dims, ["-", "--json", "-"], input=TWO, standalone_mode=False)
    document = json.loads(ran.output)
    assert [document["label"], document["others"][0]["label"]] == ["standard input", "error 2 of 2"]


def test_one_error_raised_twice_has_one_answer() -> None:
    first = TWO.partition("\n\n")[0]
    fix = fix_text(f"ConstraintViolationError: {first}\n\nThe above exception\n\nUserError: {first}\n")
    assert fix.others == ()
