"""How a compiled program is called: what it refuses, and what threads may do."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from tests.harness.rows import thinned
from tests.runtime.compiling import compiled, compiled_program
from trtdiag.errors import ShapeOutOfRangeError, UserError
from trtdiag.frontend.capture import capture
from trtdiag.runtime.compiled import CompiledProgram


class Mixed(nn.Module):
    """Nested arguments, a keyword, a derived dim, and a fixed one."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5).requires_grad_(False)

    def forward(self, x: Tensor, batch: dict[str, list[Tensor]], *, mask: Tensor, times: int = 1) -> Tensor:
        return torch.relu(self.linear(x)).reshape(-1) * times + batch["image"][0] + mask.sum()


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    n = Dim("n", min=2, max=9)
    return compiled(
        Mixed(),
        (torch.randn(4, 5), {"image": [torch.randn(20)]}),
        {"mask": torch.zeros(3)},
        {"x": {0: n}, "batch": {"image": [{0: 5 * n}]}, "mask": None},
    )


def _call(n: int = 4, **changes: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = changes.pop("x", torch.randn(n, 5))
    image = changes.pop("image", torch.randn(5 * n))
    return (x, {"image": [image]}), {"mask": torch.zeros(3), **changes}


def test_the_range_is_taken_whole(program: CompiledProgram) -> None:
    for n in (2, 3, 9):
        args, kwargs = _call(n)
        assert program(*args, **kwargs).shape == (5 * n,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n": 1}, ("the input x", "x.shape[0] is 1", "2 to 9")),
        ({"n": 10}, ("the input x", "x.shape[0] is 10", "2 to 9")),
        ({"x": torch.randn(4, 6)}, ("the input x", "x.shape[1] is 6", "allowed is 5")),
        ({"x": torch.randn(20)}, ("the input x", "1 dims", "2 dims")),
        ({"image": torch.randn(25)}, ("batch['image'][0]", "is 25", "20")),
        ({"mask": torch.zeros(4)}, ("mask", "mask.shape[0] is 4", "allowed is 3")),
    ],
)
def test_sizes_outside_are_refused(program: CompiledProgram, changes: dict[str, Any], words: tuple[str, ...]) -> None:
    args, kwargs = _call(**changes)
    for _ in range(2):
        with pytest.raises(ShapeOutOfRangeError) as caught:
            program(*args, **kwargs)
        assert caught.value.reference == "input-size"
        for word in words:
            assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "reference", "words"),
    [
        ({"x": torch.randn(4, 5).double()}, "input-dtype", ("the input x", "torch.float64", "torch.float32")),
        ({"x": torch.zeros(4, 5, device="meta")}, "input-device", ("the input x", "meta", "cpu")),
        ({"x": torch.ones(4, 5).to_sparse()}, "input-layout", ("the input x", "torch.sparse_coo", "torch.strided")),
        ({"x": torch.ones(4, 5).to_sparse_csr()}, "input-layout", ("the input x", "torch.sparse_csr")),
        ({"x": torch.nested.nested_tensor([torch.ones(4, 5)])}, "input-layout", ("the input x", "a nested tensor")),
        ({"x": 3.5}, "input-kind", ("the input x", "float", "a tensor")),
        ({"mask": None}, "input-kind", ("mask", "None", "a tensor")),
        ({"masks": torch.zeros(3)}, "call-arguments", ("mask",)),
        ({"image": [torch.zeros(20)]}, "call-arguments", ("image",)),
    ],
)
def test_other_arguments_are_refused(
    program: CompiledProgram, changes: dict[str, Any], reference: str, words: tuple[str, ...]
) -> None:
    args, kwargs = _call(**changes)
    with pytest.raises(UserError) as caught:
        program(*args, **kwargs)
    assert caught.value.reference == reference
    for word in words:
        assert word in str(caught.value)


