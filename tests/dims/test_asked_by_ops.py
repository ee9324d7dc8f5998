"""What ops ask of their sizes and no guard ensures becomes a condition, if the op alone confirms it, and only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export
from torch.nn.functional import scaled_dot_product_attention

from tests.harness.rows import thinned
from trtdiag.dims import collect_conditions as asking, op_trial
from trtdiag.dims.collect_conditions import gather
from trtdiag.dims.facts import GuardOrigin
from trtdiag.fixdims.run import fix_dims
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.shapes.shape_constraints import Ask, Demand
from trtdiag.symbolic import Num, to_text

A, B = Dim("a", min=2, max=64), Dim("b", min=2, max=64)


class Applied(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


def program_of(function: Callable[..., Any], x: torch.Tensor, y: torch.Tensor, dims: Any = None) -> Program:
    shapes = {"x": {0: A}, "y": {0: B}, **(dims or {})}
    return capture(export(Applied(function), (x, y), dynamic_shapes=shapes))


def asked(program: Program) -> dict[str, GuardOrigin]:
    found = gather(program).conditions
    return {to_text(c, program.names): origin for c, origin in found.items() if origin.asked is not None}


def put(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.zeros(100, 4).index_put((torch.arange(x.shape[0]),), y)


def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(6, x.shape[0]).slice_scatter(y, 0, 0, 2)


def choose(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(3, x.shape[0]).select_scatter(y[:, 0], 0, 0)


def attend(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return scaled_dot_product_attention(torch.ones(1, 2, 3, 8), x.view(1, 2, -1, 8), y.view(1, 2, -1, 8))


def test_what_is_written_into_the_front_has_to_fit() -> None:
    def front(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.slice_scatter(y, 0, 0, y.shape[0])

    ((text, origin),) = asked(program_of(front, torch.randn(9, 4), torch.randn(6, 4))).items()
    assert text in ("y.shape[0] <= x.shape[0]", "x.shape[0] >= y.shape[0]")
    assert origin.asked is not None
    assert origin.asked.sizes == {"s77": 2, "s17": 3}


@pytest.mark.parametrize(
    ("function", "shapes", "dims", "text"),
    [
        (put, ((6, 4), (6, 4)), {}, "y.shape[0] == x.shape[0]"),
        (write, ((6,), (2, 6)), {"y": {1: B}}, "y.shape[1] == x.shape[0]"),
        (choose, ((6,), (6, 2)), {}, "y.shape[0] == x.shape[0]"),
        (attend, ((2, 6, 8), (2, 6, 8)), {"x": {1: A}, "y": {1: B}}, "y.shape[1] == x.shape[1]"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_torch_does_not_look_at_is_a_condition(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], dims: dict[str, Any], text: str
) -> None:
    program = program_of(function, *map(torch.randn, shapes), dims)
    found = asked(program)
    sides = {frozenset(condition.split(" == ")) for condition in found}
    assert sides == {frozenset(text.split(" == "))}
    (origin,) = found.values()
    assert origin.asked is not None
    assert origin.asked.refusal
    assert len(set(origin.asked.sizes.values())) == 2
    assert origin.stack.best is not None
    assert origin.op is not None
    assert origin.op.startswith("aten.")


def test_what_torch_does_guard_is_not_asked_again() -> None:
    assert asked(program_of(lambda x, y: x[: y.shape[0]] + y, torch.randn(9, 4), torch.randn(6, 4))) == {}


def test_one_dim_for_both_ensures_it() -> None:
    assert asked(program_of(put, torch.randn(6, 4), torch.randn(6, 4), {"y": {0: A}})) == {}


def test_what_a_check_of_the_model_ensures_is_not_asked() -> None:
    def checked(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] == y.shape[0])
        return put(x, y)

    short = {0: Dim.DYNAMIC(max=100)}
    program = program_of(checked, torch.randn(6, 4), torch.randn(6, 4), {"x": short, "y": short})
    assert asked(program) == {}


def rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    grid = torch.meshgrid(torch.arange(x.shape[0]), torch.arange(2), indexing="ij")
    return torch.zeros(40, 2)[grid[0], grid[1]]


def past_and_present(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    table = torch.zeros(40, 2)
    first = table[torch.arange(x.shape[0]).clamp(max=39)]  # of the same shapes as the next one
    return torch.cat([first, table[torch.arange(x.shape[0]) + y.shape[0]]])


def one_position_behind_a_cache(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    past = x.shape[0]
    return torch.embedding(torch.zeros(40, 2), torch.arange(past, past + 1)) + y.sum()


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (rows, "x.shape[0] <= 40"),
        (past_and_present, "y.shape[0] + x.shape[0] <= 40"),
        (one_position_behind_a_cache, "x.shape[0] <= 39"),
    ],
)
def test_positions_that_sizes_count_lie_inside_the_table(function: Callable[..., Any], text: str) -> None:
    ((condition, origin),) = asked(program_of(function, torch.randn(6), torch.randn(7))).items()
    assert condition == text
    assert origin.asked is not None
    assert origin.asked.refusal.startswith("IndexError: ")
    assert origin.asked.sizes[next(iter(origin.asked.sizes))] > 2


def test_a_size_that_data_decides_is_left_to_the_program() -> None:
    def some(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.zeros(100, 4).index_put((torch.nonzero(x)[:, 0],), y)

    assert asked(program_of(some, torch.randn(6), torch.randn(6, 4))) == {}


def test_a_rule_that_the_op_does_not_confirm_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(lambda x, y: (x.sum() + y).relu(), torch.randn(6, 4), torch.randn(6, 4))

    def wrong(call: Any) -> tuple[Demand, ...]:
        size = call.shape("self")[0]
        return () if isinstance(size, Num) else (Demand(Ask.AT_MOST, size, Num(5), "made up"),)

    monkeypatch.setattr(asking, "rule_for", lambda op: op if "relu" in str(op) else None)
    monkeypatch.setattr(asking, "demands_of", wrong)
    assert asked(program) == {}


def test_a_call_too_large_to_run_is_asked_and_said_to_be_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_trial, "MOST_ELEMENTS", 8)
    program = program_of(put, torch.randn(6, 4), torch.randn(6, 4))
    (origin,) = asked(program).values()
    assert origin.asked is not None
    assert not origin.asked.refusal
    assert "elements" in origin.asked.untried


def test_nested_graphs_are_read_too() -> None:
    def guarded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return put(x.relu(), y)

    (origin,) = asked(program_of(guarded, torch.randn(6, 4), torch.randn(6, 4))).values()
    assert "." in (origin.node or "")


@pytest.mark.slow  # quick: one dim for both ensures it; dims that follow in tests/fixdims
def test_fix_dims_declares_one_dim_for_both() -> None:
    model = Applied(put)
    fix = fix_dims((model, (torch.randn(6, 4), torch.randn(6, 4)), {}, {"x": {0: A}, "y": {0: B}}))
    shared = fix.dynamic_shapes["x"][0]
    assert shared is fix.dynamic_shapes["y"][0]
    assert (shared.min, shared.max) == (2, 64)
    assert fix.confirmation.exported
    reasons = [reason for change in fix.changes for reason in change.why]
    assert reasons
    assert {reason.by for reason in reasons} == {"aten.index_put.default"}
    assert all("test_asked_by_ops" in str(reason.stack.best) for reason in reasons)


@pytest.mark.slow  # quick: nested graphs are read too
def test_attention_with_a_graph_of_its_own_asks_the_same() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention

    def attended(x: torch.Tensor, y: torch.Tensor) -> Any:
        return flex(torch.ones(1, 2, 3, 16), x[None], y[None])

    program = program_of(attended, torch.randn(2, 6, 16), torch.randn(2, 6, 16), {"x": {1: A}, "y": {1: B}})
    (origin,) = asked(program).values()
    assert origin.op == "flex_attention"
    assert origin.asked is not None
    assert origin.asked.refusal


def test_of_several_demands_of_one_op_each_is_confirmed_by_itself() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.zeros(100, x.shape[1]).index_put((torch.arange(x.shape[0]),), y)

    dims = {"x": {0: A, 1: Dim("c", min=2, max=64)}, "y": {0: B, 1: Dim("d", min=2, max=64)}}
    program = program_of(both, torch.randn(6, 4), torch.randn(6, 4), dims)
    found = asked(program)
    sides = {frozenset(condition.split(" == ")) for condition in found}
    assert sides == {frozenset(("x.shape[0]", "y.shape[0]")), frozenset(("x.shape[1]", "y.shape[1]"))}
    for condition, origin in found.items():
        assert origin.asked is not None
        assert origin.asked.refusal, condition


def test_an_op_that_does_not_run_here_at_all_is_asked_and_said_to_be_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_kwargs: object) -> None:
        raise NotImplementedError("no kernel")

    monkeypatch.setattr(op_trial, "_callable", lambda op: broken)
    (origin,) = asked(program_of(put, torch.randn(6, 4), torch.randn(6, 4))).values()
    assert origin.asked is not None
    assert "no kernel" in origin.asked.untried


class Fine(nn.Module):
    """Programs whose sizes torch has guarded, or that take any: one Dim too few would be a false alarm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3, stride=2, padding=1)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.table = nn.Embedding(16, 8)


