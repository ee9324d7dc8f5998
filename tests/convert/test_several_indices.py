"""Several indices that the program is given, with dynamic sizes, in one op: at 1, at a prime, at the greatest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from tests.convert.function_program import FunctionProgram, converted
from tests.harness.rows import thinned
from trtdiag.errors import ShapeOutOfRangeError, UnsupportedOpError
from trtdiag.network import run

N, M = Dim("n", min=1, max=23), Dim("m", min=1, max=19)
SIZES = ((1, 1), (13, 7), (23, 19), (2, 19), (1, 19), (23, 1))
EXAMPLE = (5, 3)


def either_end(shape: tuple[int, ...], size: int) -> Tensor:
    """Indices into a dim from both of its ends."""
    return torch.randint(-size, size, shape)


def apart(n: int) -> tuple[Tensor, Tensor]:
    """Indices into dims of 4 and 30 of which no two name one place."""
    return torch.arange(n) % 4, torch.arange(n) - 7


@dataclass(frozen=True)
class Case:
    """A program, its inputs for sizes n and m, and which of their dims are which."""

    program: Callable[..., Tensor]
    inputs: Callable[[int, int], tuple[Tensor, ...]]
    dims: tuple[Any, ...]


CASES = {
    "neighbours": Case(
        lambda p, x, i, j: x[:, i, j],
        lambda n, m: (torch.randn(m, 5, 6), either_end((n,), 5), either_end((n,), 6)),
        ({0: M}, {0: N}, {0: N}),
    ),
    "apart": Case(
        lambda p, x, i, j: x[i, :, j],
        lambda n, m: (torch.randn(4, m, 6), either_end((n,), 4), either_end((n,), 6)),
        ({1: M}, {0: N}, {0: N}),
    ),
    "rows_and_columns": Case(
        lambda p, x, i, j: x[:, i[:, None], j],
        lambda n, m: (torch.randn(3, 5, 6), either_end((n,), 5), either_end((m,), 6)),
        (None, {0: N}, {0: M}),
    ),
    "three_of_two_ranks": Case(
        lambda p, x, i, j, k: x[i, j, k],
        lambda n, m: (torch.randn(4, 5, 6), either_end((n, m), 4), either_end((n, m), 5), either_end((m,), 6)),
        (None, {0: N, 1: M}, {0: N, 1: M}, {0: M}),
    ),
    "one_after_the_other": Case(
        lambda p, x, i, j: x[i][:, j],
        lambda n, m: (torch.randn(4, 5, 6), either_end((n,), 4), either_end((m,), 5)),
        (None, {0: N}, {0: M}),
    ),
    "into_the_indexed_dims": Case(
        lambda p, x, i, j: x[i, j],
        lambda n, m: (torch.randn(n, m, 2), torch.randint(-n, n, (n, m)), torch.randint(-m, m, (m,))),
        ({0: N, 1: M}, {0: N, 1: M}, {0: M}),
    ),
    "put_one_value": Case(
        lambda p, x, i, j: x.index_put((i, j), torch.tensor(3.0)),
        lambda n, m: (torch.randn(4, 5, m), either_end((n,), 4), either_end((n,), 5)),
        ({2: M}, {0: N}, {0: N}),
    ),
    "put_values": Case(
        lambda p, x, i, j, v: x.index_put((i, j), v),
        lambda n, m: (torch.randn(4, 30, m), *apart(n), torch.randn(n, m)),
        ({2: M}, {0: N}, {0: N}, {0: N, 1: M}),
    ),
    "put_at_rows_and_columns": Case(
        lambda p, x, i, j: x.index_put((i[:, None], j), torch.tensor(2.0)),
        lambda n, m: (torch.randn(4, 5, 2), either_end((n,), 4), either_end((m,), 5)),
        (None, {0: N}, {0: M}),
    ),
    "added_up": Case(
        lambda p, x, i, j, v: x.index_put((i, j), v, accumulate=True),
        lambda n, m: (torch.randn(4, 5, m), either_end((n,), 4), either_end((n,), 5), torch.randn(n, m)),
        ({2: M}, {0: N}, {0: N}, {0: N, 1: M}),
    ),
    "added_up_at_rows_and_columns": Case(
        lambda p, x, i, j, v: x.index_put((i[:, None], j), v, accumulate=True),
        lambda n, m: (torch.randn(4, 5, 2), either_end((n,), 4), either_end((m,), 5), torch.randn(n, m, 2)),
        (None, {0: N}, {0: M}, {0: N, 1: M}),
    ),
    "gathered_twice": Case(
        lambda p, x, i, j: x.gather(0, i).gather(1, j.expand(-1, -1, 3)),
        lambda n, m: (torch.randn(7, 5, 3), torch.randint(0, 7, (n, 5, 3)), torch.randint(0, 5, (n, m, 1))),
        (None, {0: N}, {0: N, 1: M}),
    ),
    "gathered_from_a_part": Case(  # the index may be smaller than the table in the other dim
        lambda p, x, i, j: x.gather(0, i) + x.gather(0, j),
        lambda n, m: (torch.randn(7, 19), torch.randint(0, 7, (n, m)), torch.randint(0, 7, (n, m))),
        (None, {0: N, 1: M}, {0: N, 1: M}),
    ),
    "filled_twice": Case(
        lambda p, x, i, j: x.index_fill(0, i, 2.0).index_fill(1, j, -1.0),
        lambda n, m: (torch.randn(4, 5), either_end((n,), 4), either_end((m,), 5)),
        (None, {0: N}, {0: M}),
    ),
}


def same(module: Any, segment: Any, args: tuple[Tensor, ...]) -> None:
    by_name = {f"args_{place}": arg for place, arg in enumerate(args)}
    (got,) = run(segment.network, [given.entering(by_name[given.node]) for given in segment.inputs])
    # Sums of up to 23 terms in another order.
    torch.testing.assert_close(got.to(segment.outputs[0].program_dtype), module(*args), rtol=1e-5, atol=1e-5)


# Slow: static sizes where int64 is native, and dynamic ones where it is not, as each of the two shows for the other.
@pytest.mark.parametrize(
    ("dynamic", "target"),
    [
        (False, "8.6"),
        (True, "11.4"),
        pytest.param(False, "11.4", marks=pytest.mark.slow),
        pytest.param(True, "8.6", marks=pytest.mark.slow),
    ],
)
# The ops are quick one by one in test_indexing_ops.py.
@thinned("name", CASES, every=20)
def test_several_indices(name: str, dynamic: bool, target: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    if dynamic:
        module, segment = converted(case.program, case.inputs(*EXAMPLE), case.dims, target)
        for sizes in (EXAMPLE, *SIZES):
            same(module, segment, case.inputs(*sizes))
    else:
        for sizes in SIZES[:3]:
            args = case.inputs(*sizes)
            same(*converted(case.program, args, (None,) * len(args), target), args)


def put(program: FunctionProgram, x: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return x.index_put((i, j), torch.tensor(3.0))


@pytest.mark.parametrize("dims", [(Dim("n", min=2, max=23), Dim("k", min=2, max=23)), (Dim.AUTO, Dim.AUTO)])
def test_indices_of_dims_declared_apart_are_held_to_one_size(dims: tuple[Any, Any]) -> None:
    # torch records no guard here.  Neither size can be 1, so a call with two sizes is an error in PyTorch as well.
    i, j = apart(5)
    module, segment = converted(put, (torch.randn(4, 30), i, j), (None, {0: dims[0]}, {0: dims[1]}), "11.4")
    for n in (2, 5, 13, 23):
        same(module, segment, (torch.randn(4, 30), *apart(n)))
    x, (i, j) = torch.randn(4, 30), apart(7)
    with pytest.raises((RuntimeError, IndexError), match="could not be broadcast"):
        module(x, i, j[:3])
    with pytest.raises(ShapeOutOfRangeError):
        run(segment.network, [x, i, j[:3]])


def test_indices_of_which_either_may_broadcast_stay_with_pytorch() -> None:
    i, j = apart(5)
    dims = (None, {0: N}, {0: Dim("k", min=1, max=23)})
    with pytest.raises(UnsupportedOpError, match="min of 2 or more"):
        converted(put, (torch.randn(4, 30), i, j), dims, "11.4")


@pytest.mark.parametrize("dynamic", [False, True])
def test_indices_that_go_around(dynamic: bool) -> None:
    """PyTorch's take_along_dim takes any integer along a dim: beyond an end it goes on at the other."""
    index = torch.tensor([[-13, -1, 0], [4, 5, 11], [-4, -5, 7]])
    dims = (None, {1: M}) if dynamic else (None, None)
    module, segment = converted(lambda p, x, i: torch.take_along_dim(x, i, 1), (torch.randn(3, 4), index), dims, "11.4")
    for count in (3, 1, 2, 19) if dynamic else (3,):
        same(module, segment, (torch.randn(3, 4), index.repeat(1, 7)[:, :count]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_indices_into_all_elements(dynamic: bool) -> None:
    dims = (None, {0: M}) if dynamic else (None, None)
    args = (torch.randn(3, 4), torch.tensor([0, 11, 5]))
    module, segment = converted(lambda p, x, i: torch.take_along_dim(x, i), args, dims, "11.4")
    for count in (3, 1, 19) if dynamic else (3,):
        same(module, segment, (torch.randn(3, 4), torch.arange(count) * 5 % 12))
