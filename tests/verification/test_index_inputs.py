"""Which inputs may be indices, and that masks stay masks where a batch is 1."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import trtdiag
from tests.harness.rows import thinned
from trtdiag.graph.index_inputs import index_inputs

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
