"""Places that get several values at once: keeping another of them is no fault, and nothing else is let off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.harness.rows import thinned
from tests.verification import faulty_backend
from trtdiag.dims.system import dim_system
from trtdiag.engine.backend import get_backend
from trtdiag.frontend.capture import capture
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.lower.metadata import check_metadata
from trtdiag.network import Network, Placed
from trtdiag.network.layers.unary import Unary, UnaryOperation
from trtdiag.options import CompileOptions
from trtdiag.pipeline import accuracy_repair
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.plan_engines import plan_engines
from trtdiag.targets.versions import get_target
from trtdiag.verification.facts import Verification
from trtdiag.verification.run import Comparison
from trtdiag.verification.undefined_writes import undefined_outputs

X = torch.arange(12.0).reshape(4, 3) + 1
REPEATED, EACH_ONCE = torch.tensor([5, 2, 5, 0]), torch.tensor([5, 2, 7, 0])


class Canvas(torch.nn.Module):
    """Rows put into a canvas, and an output of their own."""

    def __init__(self, index: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("index", index)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        canvas = x.new_zeros(8, 3)
        canvas[self.index] = x
        return torch.exp(canvas / 8), x + 1


def _lowered(model: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, Lowered]:
    program = capture((model.eval(), args, {}, None))
    plan = plan_engines(program, check_metadata(program), dim_system(program), get_target("11.4"), CompileOptions())
    return program, plan.lowered


def _verified(index: torch.Tensor, compiled: Callable[..., Any]) -> Verification:
    program, lowered = _lowered(Canvas(index), (X,))
    return Comparison(
        program,
        compiled,
        dim_system(program).given(),
        undefined=lambda flat: undefined_outputs(lowered, flat),
    ).run()


def _backwards(index: torch.Tensor) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """The same rows, written from the last to the first."""
    return lambda x: (Canvas(index.flip(0))(x.flip(0))[0], x + 1)


def test_another_order_is_no_difference() -> None:
    (result,) = _verified(REPEATED, _backwards(REPEATED)).results
    assert not result.passed
    assert not result.failed
    for words in ("aten.index_put.default", "test_undefined_places.py:", "PyTorch does not define which one stays"):
        assert words in result.skipped
    assert _verified(EACH_ONCE, _backwards(EACH_ONCE)).passed


@pytest.mark.parametrize("index", [REPEATED, EACH_ONCE])
def test_a_program_in_the_same_order_is_compared(index: torch.Tensor) -> None:
    assert _verified(index, Canvas(index)).passed


def test_what_does_not_depend_on_it_is_not_let_off() -> None:
    (result,) = _verified(REPEATED, lambda x: (_backwards(REPEATED)(x)[0], x + 2)).results
    assert not result.skipped
    assert [output.passed for output in result.outputs] == [False, False]


@pytest.mark.parametrize("change", [lambda y: y[:7], lambda y: y.double(), lambda y: y * torch.nan])
def test_what_no_order_gives_is_not_let_off(change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    (result,) = _verified(REPEATED, lambda x: (change(Canvas(REPEATED)(x)[0]), x + 1)).results
    assert not result.skipped
    assert not result.passed


def test_a_fault_where_each_place_is_written_once_is_one() -> None:
    (result,) = _verified(EACH_ONCE, lambda x: (Canvas(EACH_ONCE)(x)[0] * 2, x + 1)).results
    assert not result.skipped
    assert not result.passed


class Call(torch.nn.Module):
    """One op of two tensors and fixed arguments."""

    def __init__(self, op: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.op = op

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.op(*args)


def _columns(z: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    z = z.clone()
    z[:, index] = values
    return z


Z = torch.zeros(5, 4)
TWICE, ONCE = torch.tensor([1, 3, 1]), torch.tensor([1, 3, 0])
ROWS, COLUMNS = X[:3, :1].expand(3, 4).clone(), torch.arange(15.0).reshape(5, 3)
# What writes; its other inputs with a place that is written twice, with the same value twice, and with none.
OPS: dict[str, tuple[Callable[..., torch.Tensor], Sequence[Any], Sequence[Any], Sequence[Any]]] = {
    "index_put": (
        lambda z, i, v: torch.index_put(z, (i,), v),
        (TWICE, ROWS),
        (TWICE, torch.ones(3, 4)),
        (ONCE, ROWS),
    ),
    "index_put_pairs": (
        lambda z, i, v: torch.index_put(z, (i, i.flip(0)), v),
        (TWICE, torch.arange(3.0)),
        (TWICE, torch.tensor(2.0)),
        (ONCE, torch.arange(3.0)),
    ),
    "index_put_second": (
        _columns,
        (TWICE, COLUMNS),
        (TWICE, torch.tensor(torch.nan)),
        (ONCE, COLUMNS),
    ),
    "scatter": (
        lambda z, i, v: z.scatter(0, i, v),
        (TWICE.reshape(3, 1).expand(3, 2).clone(), torch.arange(12.0).reshape(3, 4)),
        (TWICE.reshape(3, 1), torch.ones(3, 4)),
        (ONCE.reshape(3, 1).expand(3, 2).clone(), torch.arange(12.0).reshape(3, 4)),
    ),
    "scatter_in_rows": (
        lambda z, i, v: z.scatter(1, i, v),
        (TWICE.reshape(1, 3), torch.arange(3.0).reshape(1, 3)),
        (TWICE.reshape(1, 3), torch.ones(1, 3)),
        (ONCE.reshape(1, 3), torch.arange(3.0).reshape(1, 3)),
    ),
    "index_copy": (
        lambda z, i, v: z.index_copy(1, i, v),
        (TWICE, COLUMNS),
        (TWICE, torch.ones(5, 3)),
        (ONCE, COLUMNS),
    ),
    "put": (
        lambda z, i, v: z.put(i, v),
        (torch.tensor([1, -19, 4]), torch.arange(3.0)),
        (torch.tensor([1, -19, 4]), torch.ones(3)),
        (torch.tensor([1, -1, 4]), torch.arange(3.0)),
    ),
}


# Quick: the ends and each third; all of them write as these do.
@thinned("name", OPS, every=3)
def test_each_op_that_writes(name: str) -> None:
    op, twice, same, once = OPS[name]
    for given, expected in ((twice, [0]), (same, []), (once, [])):
        _, lowered = _lowered(Call(op), (Z, *given))
        assert list(undefined_outputs(lowered, [Z, *given])) == expected


def test_sums_are_defined() -> None:
    _, lowered = _lowered(Call(lambda z, i, v: torch.index_put(z, (i,), v, accumulate=True)), (Z, TWICE, ROWS))
    assert undefined_outputs(lowered, [Z, TWICE, ROWS]) == {}


def test_a_program_that_writes_nowhere_is_not_run() -> None:
    _, lowered = _lowered(Call(lambda z: z + 1), (Z,))
    assert undefined_outputs(lowered, ["not a tensor"]) == {}


def _with_abs(network: Network) -> Network:
    def changed(placed: Placed) -> Placed:
        wrong = placed.layer == Unary(UnaryOperation.EXP)
        return replace(placed, layer=Unary(UnaryOperation.ABS)) if wrong else placed

    return replace(network, layers=tuple(changed(placed) for placed in network.layers))


@pytest.mark.parametrize(("index", "state"), [(REPEATED, "skipped"), (EACH_ONCE, "differs")])
def test_compiling_asks(index: torch.Tensor, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault behind such a place is not told from another order, and is where no place is written twice."""
    monkeypatch.setattr(
        accuracy_repair, "MOST_MENDINGS", 0
    )  # what is compared is looked at here, not what is done about it
    faulty_backend.register(monkeypatch, get_backend("reference"), _with_abs)
    found = compile_in_stages((Canvas(index), (X,), {}, None), CompileOptions("8.6", "faulty"))
    assert found.verification is not None
    (result,) = found.verification.results
    assert (bool(result.skipped), result.passed) == (state == "skipped", False)
    assert (found.verification.culprit is None) == (state == "skipped")
