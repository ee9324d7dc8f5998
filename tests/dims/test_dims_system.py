"""Guards judged over the declared ranges: verdicts, causes, counterexamples, suggestions, conflicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.export import Dim

from tests.dims.programs import OP, USER, program
from tests.random_cases import cases
from trtdiag.dims.dims_table import dim_rows
from trtdiag.dims.facts import Verdict
from trtdiag.dims.solved_sets import Solved
from trtdiag.dims.system import dim_system
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import RawGuard
from trtdiag.pipeline.analyze import analyze
from trtdiag.symbolic.proof import ProofKind
from trtdiag.symbolic.ranges import Range

H = {"s0": Range(135, 2160)}
RAFT = "(((L['x'].size()[0] - 1) // 4) - 1) % 2 == 0"


def test_the_smallest_counterexample_its_neighbour_and_the_allowed_set() -> None:
    dims = dim_system(program(H, [RAFT], hints={"s0": 136}, declared={"s0": "h"}))
    (guard,) = dims.constraints
    assert guard.verdict is Verdict.BREAKS
    assert (guard.counterexample, guard.witness) == ({"h": 137}, {"h": 136})
    assert guard.kept == (1014, 2026)
    assert guard.allowed == "h % 8 in {0, 5..7}: 1,014 of 2,026 values"
    assert guard.text == "((h - 1) // 4 - 1) % 2 == 0" or guard.text == "((h - 1) // 4 + 1) % 2 == 0"
    (suggestion,) = dims.suggestions
    assert suggestion.code[:2] == ('_h = Dim("_h", min=17, max=270)', "h = 8*_h")
    assert suggestion.kept == (254, 2026)
    assert suggestion.proof.proven
    (row,) = dims.rows
    assert (row.state, row.suggested) == ("breaks", "8*_h")


def test_a_guard_that_always_holds_says_how_that_is_known() -> None:
    (guard,) = dim_system(program(H, ["L['x'].size()[0] // 8 != 1"])).constraints
    assert (guard.verdict, guard.proof.proven, guard.counterexample) == (Verdict.HOLDS, True, {})


def test_broken_guards_that_follow_from_a_shorter_one_are_no_causes() -> None:
    guards = ["L['x'].size()[0] % 8 == 0", "L['x'].size()[0] % 4 == 0", "8*(L['x'].size()[0] // 8) == L['x'].size()[0]"]
    constraints = dim_system(program(H, guards, hints={"s0": 136})).constraints
    assert [c.follows for c in constraints if c.verdict is Verdict.BREAKS].count(False) == 1
    cause = next(c for c in constraints if not c.follows)
    assert cause.kept == (254, 2026)


def test_a_joint_guard_is_judged_where_the_single_ones_hold() -> None:
    ranges = {"s0": Range(2, 40), "s1": Range(3, 41)}
    first, second = "L['x'].size()[0] % 2 == 0", "(L['x'].size()[0]*L['x'].size()[1]) % 2 == 0"
    single, joint = dim_system(program(ranges, [first, second], hints={"s0": 4, "s1": 7})).constraints
    assert (single.verdict, single.follows) == (Verdict.BREAKS, False)
    assert (joint.verdict, joint.follows) == (Verdict.BREAKS, True)
    (alone,) = dim_system(program(ranges, [second], hints={"s0": 4, "s1": 7})).constraints
    assert (alone.verdict, alone.follows) == (Verdict.BREAKS, False)
    assert alone.counterexample == {"x.shape[0]": 3, "x.shape[1]": 3}
    assert alone.proof.checked > 0


def test_a_guard_that_no_size_satisfies_stands_beside_a_joint_one() -> None:
    ranges = {"s0": Range(2, 40), "s1": Range(3, 41)}
    guards = ["2*L['x'].size()[0] == 7", "L['x'].size()[0] < L['x'].size()[1]"]
    never, joint = dim_system(program(ranges, guards, hints={"s0": 4, "s1": 7})).constraints
    assert (never.verdict, never.symbols) == (Verdict.BREAKS, ())
    assert (joint.verdict, joint.follows) == (Verdict.BREAKS, False)


def test_the_same_guard_from_two_places_keeps_the_better_line() -> None:
    text = "L['x'].size()[0] % 8 == 0"
    guards = [
        RawGuard(text, "_guards_code"),
        RawGuard(text, "export error", OP),
        RawGuard(text, "_assert_scalar", USER),
    ]
    (guard,) = dim_system(program(H, guards)).constraints
    assert guard.origin.found_in == ("_guards_code", "export error", "_assert_scalar")
    assert guard.origin.stack.user is not None
    assert guard.origin.stack.user.line == 9, "an assertion node stands where torch put it, not where it is asked for"
    assert guard.origin.branch is False


def test_a_stack_that_ends_in_user_code_is_a_branch() -> None:
    (guard,) = dim_system(program(H, [RawGuard("L['x'].size()[0] % 2 == 0", "ShapeEnv", USER)])).constraints
    assert guard.origin.branch is True


def test_only_a_size_of_zero_breaks_it() -> None:
    ranges = {"s0": Range(0, 77)}
    (guard,) = dim_system(program(ranges, ["4*L['x'].size()[0] != 0"])).constraints
    assert (guard.verdict, guard.only_at_zero) == (Verdict.BREAKS, True)
    (other,) = dim_system(program(ranges, ["L['x'].size()[0] != 1"])).constraints
    assert (other.verdict, other.only_at_zero) == (Verdict.BREAKS, False)


def test_no_guard_is_dropped() -> None:
    guards = ["IsNonOverlappingAndDenseIndicator(L['x'].size()[0], 1)", "L['y'].size()[0] == 3", "what is this"]
    dims = dim_system(program(H, guards))
    assert [unread.text for unread in dims.unparsed] == guards
    assert all(unread.why for unread in dims.unparsed)


UNREAD = "torch.sym_float(L['x'].size()[1]) ** 0.75 < 120.5"


@pytest.mark.parametrize(
    ("guards", "states"),
    [
        (["L['x'].size()[0] != 1"], ["ok", "ok"]),
        ([UNREAD], ["ok", "unread"]),
        ([UNREAD, "L['x'].size()[1] % 2 == 0"], ["ok", "breaks"]),
        (["odd(s0, other=s1) < 3"], ["unread", "unread"]),
        # Of what a guard speaks that names no size is not known.
        (["what is this"], ["unread", "unread"]),
        (["odd() < 3"], ["unread", "unread"]),
        (["odd(L['y'].size()[0]) < s1"], ["unread", "unread"]),
        # Left to the run: no declared size is refused.
        ([RawGuard("u0 <= s0", "_assert_scalar")], ["ok", "ok"]),
    ],
)
def test_a_size_whose_guard_was_not_read_is_not_called_ok(guards: list[str | RawGuard], states: list[str]) -> None:
    made = program({"s0": Range(2, 40), "s1": Range(2, 41)}, guards, hints={"s0": 4, "s1": 6})
    assert [row.state for row in dim_system(made).rows] == states


def test_a_size_whose_guard_is_undecided_is_not_called_ok() -> None:
    made = program({"s0": Range(2, 40), "s1": Range(2, 41)}, ["L['x'].size()[0] != 1"], hints={"s0": 4, "s1": 6})
    # As of a product of large sizes, which z3 needs its seconds for.
    guards = [replace(guard, verdict=Verdict.UNKNOWN) for guard in dim_system(made).constraints]
    rows = dim_rows(Sites(made), Solved(made.ranges), guards, (), (), ())
    assert [row.state for row in rows] == ["undecided", "ok"]


def test_a_guard_on_data_is_left_to_the_run_and_says_so() -> None:
    (guard,) = dim_system(program(H, [RawGuard("u0 <= 77", "_assert_scalar")])).constraints
    assert guard.verdict is Verdict.UNKNOWN
    assert not guard.proof.proven
    assert "checked when the program runs" in guard.proof.detail


def test_a_derived_dim_is_shown_by_its_size_and_not_by_its_root() -> None:
    """torch never compares guards with derived Dims: 2*Dim exports where a multiple of 8 is needed."""
    made = program({"s9": Range(2, 77)}, ["L['x'].size()[0] % 8 == 0"], sizes=["2*s9"], hints={"s9": 8})
    dims = dim_system(made)
    (guard,) = dims.constraints
    assert guard.counterexample == {"x.shape[0]": 4}
    assert guard.witness == {"x.shape[0]": 8}
    (suggestion,) = dims.suggestions
    assert suggestion.kept == (19, 76)
    assert suggestion.spelled.startswith("8*")
    assert suggestion.code[0] == '_x_dim0 = Dim("_x_dim0", min=1, max=19)'
    assert suggestion.code[-1] == "# x.shape[0]: 8*_x_dim0"
    (row,) = dims.rows
    assert row.range == Range(4, 154)


def test_an_open_range_stays_open_and_is_solved_exactly() -> None:
    dims = dim_system(program({"s0": Range(2, None)}, ["L['x'].size()[0] % 6 == 0"], hints={"s0": 12}))
    (guard,) = dims.constraints
    assert (guard.verdict, guard.kept) == (Verdict.BREAKS, None)
    assert guard.proof.kind is ProofKind.PERIODIC
    assert dims.rows[0].range == Range(2, None)
    assert "max=" not in dims.suggestions[0].code[0]


@pytest.mark.parametrize("top", [2**31, 2**63 - 2])
def test_a_huge_range_costs_nothing(top: int) -> None:
    (guard,) = dim_system(program({"s0": Range(2, top)}, ["L['x'].size()[0] % 97 == 0"], hints={"s0": 97})).constraints
    assert guard.verdict is Verdict.BREAKS
    assert guard.counterexample == {"x.shape[0]": 2}
    assert guard.proof.proven


def test_guards_that_contradict_each_other_are_a_smallest_set() -> None:
    ranges = {"s0": Range(10, 50)}
    texts = ["L['x'].size()[0] % 2 == 0", "L['x'].size()[0] != 12", "L['x'].size()[0] % 2 == 1"]
    (conflict,) = dim_system(program(ranges, texts)).conflicts
    assert sorted(c.text for c in conflict.constraints) == ["x.shape[0] % 2 == 0", "x.shape[0] % 2 == 1"]
    assert conflict.proof.proven
    assert not dim_system(program(ranges, texts[:2], hints={"s0": 14})).conflicts


def test_two_dims_that_must_be_equal_are_tied() -> None:
    ranges = {"s0": Range(2, 64), "s1": Range(2, 64)}
    guard = "L['x'].size()[0] == L['x'].size()[1]"
    dims = dim_system(program(ranges, [guard], hints={"s0": 5, "s1": 5}, declared={"s0": "a", "s1": "b"}))
    (tie,) = dims.tied
    assert set(tie.sites) == {"x.shape[0]", "x.shape[1]"}
    assert tie.constraint is dims.constraints[0]


class Pins(nn.Module):
    """Takes ``p`` in one size only, so that its export is made without the Dims that were asked."""

    def forward(self, p: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        torch._check(k.shape[0] * 7 >= v.shape[0])
        torch._check(k.shape[0] ** 3 != 2 * v.shape[0] ** 3)
        return p.view(8).sum() + k.sum() + v.sum()


residues = st.integers(2, 12).flatmap(lambda m: st.tuples(st.just(m), st.integers(0, m - 1)))


@settings(max_examples=cases(60), deadline=None)
@given(
    low=st.integers(1, 40),  # nobody asks for a size of 0, and torch writes it where no minimum is given
    width=st.integers(0, 120),
    shift=st.integers(0, 5),
    divisor=st.integers(1, 6),
    residue=residues,
    sign=st.sampled_from(["==", "!=", "<=", ">"]),
)
def test_suggestions_lie_inside_what_brute_force_allows(
    low: int, width: int, shift: int, divisor: int, residue: tuple[int, int], sign: str
) -> None:
    modulus, rest = residue
    text = f"((L['x'].size()[0] - {shift}) // {divisor}) % {modulus} {sign} {rest}"
    values = np.arange(low, low + width + 1)
    allowed = eval(text.replace("L['x'].size()[0]", "values"), {"values": values})
    example = int(values[allowed][0]) if allowed.any() else None
    hints = {} if example is None else {"s0": example}
    dims = dim_system(program({"s0": Range(low, low + width)}, [text], hints=hints, declared={"s0": "h"}))
    (guard,) = dims.constraints if dims.constraints else (None,)
    if allowed.all():
        assert guard is None or guard.verdict is Verdict.HOLDS
        return
    assert guard is not None
    assert guard.verdict is Verdict.BREAKS
    assert guard.counterexample == {"h": int(values[~allowed][0])}
    assert guard.kept == (int(allowed.sum()), len(values))
    for suggestion in dims.suggestions:
        admitted = _admitted(suggestion.code, suggestion.spelled)
        assert set(admitted) <= {int(v) for v in values[allowed]}
        assert example in admitted
        assert suggestion.kept == (len(admitted), len(values))


def _admitted(code: tuple[str, ...], spelled: str) -> list[int]:
    namespace: dict[str, Any] = {"Dim": Dim}
    exec("\n".join(code), namespace)
    if spelled.isdigit():
        return [int(spelled)]
    if "_h" in namespace:
        root = namespace["_h"]
        return [namespace["h"].fn(value) for value in range(root.min, root.max + 1)]
    return list(range(namespace["h"].min, namespace["h"].max + 1))


def test_joint_guards_are_solved_together() -> None:
    ranges = {"s0": Range(2, 61), "s1": Range(2, 64)}
    guard = "(L['x'].size()[0]*L['x'].size()[1]) % 4 == 0"
    dims = dim_system(program(ranges, [guard], hints={"s0": 7, "s1": 12}, declared={"s0": "h", "s1": "w"}))
    (suggestion,) = dims.suggestions
    assert suggestion.spelled.startswith("4*")
    assert suggestion.kept == (16, 63)
    assert suggestion.proof.proven
    assert dims.declaration is not None
    assert dims.declaration.unrun == "there is no program"


def test_what_one_dim_at_two_sites_satisfies_is_no_finding() -> None:
    """An export without the asked Dims has two symbols for one Dim; what they ask of each other was never open."""
    t = Dim("t", min=2)
    inputs = (torch.randn(8), torch.randn(5), torch.randn(5))
    report = analyze((Pins(), inputs, {}, {"p": {0: Dim("p", min=2)}, "k": {0: t}, "v": {0: t}}))
    texts = {c.text: c.verdict for c in report.analysis.dims.constraints if len(c.symbols) == 2}
    assert texts
    assert set(texts.values()) == {Verdict.HOLDS}
    assert {f.rule for f in report.findings if f.rule.startswith("GRD")} == set()


class Cut(nn.Module):
    """Two slices; at 47 and 61 the first takes all, which torch cannot see of every size, and the second does not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high, wide = (5 + 3 * ((size - 5) // 3) for size in x.shape)
        return x[:high, :wide].reshape(-1, wide)


def test_a_dim_that_torch_would_refuse_again_is_declared_in_other_words() -> None:
    asked = {"x": {0: Dim("h", min=17, max=131), 1: Dim("w", min=19, max=257)}}
    args = (torch.rand(47, 61),)
    declaration = analyze((Cut(), args, {}, asked)).analysis.dims.declaration
    assert declaration is not None
    assert '"x": {0: Dim.DYNAMIC(min=17, max=131), 1: w}' in declaration.code
    names: dict[str, Any] = {}
    exec(declaration.code, names)
    torch.export.export(Cut(), args, dynamic_shapes=names["dynamic_shapes"])
