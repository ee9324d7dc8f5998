"""Inputs of given sizes keep what makes the example's plausible."""

from __future__ import annotations

import pytest
import torch

from tests.harness.rows import each
from trtdiag.frontend.program import InputDim, InputTensor
from trtdiag.frontend.sized_inputs import InputMaker
from trtdiag.symbolic import parse_expr


def _input(dtype: torch.dtype | None, *sizes: str) -> InputTensor:
    return InputTensor("x", "x", dtype, tuple(InputDim("x", i, parse_expr(size)) for i, size in enumerate(sizes)))


def _made(example: object, tensor: InputTensor, **sizes: int) -> object:
    (made,) = InputMaker([tensor], [example]).at(sizes)
    return made


def test_sizes_follow_the_point() -> None:
    made = _made(torch.randn(4, 8), _input(torch.float32, "s0", "2*s0"), s0=13)
    assert isinstance(made, torch.Tensor)
    assert made.shape == (13, 26)


def test_integers_are_the_examples() -> None:
    made = _made(torch.tensor([3, 5, 9]), _input(torch.int64, "n"), n=101)
    assert isinstance(made, torch.Tensor)
    assert set(made.tolist()) == {3, 5, 9}
    assert made.dtype == torch.int64


@each("dtype", [torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.uint16, torch.uint32, torch.uint64])
def test_numbers_without_an_order_are_made_at_other_sizes(dtype: torch.dtype) -> None:
    for size in (1, 4, 7):
        made = _made(torch.tensor([3, 1, 2, 3]).to(dtype), _input(dtype, "n"), n=size)
        assert isinstance(made, torch.Tensor)
        assert (made.shape, made.dtype) == ((size,), dtype)


def test_inputs_of_the_examples_shape_are_the_examples() -> None:
    """A prompt with its image tokens in place, beside a batch that is larger."""
    ids, pixels = torch.tensor([[1, 7, 7, 7, 5, 2]]), torch.randn(3, 4)
    inputs = [_input(torch.int64, "b", "6"), _input(torch.float32, "3", "4")]
    same = InputMaker(inputs, [ids, pixels]).at({"b": 1})
    assert torch.equal(same[0], ids)
    assert torch.equal(same[1], pixels)
    more = InputMaker(inputs, [ids, pixels]).at({"b": 5})
    assert (more[0] == 7).sum(1).tolist() == [3] * 5


@pytest.mark.parametrize("first", [0, 11])
def test_positions_go_on_counting(first: int) -> None:
    example = torch.arange(first, first + 5)
    (made,) = InputMaker([_input(torch.int64, "n")], [example], ()).at({"n": 13})
    (rows,) = InputMaker([_input(torch.int64, "b", "n")], [example.expand(2, 5)], ()).at({"b": 3, "n": 13})
    assert made.tolist() == list(range(first, first + 13))
    assert torch.equal(rows, made.expand(3, 13))
    (cut,) = InputMaker([_input(torch.int64, "n")], [example], ()).at({"n": 1})
    assert cut.tolist() == [first]


@pytest.mark.parametrize("hidden", [-torch.inf, torch.finfo(torch.float32).min])
def test_a_mask_that_is_padded_first_is_cut_at_its_padding(hidden: float) -> None:
    example = torch.tensor([[[[hidden, hidden, hidden, 0.0, 0.0]]]])
    for size, shown in ((1, 1), (2, 2), (7, 4)):
        (made,) = InputMaker([_input(torch.float32, "1", "1", "1", "n")], [example]).at({"n": size})
        assert int((made == 0).sum()) == shown
        assert float(made.flatten()[-1]) == 0


def test_integers_that_may_be_indices_stay_inside() -> None:
    """28 of 30 rows at the example: at 2 rows every index is 0 or 1, at 101 rows they are what they were."""
    edges, rows = torch.tensor([[0, 28, 5], [28, 3, 7]]), torch.randn(30, 4)
    inputs = [_input(torch.int64, "2", "e"), _input(torch.float32, "n", "4")]
    maker = InputMaker(inputs, [edges, rows])
    assert set(maker.at({"e": 101, "n": 2})[0].flatten().tolist()) == {0, 1}
    assert set(maker.at({"e": 101, "n": 101})[0].flatten().tolist()) == {0, 3, 5, 7, 28}
    assert maker.at({"e": 3, "n": 1})[0].unique().tolist() == [0]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
@pytest.mark.parametrize("place", [0, -1])
def test_no_row_of_a_mask_hides_all(dtype: torch.dtype, place: int) -> None:
    """Half of the example is padding, on one side: of 1,009 rows of 2 or 1 hundreds would be all padding."""
    example = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]]).to(dtype)
    example = example if place == 0 else example.flip(1)
    for columns in (1, 2, 13):
        made = InputMaker([_input(dtype, "n", "m")], [example], ()).at({"n": 1009, "m": columns})[0]
        assert made.dtype == dtype
        assert bool(made[:, place].all())
        assert columns == 1 or not bool(made.all())


