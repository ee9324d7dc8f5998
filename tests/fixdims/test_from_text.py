"""Corrected dims from a pasted error: what is suggested, why, in which code, and what is left open."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim, export

from trtdiag.dims.plan import LeafKind
from trtdiag.errors import DimsError
from trtdiag.fixdims.error_text.from_text import fix_text
from trtdiag.fixdims.fix import Change, Fix, Outcome
from trtdiag.symbolic import ProofKind

SIZE = "L['x'].size()[2]"


def guard(condition: str, name: str = "h", source: str = SIZE, range_: str = " 135 <= h <= 2160") -> str:
    text = condition.replace(name, source) if name.isalpha() else condition
    return (
        f"  - Not all values of {name} = {source} in the specified range{range_} satisfy the generated guard {text}.\n"
    )


def only(fix: Fix) -> Change:
    (change,) = fix.changes
    return change


def made(fix: Fix) -> Any:
    values: dict[str, Any] = {}
    exec(fix.code, values)
    return values["dynamic_shapes"]


def test_a_multiple_within_the_asked_range() -> None:
    fix = fix_text(guard("(h % 8) == 0"))
    change = only(fix)
    assert (change.name, change.sites, change.kind) == ("h", ("x.shape[2]",), "multiple")
    assert change.before == "h: 135..2160"
    assert change.after == "8*_h, _h: 17..270"
    assert change.kept == (254, 2026)
    assert change.why[0].text == "h % 8 == 0"
    assert change.why[0].counterexample == "h = 135"
    assert fix.proven
    assert fix.confirmation.exported is None
    assert fix.source == "text"
    assert repr(made(fix)["x"][2]) == repr(8 * Dim("_h", min=17, max=270))
    assert 'Dim("h", min=135, max=2160)' in fix.asked_code


def test_the_code_exports() -> None:
    class Halves(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(x.shape[0], x.shape[1], x.shape[2] // 8, 8)

    example = (torch.zeros(2, 3, 64),)
    asked = {"x": {2: Dim("h", min=16, max=2160)}}
    with pytest.raises(Exception, match="h") as failed:
        export(Halves(), example, dynamic_shapes=asked, strict=False)
    fix = fix_text(str(failed.value))
    program = export(Halves(), example, dynamic_shapes=made(fix), strict=False)
    assert program.module()(torch.zeros(2, 3, 2160)).shape == (2, 3, 270, 8)


def test_sources_of_one_name_are_one_dim() -> None:
    other = "L['y'].size()[0]"
    fix = fix_text(guard("(h % 8) == 0") + guard("(h % 6) == 0", source=other))
    assert only(fix).sites == ("x.shape[2]", "y.shape[0]")
    assert only(fix).after == "24*_h, _h: 6..90"
    shapes = made(fix)
    assert shapes["x"][2] is shapes["y"][0]


def test_positional_and_keyword_sources() -> None:
    text = guard("h != 140", source="L['args'][0][1].size()[2]")
    text += guard("w != 7", "w", "L['args'][1]['img'].size()[3]", "")
    fix = fix_text(text)
    assert {site for change in fix.changes for site in change.sites} == {"args[1].shape[2]", "img.shape[3]"}
    assert any("args[0] is the first" in note for note in fix.notes)


def test_unread_guards_leave_nothing_proven() -> None:
    fix = fix_text(guard("(h % 8) == 0") + guard("mystery(h) == 0"))
    assert not fix.proven
    assert fix.proof.kind is ProofKind.NONE
    assert "mystery" in fix.unread[0].text
    assert only(fix).after == "8*_h, _h: 17..270"


def test_a_guard_that_always_holds_becomes_a_hint() -> None:
    fix = fix_text(guard("(h + ((8 + (-1)*(h % 8)) % 8)) % 8 == 0"))
    leaf = fix.plan.leaves["x.shape[2]"]
    assert leaf.kind is LeafKind.DYNAMIC
    assert (leaf.range.min, leaf.range.max) == (135, 2160)
    assert only(fix).lost == ""
    assert any("torch refuses a plain Dim" in note for note in fix.notes)


def test_contradicting_guards_are_named() -> None:
    fix = fix_text(guard("(h % 8) == 0") + guard("(h % 8) == 3") + guard("h != 140"))
    assert fix.outcome is Outcome.IMPOSSIBLE
    (conflict,) = fix.conflicts
    assert [reason.text for reason in conflict.reasons] == ["h % 8 == 0", "h % 8 == 3"]
    assert conflict.ranges == ("h: 135..2160",)


@pytest.mark.parametrize("value", [0, 1])
def test_examples_of_size_0_and_1(value: int) -> None:
    text = f"  - You marked batch as dynamic but your code specialized it to be a constant ({value})."
    fix = fix_text(text + "\n" + guard("(h % 8) == 0"))
    change = next(change for change in fix.changes if change.name == "batch")
    assert change.kind == "example"
    assert fix.plan.sizes["batch"] >= 2
    assert fix.plan.leaves["batch"].kind is LeafKind.DIM
    assert f"batch = {value}" in change.why[0].text


def test_constants_are_static_with_the_way_out() -> None:
    text = (
        f"  - You marked {SIZE} as dynamic but your code specialized it to be a constant (64).\n\nUser stack:\n"
        '  File "/srv/app/model.py", line 65, in forward\n    if x.shape[2] == 64:\n'
    )
    fix = fix_text(text)
    assert only(fix).after == "64"
    assert only(fix).kind == "static"
    assert "/srv/app/model.py:65" in only(fix).alternatives[0].text
    assert made(fix) == {"x": {2: 64}}


def test_decreasing_relations_are_left_to_torch() -> None:
    fix = fix_text(
        "  - The values of dy = L['y'].size()[0] must always be related to the values of dx = L['x'].size()[0] by "
        "dy = 12 - dx.\n"
    )
    kinds = {leaf.kind for leaf in fix.plan.leaves.values()}
    assert kinds == {LeafKind.AUTO, LeafKind.DIM}


def test_a_log_gives_ranges_and_examples() -> None:
    fix = fix_text(
        "create_symbol s7 = 11 for L['x'].size()[0] [2, 500] (builder.py)\n"
        "eval Eq(Mod(s7, 4), 3) [guard added] at app/model.py:6 in forward (_refs/__init__.py:3694 in view)\n"
        "eval Ne(s7, 3) [guard added] at app/model.py:9 in forward\n"
    )
    change = only(fix)
    assert change.sites == ("x.shape[0]",)
    assert change.after == "4*_x_dim0 + 3, _x_dim0: 1..124"
    assert {str(reason.stack.best) for reason in change.why} <= {"app/model.py:6", "app/model.py:9"}


def test_an_example_outside_the_range_finds_its_dim() -> None:
    fix = fix_text("64 not in range [135, 2160]\n" + guard("(h % 8) == 0"))
    assert fix.plan.sizes == {"x.shape[2]": 135}
    alone = fix_text("torch.fx...ConstraintViolationError: 64 not in range [135, 2160]")
    assert only(alone).kind == "example"
    assert alone.plan.leaves == {}


def test_names_alone_give_the_dims() -> None:
    fix = fix_text("Suggested fixes:\n  _K = Dim('_K', max=20)\n  K = 3*_K\n")
    assert "K = 3 * _K" in fix.code
    assert "wherever K is declared" in fix.code
    assert not fix.proven
    assert only(fix).why[0].by == "torch's suggestion"


def test_checks_in_the_names_of_the_users_line() -> None:
    fix = fix_text(
        "Could not guard on data-dependent expression Eq((u0//2), 1) (unhinted: Eq((u0//2), 1)).\n"
        "Caused by: if n // 2 == 1:  # app/model.py:7 in forward (_dynamo/variables/tensor.py:2606 in evaluate_expr)\n"
    )
    (check,) = fix.checks
    assert check.code == "torch._check(n // 2 != 1)"
    assert "torch._check(n // 2 == 1)" in check.note
    assert str(check.where.best) == "app/model.py:7"
    assert check.condition == "Eq((u0//2), 1)"
    assert not check.confirmed
    assert fix.outcome is Outcome.IMPOSSIBLE


def test_torchs_own_checks_are_taken_over() -> None:
    fix = fix_text(
        "Could not guard on data-dependent expression u0 - 1 > 4 (unhinted: u0 - 1 > 4).\n"
        "To fix the error, insert one of the following checks before this call:\n"
        "  1. torch._check(k - 1 > 4)\n  2. torch._check(k - 1 <= 4)\n"
    )
    assert fix.checks[0].code == "torch._check(k - 1 > 4)"


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("", "none of the sentences"),
        ("Traceback (most recent call last):\n  ...\nValueError: bad", "none of the sentences"),
        ("Node arity mismatch; expected 1, but got 2.", "torch's own solver failed"),
        ("Cannot create Dim with inconsistent min=0, max=-68", "torch's own solver failed"),
    ],
)
def test_texts_without_conditions(text: str, because: str) -> None:
    with pytest.raises(DimsError) as caught:
        fix_text(text, "build.log")
    assert caught.value.reference == "no-conditions-in-text"
    assert "build.log" in caught.value.message
    assert because in caught.value.because
    assert "TORCH_LOGS" in caught.value.fix