def test_missing_and_further_arguments_are_refused(program: CompiledProgram) -> None:
    args, kwargs = _call()
    for given, named, because in (
        ((), {}, "0 arguments are given by place, not"),
        (args[:1], kwargs, "1 argument is given by place, not"),
        ((*args, 1), kwargs, f"{len(args) + 1} arguments are given by place, not {len(args)}"),
        (args, {}, "'mask' is missing"),
        (args, {**kwargs, "masks": 1}, "there is no 'masks'"),
    ):
        with pytest.raises(UserError) as caught:
            program(*given, **named)
        assert caught.value.reference == "call-arguments"
        assert caught.value.because.startswith(because)
        assert caught.value.because.endswith("; it takes x, batch, mask")


def test_nothing_runs_before_the_check(program: CompiledProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    program = CompiledProgram(program.exported_program)  # one that remembers no call
    real = program._runnable()

    def spy(*args: Any, **kwargs: Any) -> Any:
        ran.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(program, "_module", spy)
    args, kwargs = _call(10)
    with pytest.raises(ShapeOutOfRangeError):
        program(*args, **kwargs)
    assert ran == []
    args, kwargs = _call(9)
    program(*args, **kwargs)
    assert ran == [1]


def test_a_call_like_an_earlier_one_gives_the_same_without_the_checks_of_the_module(
    program: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = CompiledProgram(program.exported_program)
    args, kwargs = _call(7)
    first = fresh(*args, **kwargs)
    monkeypatch.setattr(fresh, "_module", None)  # from here on only what was remembered can run
    monkeypatch.setattr(fresh, "_runnable", lambda: pytest.fail("the whole module runs again"))
    assert torch.equal(fresh(*args, **kwargs), first)
    other_args, other_kwargs = _call(10)
    with pytest.raises(ShapeOutOfRangeError):
        fresh(*other_args, **other_kwargs)


@pytest.mark.slow  # quick: a call like an earlier one gives the same; nested results in test_prepared_calls.py
def test_numbers_and_nested_results_are_as_at_the_first_call() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Tensor, rows: list[Tensor], scale: float, turn: bool) -> dict[str, Any]:
            self.count.add_(1)
            y = torch.relu(x) * scale + rows[0]
            return {"y": (y.flip(0) if turn else y), "both": [y, self.count.clone()], "none": None}

    example = (torch.randn(3, 5), [torch.randn(5)], 2.0, True)
    exported = torch.export.export(Scaled(), example, strict=False)
    made = trtdiag.compile(exported, backend="reference", min_segment_ops=1, verify=False)
    for call in range(1, 4):
        given = (torch.randn(3, 5), [torch.randn(5)], 2.0, True)
        got, wanted = made(*given), Scaled()(*given)
        torch.testing.assert_close(got["y"], wanted["y"])
        torch.testing.assert_close(got["both"][0], wanted["both"][0])
        assert got["both"][1] == call
        assert got["none"] is None
        for scale, turn in ((3.0, True), (2.0, False)):  # the export is for the numbers it was made with
            with pytest.raises(Exception, match=r"scale|turn|2\.0|True"):
                made(*given[:2], scale, turn)


def test_threads_get_their_own_results(program: CompiledProgram) -> None:
    fresh = CompiledProgram(program.exported_program)  # nothing is loaded or remembered yet
    calls = [_call(2 + index % 8) for index in range(48)]
    wanted = [program(*args, **kwargs) for args, kwargs in calls]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda call: fresh(*call[0], **call[1]), calls))
    for got, right in zip(found, wanted, strict=True):
        assert torch.equal(got, right)