class Encoder(Fine):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mask = (y > 0)[:, None, None, :]
        heads = self.norm(x).unflatten(-1, (2, 4)).transpose(1, 2)
        return scaled_dot_product_attention(heads, heads, heads, attn_mask=mask).transpose(1, 2).flatten(2)


class TwoTowers(Fine):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.norm(x).mean(1) @ self.norm(y).mean(1).T


class Joined(Fine):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        coarse = nn.functional.interpolate(self.conv(y), size=x.shape[-1], mode="nearest")
        return self.conv(torch.cat([x, coarse], 0))


class Crossed(Fine):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        attended, _ = self.attention(x, y, y, need_weights=False)
        return torch.where(x > 0, attended, x).cumsum(1)


class Windowed(Fine):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.unfold(-1, 4, 2).amax(-1).mean(-1, keepdim=True) + self.conv(y).mean(-1, keepdim=True)


class Placed(Fine):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        cache = x.new_zeros(2, 64, 8)
        cache[:, : x.shape[1]] = x
        cache[:, torch.arange(y.shape[1]) + 8] = y
        return cache + self.table(torch.arange(64))


TIME, TOKENS = {1: Dim("t", min=4, max=32)}, {1: Dim("s", min=4, max=32)}
FINE: list[tuple[type[Fine], tuple[int, ...], tuple[int, ...], dict[int, Any], dict[int, Any]]] = [
    (Encoder, (2, 6, 8), (2, 6), {0: Dim("n", min=2, max=8), 1: Dim("t", min=4, max=32)}, {}),
    (TwoTowers, (3, 6, 8), (4, 5, 8), {0: A, **TIME}, {0: B, **TOKENS}),
    (Joined, (2, 8, 12), (3, 8, 6), {2: Dim("c", min=4, max=64)}, {2: Dim("d", min=4, max=64)}),
    (Crossed, (2, 6, 8), (2, 5, 8), TIME, TOKENS),
    (Windowed, (2, 8, 12), (2, 8, 6), {2: Dim("c", min=6, max=64)}, {2: Dim("d", min=4, max=64)}),
    (Placed, (2, 6, 8), (2, 5, 8), TIME, TOKENS),
]


# Quick: the ends.
@thinned(("model", "first", "second", "x", "y"), FINE, ids=[case[0].__name__ for case in FINE], every=9)
def test_programs_that_run_at_every_size_are_not_accused(
    model: type[Fine], first: tuple[int, ...], second: tuple[int, ...], x: dict[int, Any], y: dict[int, Any]
) -> None:
    if model is Encoder:
        y = dict(x)
    program = capture(
        export(model().eval(), (torch.randn(first), torch.randn(second)), dynamic_shapes={"x": x, "y": y})
    )
    assert asked(program) == {}
