"""Which inputs may be indices, and that masks stay masks where a batch is 1."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import trtdiag
from tests.harness.rows import thinned
from trtdiag.frontend.capture import capture
from trtdiag.graph.index_inputs import index_bounds, index_inputs
from trtdiag.verification.run import Comparison

ROWS = torch.randn(7, 3)
Run = Callable[[Tensor, Tensor], Tensor]


def exported(run: Run, x: Tensor, y: Tensor) -> ExportedProgram:
    class Model(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return run(x, y)

    dims = {0: Dim("batch", min=1, max=13)}
    return export(Model(), (x, y), dynamic_shapes=(dims, dims))


def padded(ids: Tensor, mask: Tensor) -> Tensor:
    scores = ROWS[ids] @ ROWS[:5].T
    return scores.masked_fill(mask[..., None] == 0, -torch.inf).softmax(1)


IDS, MASK = torch.tensor([[0, 6, 2], [4, 4, 1]]), torch.ones(2, 3, dtype=torch.int64)
CASES: dict[str, tuple[Run, set[str]]] = {
    "rows and a mask": (padded, {"x"}),
    "embedding": (lambda x, y: nn.functional.embedding(x, ROWS) * y[..., None], {"x"}),
    "places counted from a mask": (lambda x, y: ROWS[y.cumsum(1) - 1] + x[..., None], {"y"}),
    "a part of it, in another dtype": (lambda x, y: ROWS[x[:, 1:].to(torch.int32).flatten()] + y.sum(), {"x"}),
    "gather": (lambda x, y: torch.gather(ROWS[:, 0].expand(x.shape[0], 7), 1, x) + y, {"x"}),
    "scatter": (lambda x, y: torch.zeros(x.shape[0], 9).scatter(1, x, y.float()), {"x"}),
    "where": (lambda x, y: ROWS[torch.where(y > 0, x, 0)], {"x"}),
    "numbers alone": (lambda x, y: (x * 2 + y).float() / 3, set()),
}


# Quick: the ends and each third.
@thinned("name", CASES, every=3)
def test_what_reaches_an_index(name: str) -> None:
    run, expected = CASES[name]
    assert index_inputs(exported(run, IDS, MASK)) == expected


BOUNDS: dict[str, tuple[Run, dict[str, int]]] = {
    "the least of two tables": (lambda x, y: ROWS[x] + ROWS[:5][x.t()].transpose(0, 1) + y[..., None], {"x": 5}),
    "both": (
        lambda x, y: nn.functional.embedding(x, ROWS).sum(-1) + ROWS[:, 1].index_select(0, y.flatten()).sum(),
        {"x": 7, "y": 7},
    ),
    "views, copies, a part and a join": (
        lambda x, y: ROWS[torch.cat([x[:, :1].clone().to(torch.int32), x[:, 1:].to(torch.int32)], 1)] + y[..., None],
        {"x": 7},
    ),
    "the second dim": (lambda x, y: ROWS[:, y.clamp(0, 2)] + ROWS.t()[:, x].sum() + y.sum(), {"x": 7}),
    "behind a mask": (lambda x, y: ROWS[ROWS.sum(1) > 0].sum() + torch.ones(4, 7, 9)[..., x].sum() + y, {"x": 9}),
    "gather": (lambda x, y: torch.gather(ROWS[:, 0].expand(x.shape[0], 7), 1, x) + y, {"x": 7}),
    "what is computed of it": (lambda x, y: ROWS[x + 1] + ROWS[x] + y[..., None], {}),
    "what wraps in fewer bits": (lambda x, y: ROWS[x.to(torch.int8).to(torch.int64)] + y[..., None], {}),
    "a table of a size of the inputs": (lambda x, y: y[x[:, 0]] + x, {}),
    "no table": (lambda x, y: (x * 2 + y).float() / 3, {}),
}


@thinned("name", BOUNDS, every=3)
def test_what_an_index_stays_below(name: str) -> None:
    run, expected = BOUNDS[name]
    small = torch.tensor([[0, 1, 0], [1, 0, 1]])
    assert index_bounds(exported(run, small, small.clone())) == expected


def test_what_a_condition_is_given_has_no_bound() -> None:
    def run(x: Tensor, y: Tensor) -> Tensor:
        one: Tensor = torch.cond(x.sum() > 2, lambda x, y: ROWS[x] + y[..., None], lambda x, y: ROWS[y] * 2, (x, y))
        return one

    program = exported(run, IDS, MASK)
    assert (index_inputs(program), index_bounds(program)) == ({"x", "y"}, {})
    trtdiag.compile(program, backend="reference")


def test_a_row_that_is_wrong_is_found_without_example_inputs() -> None:
    """All rows but the first two are wrong: integers of 0 and 1 show nothing."""
    program = exported(lambda x, y: nn.functional.embedding(x, ROWS) * y[..., None], IDS, MASK)
    program.example_inputs = None

    def wrong(x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.embedding(x, ROWS * (torch.arange(7) < 2)[:, None]) * y[..., None]

    read = capture(program)
    found = Comparison(read, wrong, ()).run()
    assert not found.passed
    assert any("indices into tables of fixed size from all of their places" in note for note in found.notes)
    assert Comparison(read, program.module(), ()).run().passed


def test_floats_and_bools_are_none() -> None:
    assert not index_inputs(exported(lambda x, y: x * y, torch.randn(2, 3), torch.ones(2, 3, dtype=torch.bool)))


def test_a_mask_of_ones_is_one_where_the_batch_is_1() -> None:
    """All zeros hide every row: then what is compared is NaN."""
    program = exported(padded, IDS, MASK)
    compiled = trtdiag.compile(program, backend="reference", verify=False)
    seen: list[Tensor] = []

    class Spy:
        def __call__(self, ids: Tensor, mask: Tensor) -> object:
            seen.append(mask)
            return compiled(ids, mask)

    from trtdiag.frontend.capture import capture
    from trtdiag.verification.run import Comparison

    found = Comparison(capture(program), Spy(), ()).run()
    assert found.passed
    assert {1, 13} <= {mask.shape[0] for mask in seen}
    assert all(bool((mask == 1).all()) for mask in seen)
