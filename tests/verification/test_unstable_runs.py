"""The runs of the original with nudged inputs: how many, from which state, and what becomes of those that fail."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from tests.verification.masked_attention import (
    CHANNELS,
    ROWS,
    MaskedAttention,
    attention,
    exported,
    given_inputs,
    only,
    runs_of_the_original,
    verified,
)
from trtdiag.frontend.capture import capture
from trtdiag.graph.pytree import leaves_of
from trtdiag.verification import sides
from trtdiag.verification.facts import Point
from trtdiag.verification.limits import VerifyLimits
from trtdiag.verification.run import Comparison


class Keeps(torch.nn.Module):
    """Attention whose output is the buffer that it writes into, which the next run writes into as well."""

    def __init__(self, attention: MaskedAttention) -> None:
        super().__init__()
        self.attention = attention
        self.register_buffer("last", torch.zeros(ROWS, CHANNELS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last.copy_(self.attention(x))
        return self.last


def test_a_point_that_agrees_costs_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of_the_original(monkeypatch)
    model, program = attention(spread=5e-3)
    _, output = only(verified(program, model))
    assert output.moved is None
    assert len(runs) == 1


def test_a_point_that_differs_costs_as_many_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of_the_original(monkeypatch)
    model, program = attention(spread=5e-3)
    assert verified(program, model.otherwise).passed
    assert 2 <= len(runs) <= 9
    runs.clear()
    assert not verified(program, lambda x: model.otherwise(x) * 1.005).passed
    assert len(runs) == 9
    runs.clear()
    found = verified(program, lambda x: model.otherwise(x) * 1.02)  # no movement lets off as much
    _, output = only(found)
    assert (found.passed, len(runs)) == (False, 2)
    assert output.moved is not None


class Embedded(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(9, 4)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.table(index)


def test_integers_alone_cannot_be_nudged(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of_the_original(monkeypatch)
    model = Embedded()
    found = verified(exported(model, torch.arange(9)), lambda index: model(index) * 1.001)
    result, output = only(found)
    assert not found.passed
    assert (result.unstable, output.moved, len(runs)) == ("", None, 1)


class Counts(torch.nn.Module):
    """What it gives depends on how often it ran; one output is the count itself, the buffer that it writes into."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.seen.add_(1)
        return x * self.seen[0], self.seen


def test_every_run_begins_with_the_same_state() -> None:
    program = exported(Counts(), torch.rand(2, 3) + 1, dims={"x": {0: Dim("n", min=1, max=9)}})
    found = verified(program, lambda x: (x * 1.0003, torch.full((3,), 1.0005)))
    assert len(found.results) > 3
    for result in found.results:
        assert [output.passed for output in result.outputs] == [False, False]
        # With a count that goes on it would move by as much as it is large.
        first, second = result.outputs
        assert first.moved is not None
        assert 0 < first.moved < 1e-5
        assert (second.moved, second.max_abs) == (0.0, pytest.approx(5e-4, rel=1e-3))
    assert program.exported is not None
    assert program.exported.state_dict["seen"].tolist() == [0, 0, 0]


@pytest.mark.slow  # quick: test_a_point_that_differs_costs_as_many_as_it_takes
def test_an_output_that_is_a_buffer_is_beside_what_it_was() -> None:
    model, program = attention(spread=5e-3)
    assert program.exported is not None
    program = exported(Keeps(model), *leaves_of(program.exported.example_inputs))
    found = verified(program, model.otherwise)
    _, output = only(found)
    assert found.passed
    assert output.unstable
    assert program.exported is not None
    assert not program.exported.state_dict["last"].any()


def test_the_example_and_the_inputs_of_a_point_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of_the_original(monkeypatch)
    model, program = attention(spread=5e-3)
    assert program.exported is not None
    (before,) = (leaf.clone() for leaf in leaves_of(program.exported.example_inputs))
    verified(program, model.otherwise)
    (after,) = leaves_of(program.exported.example_inputs)
    assert torch.equal(before, after)
    (first,), *nudged = runs
    assert torch.equal(first, *given_inputs(program))  # nor was it written into later
    assert all(not torch.equal(first, x) for (x,) in nudged)