def test_conditions_of_the_model_are_checked() -> None:
    """What ranges cannot say: the sizes between two allowed ones are refused, too."""

    class Rows(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x).reshape(-1, 4).sum(1)

    exported = torch.export.export(Rows(), (torch.randn(8),), dynamic_shapes=({0: Dim.AUTO},))
    program = compiled_program(capture(exported))
    for size in (8, 12, 40):
        assert program(torch.randn(size)).shape == (size // 4,)
    with pytest.raises(ShapeOutOfRangeError) as caught:
        program(torch.randn(15))
    assert "x.shape[0] is 15; allowed is x.shape[0] % 4 == 0" in caught.value.because


def test_sizes_of_derived_dims_are_said_in_numbers_and_by_sites() -> None:
    class Blocks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x).reshape(x.shape[0], -1, 12).sum(2)

    example = (torch.randn(2, 48),)
    batch, blocks = Dim("batch", min=1, max=4), Dim("_blocks", min=2, max=20)
    exported = torch.export.export(Blocks(), example, dynamic_shapes=({0: batch, 1: 12 * blocks},))
    program = compiled_program(capture(exported))
    assert "x: float32[1..4, 24..240 in steps of 12]" in repr(program)
    for size in (12, 33, 252):
        with pytest.raises(ShapeOutOfRangeError) as caught:
            program(torch.randn(2, size))
        assert f"x.shape[1] is {size}; allowed is 24 to 240 in steps of 12" in caught.value.because

    open_ = torch.export.export(Blocks(), example, dynamic_shapes=({0: batch, 1: Dim.DYNAMIC(min=12, max=240)},))
    with pytest.raises(ShapeOutOfRangeError) as caught:
        compiled_program(capture(open_))(torch.randn(2, 12))
    assert "x.shape[1] is 12; allowed is x.shape[1] // 12 != 1" in caught.value.because


class Least(nn.Module):
    """``x.shape[0]`` in blocks of 4: whether anything asks how many there are."""

    def __init__(self, asks: bool) -> None:
        super().__init__()
        self.asks = asks

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x).reshape(-1, 4, 3).sum(1) if self.asks else torch.relu(x) + x[-1]


# Quick: a least of 1, which is both taken and not.
@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("least", [1, *(pytest.param(least, marks=pytest.mark.slow) for least in (None, 2))])
def test_the_least_size_of_a_derived_dim_is_taken_where_the_exported_program_takes_it(
    asks: bool, least: int | None, tmp_path: Path
) -> None:
    """torch's range of the root begins at 2 whatever was declared, as it takes no symbol for 1 while it traces."""
    blocks = Dim("_blocks", min=least, max=10)
    exported = torch.export.export(Least(asks), (torch.randn(20, 3),), dynamic_shapes=({0: 4 * blocks},))
    torch.export.save(exported, tmp_path / "least.pt2")
    for source in (exported, tmp_path / "least.pt2"):
        program, taken = compiled_program(capture(source)), []
        for size in (4, 8, 40):
            x = torch.randn(size, 3)
            try:
                wanted = exported.module()(x)
            except AssertionError:
                with pytest.raises(ShapeOutOfRangeError, match=r"allowed is 8 to 40 in steps of 4"):
                    program(x)
                continue
            torch.testing.assert_close(program(x), wanted)
            taken.append(size)
        assert taken == ([8, 40] if asks or least == 2 else [4, 8, 40])


# Quick: all sizes of 1, and one of several dims.
@thinned("dim", [None, 0, -2, (0, 1)], every=9)
def test_a_size_of_1_that_a_squeeze_would_take_away_is_refused(dim: int | tuple[int, ...] | None) -> None:
    """The exported program has no guard, and gives a tensor of fewer dims there than it was traced with."""

    class Squeezes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (torch.relu(x).squeeze() if dim is None else torch.relu(x).squeeze(dim)) * 2

    batch = Dim("batch", min=1, max=9)
    exported = torch.export.export(Squeezes(), (torch.randn(5, 3),), dynamic_shapes=({0: batch},))
    program = compiled_program(capture(exported))
    for size in (2, 9):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), exported.module()(x))
    assert exported.module()(torch.randn(1, 3)).shape == (3,)
    with pytest.raises(ShapeOutOfRangeError) as caught:
        program(torch.randn(1, 3))
    assert "x.shape[0] is 1; allowed is x.shape[0] != 1" in caught.value.because


def test_it_is_neither_pickled_nor_copied(program: CompiledProgram) -> None:
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"trtdiag\.save it"):
            call(program)
