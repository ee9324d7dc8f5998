"""Calls like calls before, and results in the caller's memory: with engines of the reference."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.harness.rows import each
from tests.runtime.compiling import NARROW, compiled
from tests.runtime.preparing import Preparing, Runners
from trtdiag.errors import ShapeOutOfRangeError, UserError
from trtdiag.runtime.compiled import CompiledProgram

ROWS = {0: Dim("rows", min=1, max=11)}


class Sums(nn.Module):
    """Two results, in another order than they are computed."""

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        total = torch.relu(x) + y
        return {"late": total * y, "early": total}


def _sums() -> CompiledProgram:
    return compiled(Sums(), (torch.randn(3, 5), torch.randn(3, 5)), dynamic_shapes={"x": ROWS, "y": ROWS})


@pytest.fixture
def sums() -> CompiledProgram:
    return _sums()


def _agrees(result: dict[str, Tensor], x: Tensor, y: Tensor) -> None:
    expected = Sums()(x, y)
    assert list(result) == list(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(result[name], tensor)


def test_calls_like_calls_before_are_prepared(preparing: Runners) -> None:
    program = _sums()
    for _ in range(4):
        for rows in (1, 7, 11):
            x, y = torch.randn(rows, 5), torch.randn(rows, 5)
            _agrees(program(x, y), x, y)
    assert (preparing.one.whole, preparing.one.again) == (6, 6)


def test_what_decides_over_a_call_is_looked_at_each_time(preparing: Runners) -> None:
    program = _sums()
    x = torch.randn(7, 5)
    for _ in range(3):
        program(x, x)
    before = preparing.one.again
    _agrees(program(x.t().contiguous().t(), x), x, x)  # other strides
    assert preparing.one.again == before
    many = torch.randn(12, 5)
    with pytest.raises(ShapeOutOfRangeError, match="1 to 11"):
        program(many, many)
    with pytest.raises(UserError, match="float64"):
        program(x.double(), x)
    with pytest.raises(UserError):
        program(x.to_sparse(), x)
    _agrees(program(x=x, y=x), x, x)
    preparing.one.stale = True
    _agrees(program(x, x), x, x)


def test_modes_do_not_matter(preparing: Runners) -> None:
    program = _sums()
    x = torch.randn(3, 5, requires_grad=True)
    for _ in range(3):
        assert not program(x, x)["late"].requires_grad
        with torch.inference_mode():
            assert program(x, x)["late"].is_inference()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert program(x, x)["late"].dtype is torch.float32
    assert preparing.one.again


def test_a_view_that_negates_is_computed_before_an_engine_reads_it(preparing: Runners) -> None:
    program = _sums()
    x = torch.randn(1, 1, dtype=torch.complex64)
    y = torch.randn(1, 5)
    for given in (x.real.contiguous(), x.conj().imag, x.imag.contiguous(), x.conj().imag):
        wide = given.expand(1, 5)
        for _ in range(2):
            _agrees(program(wide, y), wide, y)


def test_a_choice_of_how_to_run_prepares_anew(preparing: Runners) -> None:
    program = _sums()
    x = torch.randn(3, 5)
    for _ in range(3):
        program(x, x)
    program.cuda_graphs(3)
    for _ in range(3):
        program(x, x)
    assert preparing.one.choices[0] is None
    assert preparing.one.choices[-1] is not None


def test_threads_prepare_their_own(preparing: Runners) -> None:
    program = _sums()
    x = torch.randn(3, 5)
    for _ in range(3):
        program(x, x)
    whole = preparing.one.whole
    thread = threading.Thread(target=program, args=(x, x))
    thread.start()
    thread.join()
    assert preparing.one.whole == whole + 1


def test_threads_that_take_turns_have_calls_of_their_own(preparing: Runners) -> None:
    program, order = _sums(), threading.Barrier(2, timeout=60)
    x = torch.randn(3, 5)
    program(x, x)
    runs: dict[object, set[int]] = {}
    runner = preparing.one
    called = Preparing.Run.__call__

    def noted(self: Preparing.Run, *args: Any) -> Any:
        runs.setdefault(threading.get_ident(), set()).add(id(self))
        return called(self, *args)

    def call() -> None:
        for _ in range(4):
            order.wait()
            _agrees(program(x, x), x, x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Preparing.Run, "__call__", noted)
        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    first, second = runs.values()
    assert runner.again
    assert not first & second


def test_after_a_prepared_call_others_are_still_told_apart(preparing: Runners) -> None:
    class Own(Tensor):
        pass

    program = _sums()
    x = torch.randn(7, 5)
    for _ in range(3):
        program(x, x)
    before = preparing.one.again
    for other in (x.as_subclass(Own), x.t().contiguous().t(), x[:6]):  # type: ignore[no-untyped-call]  # as torch is
        _agrees(program(other, other), other, other)
        assert preparing.one.again == before
    with pytest.raises(UserError):
        program(x)
    with pytest.raises(UserError):
        program(x, torch.empty(7, 5, device="meta"))
    _agrees(program(x, x), x, x)
    assert preparing.one.again == before + 1


@pytest.mark.parametrize("prepares", [True, False])
def test_results_in_the_callers_memory(prepares: bool, request: pytest.FixtureRequest) -> None:
    if prepares:
        request.getfixturevalue("preparing")
    program = _sums()
    for rows in (1, 7, 11):
        outputs = {"late": torch.empty(rows, 5), "early": torch.empty(rows, 5)}
        places = {name: tensor.data_ptr() for name, tensor in outputs.items()}
        for _ in range(4):
            x, y = torch.randn(rows, 5), torch.randn(rows, 5)
            assert program.run_into(outputs, x, y=y) is outputs
            _agrees(outputs, x, y)
            assert program.run_into(outputs, x, y) is outputs
            _agrees(outputs, x, y)
        assert {name: tensor.data_ptr() for name, tensor in outputs.items()} == places


def test_memory_that_is_an_inputs_too(preparing: Runners) -> None:
    program = _sums()
    for _ in range(3):
        x, y = torch.randn(7, 5), torch.randn(7, 5)
        given = x.clone()
        program.run_into({"late": x, "early": torch.empty(7, 5)}, x, y)
        torch.testing.assert_close(x, Sums()(given, y)["late"])


@each(
    "row",
    [
        (torch.empty(3, 5), "nested"),
        ({"late": torch.empty(3, 5)}, "nested"),
        ({"late": torch.empty(4, 5), "early": torch.empty(3, 5)}, "[4, 5]"),
        ({"late": torch.empty(3, 5), "early": torch.empty(3, 5).half()}, "float16"),
        ({"late": torch.empty(1, 5), "early": torch.empty(3, 5)}, "[1, 5]"),
        ({"late": 3, "early": torch.empty(3, 5)}, "int"),
        ({"late": None, "early": torch.empty(3, 5)}, "None"),
    ],
)
@pytest.mark.usefixtures("preparing")
def test_outputs_that_do_not_fit_are_refused_and_left(row: tuple[Any, str], sums: CompiledProgram) -> None:
    program, (outputs, words) = sums, row
    x = torch.randn(3, 5)
    before = copy.deepcopy(outputs)
    for _ in range(3):
        with pytest.raises(UserError) as caught:
            program.run_into(outputs, x, x)
        assert caught.value.reference == "given-outputs"
        assert words in str(caught.value)
        program(x, x)
    torch.testing.assert_close(outputs, before, equal_nan=True)


@pytest.mark.parametrize("by_address", [False, True], ids=["pairs", "int64 where it is"])
@pytest.mark.parametrize("casts", [False, True], ids=["program casts", "engine casts"])
@pytest.mark.parametrize("row_major", [True, False])
def test_inputs_of_dtypes_that_the_engine_has_not(
    casts: bool, by_address: bool, row_major: bool, preparing: Runners
) -> None:
    args = torch.arange(15).reshape(3, 5), torch.randn(3, 5, dtype=torch.float64)
    program = compiled(Sums(), args, dynamic_shapes={"x": ROWS, "y": ROWS}, plan=NARROW, target="8.6")
    for index in range(5):
        x, y = torch.randint(-9, 9, (3, 5)), torch.randn(3, 5, dtype=torch.float64)
        x = x if row_major else x.t().contiguous().t()
        result, expected = program(x, y), Sums()(x, y)
        for name, tensor in expected.items():  # computed in float32
            torch.testing.assert_close(result[name], tensor, rtol=1e-6, atol=1e-6)
        preparing.one.casts, preparing.one.by_address = casts, by_address
        if index == 2:
            program.cuda_graphs(3)  # it prepares anew
    assert preparing.one.again == 2
    before = {name: torch.zeros_like(tensor) for name, tensor in expected.items()}
    torch.testing.assert_close(program.run_into(before, x, y), result)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(31, 5)

    def forward(self, ids: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(self.table(ids)) * x


def test_int64_reaches_a_prepared_engine_where_it_is(preparing: Runners) -> None:
    model = Words().eval()
    args = torch.randint(0, 31, (3,)), torch.randn(3, 5)
    program = compiled(model, args, dynamic_shapes={"ids": ROWS, "x": ROWS}, plan=NARROW, target="8.6")
    ids, x = args
    program(ids, x)
    preparing.one.by_address = True
    program.cuda_graphs(3)  # it prepares anew
    for times in range(4):
        ids = torch.randint(0, 31, (3,))
        torch.testing.assert_close(program(ids, x), model(ids, x))
        assert preparing.one.again == max(0, times)
    assert preparing.one.given[0] is ids
    other = torch.randint(0, 31, (6,))[::2]  # not row-major: its pairs are copied
    for _ in range(3):
        torch.testing.assert_close(program(other, x), model(other, x))
    assert preparing.one.given[0].dtype is torch.int32
    place = torch.empty(3, 5)
    for _ in range(2):
        torch.testing.assert_close(program.run_into(place, ids, x), model(ids, x))
    assert preparing.one.given[0] is ids