class Looks(torch.nn.Module):
    """Where its input is only a little greater, the index is outside of the table."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(1.0, 5.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table[x.long()]


JUST_BELOW = torch.nextafter(torch.full((32,), 4.0), torch.tensor(0.0))


def test_an_original_that_does_not_run_for_nudged_inputs_lets_nothing_off() -> None:
    model = Looks()
    found = verified(exported(model, JUST_BELOW), lambda x: model(x) * 1.001)
    result, output = only(found)
    assert (found.passed, result.failed, result.skipped, output.moved) == (False, "", "", None)


def test_a_gpu_that_a_nudged_run_loses_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[bool] = []

    def waited(result: Any) -> Any:
        waits.append(result)
        return result

    waits: list[Any] = []
    monkeypatch.setattr(sides, "finished", waited)
    monkeypatch.setattr(sides, "gpu_lost", lambda: "CUDA error: device-side assert triggered")
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    model = Looks()
    program = exported(model, JUST_BELOW, dims={"x": {0: Dim("n", min=2, max=49)}})
    found = verified(program, lambda x: model(x) * 1.001, locate=lambda *_: lost.append(True))
    first, *others = found.results
    assert not first.passed
    assert not first.skipped
    assert len(waits) == 3  # to load kernels, the original, the compiled program; the nudged run fails before
    assert len(others) >= 2
    assert all("the original beside example ended all work" in result.skipped for result in others)
    assert lost == []  # nothing can run there, a search least of all


def test_a_gpu_that_the_search_for_an_op_loses_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong index of an engine, read by an op that stays with PyTorch: its kernel fails after the search."""
    lost: list[Point] = []
    monkeypatch.setattr(sides, "finished", lambda result: result)
    monkeypatch.setattr(sides, "gpu_lost", lambda: "CUDA error: device-side assert triggered" if lost else "")
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    model = Looks()
    program = exported(model, JUST_BELOW, dims={"x": {0: Dim("n", min=2, max=49)}})
    found = verified(program, lambda x: model(x) + 1, locate=lambda point, *_: lost.append(point))
    first, *others = found.results
    assert (first.passed, first.skipped) == (False, "")
    assert len(others) >= 2
    assert all("the search for the op at example ended all work" in result.skipped for result in others)
    assert len(lost) == 1


def test_the_time_of_a_point_limits_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of_the_original(monkeypatch)
    model, program = attention(spread=5e-3)
    found = verified(program, model.otherwise, limits=VerifyLimits(seconds=-1))
    _, output = only(found)
    assert (found.passed, output.moved, len(runs)) == (False, None, 1)


def test_nothing_is_measured_where_the_result_is_not_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of_the_original(monkeypatch)
    model, program = attention(spread=5e-3)
    found = verified(program, model.otherwise, undefined=lambda _flat: {0: "not defined"})
    (result,) = found.results
    assert (result.skipped, result.unstable, len(runs)) == ("not defined", "", 1)


class Writes(torch.nn.Module):
    """Writes into its input and a buffer, as a step of decoding into its cache."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x.sum(0) + self.cache
        self.cache.add_(result)
        x.mul_(2)
        return result


class Reads(torch.nn.Module):
    """Gives the same and writes only what it is told to."""

    def __init__(self, *writes: str) -> None:
        super().__init__()
        self.cache, self.writes = torch.zeros(3), writes

    def named_state(self) -> dict[str, torch.Tensor]:
        return {"cache": self.cache}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x.sum(0) + self.cache
        if "cache" in self.writes:
            self.cache.add_(result)
        if "x" in self.writes:
            x.mul_(2)
        return result


@pytest.mark.parametrize(("writes", "missing"), [(("x", "cache"), []), (("x",), ["cache"]), (("cache",), ["x"])])
def test_what_a_program_does_not_write_is_a_difference(writes: tuple[str, ...], missing: list[str]) -> None:
    """Only outputs were compared: the next call has the wrong cache."""
    program = capture(torch.export.export(Writes(), (torch.ones(4, 3),), dynamic_shapes={"x": {0: Dim("n", max=8)}}))
    found = Comparison(program, Reads(*writes), ()).run()
    assert found.passed is not bool(missing)
    wrong = [output for result in found.results for output in result.outputs if not output.passed]
    assert {(output.output, output.why) for output in wrong} == {
        (name, "the call leaves other values in it") for name in missing
    }
    with torch.inference_mode():
        assert Comparison(program, Reads("x", "cache"), ()).run().passed
