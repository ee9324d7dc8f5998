"""What fix-dims keeps of small models, beside what the same model keeps when all is left to torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim, export

from tests.fixdims.view_models import VIEW_CASES, ViewCase
from tests.harness.admitted import Ask, admitted, asked_dims
from tests.harness.brute_force import Mask, best_product
from tests.harness.real_runs import judge_on_data
from tests.harness.rows import each
from trtdiag.fixdims.run import fix_dims

Names = dict[str, tuple[range, list[tuple[int, int]]]]


def names_of(case: ViewCase) -> Names:
    """Each asked name with its sizes, and the inputs and dims that have it."""
    found: Names = {}
    for index, dims in enumerate(case.dims):
        for dim, (name, low, high) in dims.items():
            found.setdefault(name, (range(low, high + 1), []))[1].append((index, dim))
    return found


def grid(case: ViewCase, names: Names) -> Iterator[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]]:
    """The place of each asked combination on the axes of the names, and the shapes of the inputs there."""
    for sizes in product(*(values for values, _dims in names.values())):
        shapes = [list(shape) for shape in case.shapes]
        for size, (_values, dims) in zip(sizes, names.values(), strict=True):
            for index, dim in dims:
                shapes[index][dim] = size
        place = tuple(size - values[0] for size, (values, _dims) in zip(sizes, names.values(), strict=True))
        yield place, tuple(map(tuple, shapes))


def taken(program: nn.Module, model: nn.Module, case: ViewCase, names: Names) -> Mask:
    """Where a program gives what its model gives."""
    mask = np.zeros([len(values) for values, _dims in names.values()], dtype=bool)
    for place, shapes in grid(case, names):
        inputs = case.inputs(shapes)
        one = result(program, inputs)
        mask[place] = one is not None and agree(one, result(model, inputs))
    return mask


def result(module: nn.Module, inputs: Sequence[torch.Tensor]) -> torch.Tensor | None:
    try:
        with torch.no_grad():
            answer: torch.Tensor = module(*(tensor.clone() for tensor in inputs))
    except Exception:  # whatever it raises, it does not take these sizes
        return None
    return answer


def agree(one: torch.Tensor, other: torch.Tensor | None) -> bool:
    # Sums in another order: float32 over at most some hundred terms.
    return other is not None and one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-4)


def left_to_torch(case: ViewCase, model: nn.Module, hint: Any) -> nn.Module | None:
    """The module of an export in which every asked dim is a hint with its ends; ``None`` where torch refuses."""
    dims = tuple({dim: hint(min=low, max=high) for dim, (_, low, high) in each.items()} for each in case.dims)
    try:
        return export(model, case.args(), dynamic_shapes=dims).module()
    except Exception:  # torch's refusals have no class in common
        return None


# At a size of 1 torch's own program drops a dim, as the model does.  An engine has one rank, so that size is refused
# (test_narrowed.py, test_compiled_calls.py).
RANK_CHANGES = ("squeezed where one",)


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEW_CASES)
def test_no_spelling_that_leaves_all_to_torch_keeps_a_larger_product(name: str) -> None:
    torch.manual_seed(0)
    case = VIEW_CASES[name]
    model, names = case.model(), names_of(case)
    asked = Ask(model, case.args(), {}, case.asked())
    fix = fix_dims(model, case.args(), dynamic_shapes=case.asked(), programs=1)
    assert fix.proven
    given = Ask(model, fix.args or case.args(), fix.kwargs or {}, fix.dynamic_shapes)
    kept = admitted(fix.program, given, asked_dims(asked)).combinations()
    found = judge_on_data(fix.program, given, asked=asked_dims(asked))
    assert found.failures == []
    assert found.points
    example = [case.shapes[dims[0][0]][dims[0][1]] - values[0] for values, dims in names.values()]
    for hint in (Dim.AUTO, Dim.DYNAMIC):
        other = left_to_torch(case, model, hint)
        if other is not None:
            mask = taken(other, model, case, names)
            if name in RANK_CHANGES:
                assert mask.all()
                assert kept == best_product(mask[:, 1:], [example[0], example[1] - 1])
            else:
                assert kept >= best_product(mask, example)


class Apart(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum() + y


def test_sizes_of_one_dim_that_torch_would_compare_by_fractions() -> None:
    """The program has ``7 / 3 + 1 / 3 * x == y`` in floats, which 50 and 19 are not: it was not proven."""
    n = Dim("n", min=2, max=400)
    x, y = torch.rand(20, 1), torch.rand(9, 1)
    fix = fix_dims(Apart(), (x, y), dynamic_shapes={"x": {0: 3 * n - 1}, "y": {0: n + 2}})
    assert fix.proven
    assert all("by fractions, in floats" in change.why[0].text for change in fix.changes)
    program = fix.program.module()
    for size in range(2, 401):
        program(torch.rand(3 * size - 1, 1), torch.rand(size + 2, 1))


def test_nothing_is_proven_where_torch_compares_sizes_by_fractions() -> None:
    """Of ``5*n`` and ``7*n`` 70 of 300 are refused, none of them at an end."""
    n = Dim("n", min=1, max=300)
    fix = fix_dims(Apart(), (torch.rand(25, 1), torch.rand(35, 1)), dynamic_shapes={"x": {0: 5 * n}, "y": {0: 7 * n}})
    assert not fix.proven
    assert "x.shape[0] = 45, y.shape[0] = 63" in fix.proof.detail


@each("low", [None, 2])
def test_a_dim_begins_where_no_size_is_negative(low: int | None) -> None:
    """torch refuses the Dim before it traces anything, and no sizes were said to work."""
    n = Dim("n", min=low, max=9)
    fix = fix_dims(Apart(), (torch.rand(20, 1), torch.rand(3, 1)), dynamic_shapes={"x": {0: 3 * n - 7}, "y": None})
    assert fix.proven
    assert 'n = Dim("n", min=3, max=9)' in fix.code
    assert any("Expected derived min value of 3*n - 7 to be >= 0" in note for note in fix.notes)
    fix.program.module()(torch.rand(2, 1), torch.rand(3, 1))
