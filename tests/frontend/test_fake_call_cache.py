"""Equal calls on fake tensors are run once, and give what each would give."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from trtdiag.frontend import fake_run
from trtdiag.frontend.capture import capture
from trtdiag.frontend.exact_sums import ExactSums
from trtdiag.frontend.fake_call_cache import FakeCallCache
from trtdiag.symbolic import free_symbols


class Ran(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Counts the calls that come through: that are run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[func._schema.name.removeprefix("aten::")] += 1
        return func(*args, **(kwargs or {}))


def of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a fake tensor is."""
    return tensor.dtype, tensor.device, tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))


def several(weight: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    """Twice each: a convolution and a norm of real weights, splits, casts, scalars of three types, a write, a view."""
    found = []
    ones = torch.ones(5)
    for _ in range(2):
        y = functional.batch_norm(functional.conv2d(x, weight, padding=1), ones, ones)
        halves = torch.ops.aten.split_with_sizes_copy(y, [2, 3], 1)
        z = y.to(torch.float16, memory_format=torch.channels_last)
        found += [y, *halves, z, y.transpose(1, 3), y * 1, y * 1.0, y.to(torch.int64) * True, y.to(torch.int64) * 1.0]
        found.append(y.add_(1))
    return found


@pytest.mark.parametrize("sizes", [(1, 3, 1, 7), (4, 3, 13, 11)])
def test_results_are_what_each_call_gives(sizes: tuple[int, ...]) -> None:
    weight, wanted = torch.ones(5, 3, 3, 3), []
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        wanted = [of(each) for each in several(weight, torch.empty(sizes))]
    mode, ran = FakeTensorMode(allow_non_fake_inputs=True), Ran()
    with mode, ran, FakeCallCache(mode), torch.no_grad():
        made = several(weight, torch.empty(sizes))
    assert [of(each) for each in made] == wanted
    assert len({id(each.untyped_storage()) for each in made[::2]}) > 1
    assert ran.count["convolution"] + ran.count["conv2d"] == 1
    assert ran.count["add_"] == 2  # it writes
    assert ran.count["transpose"] == 2  # it views


def test_a_cache_of_another_mode_is_gone_on_with() -> None:
    weight, known, ran = torch.ones(5, 3, 3, 3), dict[Any, Any](), Ran()
    for sizes in ((2, 3, 5, 7), (2, 3, 5, 7), (3, 3, 5, 7)):
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        with mode, ran, FakeCallCache(mode, known), torch.no_grad():
            made = several(weight, torch.empty(sizes))
        assert all(each.fake_mode is mode for each in made)  # type: ignore[attr-defined]  # all are fake
    assert ran.count["convolution"] + ran.count["conv2d"] == 2


def test_conditions_are_run() -> None:
    """torch refuses them within modes that do not say that they take such ops: no program with one ran on shapes."""

    def branch(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.ops.higher_order.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        return y.new_zeros(3).index_add(0, torch.tensor([0, 2]), y)

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, FakeCallCache(mode), fake_run._Counting() as counting, torch.no_grad():
        assert branch(torch.empty(2)).shape == (3,)
    assert counting.most == 3
    x = torch.tensor([0.5, 2.0])
    with ExactSums() as sums:
        assert torch.equal(branch(x), torch.stack([x[0].sin(), torch.zeros(()), x[1].sin()]))
    assert sums.used


def test_points_of_one_program_share_calls_but_where_data_decide_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tables(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.full((5, 7), 2.0).cumsum(0).sum() + x.sum()

    class Chosen(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.nonzero().cumsum(0).sum() + x.sum()

    seen: list[dict[Any, Any] | None] = []

    def noted(mode: FakeTensorMode, known: dict[Any, Any] | None) -> FakeCallCache:
        seen.append(known)
        return FakeCallCache(mode, known)

    monkeypatch.setattr(fake_run, "FakeCallCache", noted)
    for model in (Tables(), Chosen()):
        args = (torch.ones(3, 2),)
        program = capture(torch.export.export(model, args, dynamic_shapes=({0: torch.export.Dim("n", max=9)},)))
        assert program.exported is not None
        runner = fake_run.ShapeRunner(program.exported, program.inputs, args, {})
        (symbol,) = free_symbols(program.inputs[0].dims[0].expr)
        assert [runner.refusal({symbol: size}) for size in (2, 9)] == ["", ""]
    assert seen[0] is seen[1]
    assert seen[0]
    assert seen[2:] == [None, None]


def test_what_depends_on_values_is_run() -> None:
    mode, ran = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()), Ran()
    with mode, ran, FakeCallCache(mode):
        lengths = {str(torch.nonzero(torch.empty(3, 4)).shape[0]) for _ in range(2)}
        numbers = [int(torch.tensor(value) + 1) for value in (2, 5)]
    assert len(lengths) == 2  # a size of its own each time
    assert numbers == [3, 6]


NORMS = [
    # input, its dtype, parameters: fits
    ((1, 3), torch.float32, 3, True),
    ((2, 3, 5, 7), torch.float64, 3, True),
    ((3, 1, 1, 1, 1), torch.float16, 1, True),
    ((2, 3, 5, 7), torch.float16, 3, False),  # statistics in float32
    ((0, 3, 5), torch.float32, 3, False),
    ((2, 7, 5, 3), torch.float32, 3, False),  # channels last
]


@pytest.mark.parametrize("weighed", [True, False])
@pytest.mark.parametrize(("sizes", "dtype", "channels", "fits"), NORMS)
def test_a_norm_of_known_statistics_is_what_its_parts_give(
    sizes: tuple[int, ...], dtype: torch.dtype, channels: int, fits: bool, weighed: bool
) -> None:
    def normed(calls: Any, mode: FakeTensorMode) -> list[tuple[Any, ...]]:
        with mode, calls, torch.no_grad():
            x = torch.empty(sizes, dtype=dtype)
            x = x if channels == x.shape[1] else x.transpose(1, -1)
            held = torch.ones(channels, dtype=dtype if fits else torch.float32)
            weight = held if weighed else None
            return [of(each) for each in torch.native_batch_norm(x, weight, weight, held, held, False, 0.1, 1e-5)]

    ran = Ran()
    mode = FakeTensorMode()
    with mode, ran:
        made = normed(FakeCallCache(mode), mode)
    assert made == normed(Ran(), FakeTensorMode())
    assert ran.count["native_batch_norm"] == (not fits)


def test_a_norm_that_does_not_fit_is_refused_as_ever() -> None:
    mode = FakeTensorMode()
    with mode, FakeCallCache(mode), torch.no_grad(), pytest.raises(RuntimeError, match="broadcast"):
        torch.native_batch_norm(torch.empty(2, 3, 5), None, None, torch.ones(4), torch.ones(4), False, 0.1, 1e-5)