def test_rows_that_begin_and_end_in_many_ways_are_repeated() -> None:
    example = torch.tensor([[1, 0, 0], [0, 1, 1]])
    made = InputMaker([_input(torch.int64, "n", "m")], [example], ()).at({"n": 101, "m": 3})[0]
    assert set(made[:, 0].tolist()) == set(made[:, 2].tolist()) == {0, 1}


def test_integers_below_zero_count_from_an_end_and_stay() -> None:
    (made, _) = InputMaker(
        [_input(torch.int64, "e"), _input(torch.float32, "n")], [torch.tensor([-1, 2]), torch.randn(5)]
    ).at({"e": 31, "n": 2})
    assert set(made.tolist()) == {-1, 2}


def test_floats_have_its_mean_and_keep_its_sign() -> None:
    made = _made(torch.rand(64) * 4 + 6, _input(torch.float32, "n"), n=1009)
    assert isinstance(made, torch.Tensor)
    assert made.min() >= 6
    # The clamp at the least value moves the mean by less than the deviation (1.2) of the example.
    assert abs(float(made.mean()) - 8) < 1


def test_a_mask_of_minus_infinity_stays_one() -> None:
    made = _made(torch.tensor([0.0, -torch.inf]), _input(torch.float32, "n"), n=31)
    assert isinstance(made, torch.Tensor)
    assert set(made.tolist()) == {0.0, -torch.inf}


def test_numbers_are_handed_on() -> None:
    assert _made(3, _input(None)) == 3


def test_empty_and_single_sizes() -> None:
    empty = _made(torch.zeros(0, 4), _input(torch.float32, "n", "4"), n=3)
    single = _made(torch.ones(5, dtype=torch.bool), _input(torch.bool, "n"), n=1)
    assert isinstance(empty, torch.Tensor)
    assert isinstance(single, torch.Tensor)
    assert empty.shape == (3, 4)
    assert single.tolist() == [True]


def test_without_an_example_integers_are_small() -> None:
    (made,) = InputMaker([_input(torch.int64, "n")], None).at({"n": 50})
    assert set(made.tolist()) <= {0, 1}


def test_equal_points_give_equal_inputs() -> None:
    maker = InputMaker([_input(torch.float32, "n")], [torch.randn(3)])
    assert torch.equal(maker.at({"n": 7})[0], maker.at({"n": 7})[0])


def test_integers_that_count_up_are_made_without_a_row() -> None:
    for n, m in ((0, 5), (5, 0), (0, 0)):
        none = _made(torch.tensor([[3, 5, 9], [4, 8, 2]]), _input(torch.int64, "n", "m"), n=n, m=m)
        assert isinstance(none, torch.Tensor)
        assert none.shape == (n, m)


def test_lists_that_go_up_or_down_do_so_at_other_sizes() -> None:
    """Offsets of bags, graphs of nodes, lengths of packed sequences."""
    items, starts, lengths = torch.arange(12) * 7 % 50, torch.tensor([0, 3, 5, 9]), torch.tensor([7, 5, 5, 2])
    inputs = [_input(torch.int64, "n"), _input(torch.int64, "b"), _input(torch.int64, "b")]
    for n, b in ((1, 1), (3, 4), (12, 7), (500, 64)):
        _, up, down = InputMaker(inputs, [items, starts, lengths]).at({"n": n, "b": b})
        assert up.tolist() == sorted(up.tolist())
        assert (up[0], up.shape, bool((up < n).all())) == (0, (b,), True)
        assert down.tolist() == sorted(down.tolist(), reverse=True)


def test_positions_that_end_at_some_other_size_go_on_counting() -> None:
    inputs = [_input(torch.int64, "n"), _input(torch.float32, "n", "4")]
    for indices in (None, ()):
        made, _ = InputMaker(inputs, [torch.arange(5), torch.randn(5, 4)], indices).at({"n": 13})
        assert made.tolist() == list(range(13))


def test_a_list_that_ends_at_a_length_ends_there_at_other_sizes() -> None:
    """As ``cu_seqlens``, or offsets of bags with the last one; of two lengths it is that which is named."""
    items, bounds = torch.arange(12) * 7 % 50, torch.tensor([0, 3, 5, 12])
    inputs = [
        InputTensor("a", "a", torch.int64, _input(torch.int64, "m").dims),
        InputTensor("i", "i", torch.int64, _input(torch.int64, "n").dims),
        InputTensor("o", "o", torch.int64, _input(torch.int64, "b").dims),
    ]
    for n, b in ((1, 2), (3, 4), (12, 4), (12, 7), (500, 64)):
        (_, made) = InputMaker(inputs[1:], [items, bounds]).at({"n": n, "b": b})
        assert made.tolist() == sorted(made.tolist())
        assert (made[0], made[-1], made.shape) == (0, n, (b,))
        *_, made = InputMaker(inputs, [items, items, bounds], ends={"o": "i"}).at({"m": 5, "n": n, "b": b})
        assert made[-1] == n
