"""Caches whose new elements alone leave an engine: as eager, by both ways to run, and no cache is copied."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from examples.generate import Written
from tests.harness.rows import each
from tests.runtime.cache_models import BATCH, HEADS, SHAPE, STEPS, WIDTH, WRITES, Decoder, decoded, step_inputs
from tests.runtime.compiling import NARROW, compiled
from trtdiag.runtime.compiled import CompiledProgram

ROW = BATCH * HEADS * WIDTH * 4
"""The bytes of one step of one cache."""


def loaded(program: CompiledProgram) -> nn.Module:
    """The program as ``torch.export`` alone loads it."""
    file = io.BytesIO()
    torch.export.save(program.exported_program, file)
    file.seek(0)
    return torch.export.load(file).module()


def notes_of(program: CompiledProgram) -> list[str]:
    return [note for note in program.report.analysis.program.notes if "cache" in note]  # type: ignore[attr-defined]


@pytest.mark.slow  # quick: of a cache of all layers the steps are written
@each("name", WRITES)
def test_only_the_step_is_written_on_a_target_without_a_layer_for_that(name: str) -> None:
    model = Decoder(WRITES[name])
    program = compiled(copy.deepcopy(model), step_inputs(3), target="8.6", plan=NARROW)
    for run in (program, loaded(program)):
        own = copy.deepcopy(model)
        caches = [buffer for name, buffer in run_buffers(run) if name in ("keys", "values")]
        for at in range(4):
            given = step_inputs(at)
            with Written(caches) as seen:
                got = run(*given)
            assert (seen.copies, seen.into_caches) == (0, 2 * ROW)
            torch.testing.assert_close(got, own(*given))
        for ours, theirs in zip(caches, own.buffers(), strict=True):
            torch.testing.assert_close(ours, theirs)


def run_buffers(run: Any) -> list[tuple[str, Tensor]]:
    if not isinstance(run, CompiledProgram):
        return list(run.named_buffers())
    return list(zip(("keys", "values"), run.state(), strict=True))


class Changed(nn.Module):
    """Writes into the cache that it is given."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run

    def forward(self, cache: Tensor, x: Tensor, at: Tensor) -> Any:
        return self.run(cache, torch.tanh(x), at)


def _any_places(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache[:, :, torch.stack([at[0], at[0] + 5])] = torch.cat([x, x * 2], 2)
    return cache.sum(2)


def _old_is_read(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    before = cache.sum(2)
    cache.index_copy_(2, at, x)
    return before + cache.sum(2) * 2


def _twice(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache.index_copy_(2, at, x)
    cache.index_copy_(2, at + 1, cache[:, :, :1] + x)
    return cache.sum(2)


def _added(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    torch.ops.aten.index_put_.default(cache, [None, None, at], x, True)
    return cache.sum(2)


def _along_heads(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache.index_copy_(1, at % 2, x[:, :1].expand(BATCH, 1, STEPS, WIDTH))
    return cache.sum(2)


def _every_other(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache[:, :, 1:6:2] = x + at
    return cache.sum(2)


def _one_head(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache[:, 1].index_copy_(1, at, x[:, 1])
    cache[0, 2, 3:5] = x[0, 0] + at
    return cache.sum(2)


def _moved(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache[:, :, :-1] = cache[:, :, 1:].clone()
    cache[:, :, -1:] = x * 2
    return cache.sum(2)


FORMS = (_any_places, _old_is_read, _twice, _added, _along_heads, _every_other, _one_head, _moved)


@pytest.mark.slow  # quick: of a cache of all layers the steps are written
@each("run", FORMS, ids=lambda run: run.__name__)
def test_forms_that_no_layer_takes_are_written_behind_the_engine(run: Callable[..., Any]) -> None:
    model = Changed(run)
    exported = torch.export.export(model, (torch.zeros(SHAPE), torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([2])))
    for target in ("8.6", "11.4"):
        program = trtdiag.compile(exported, backend="reference", target=target, min_segment_ops=1, verify=False)
        assert any("only what a call writes" in note for note in notes_of(program)), notes_of(program)
        for way in (program, loaded(program)):
            ours, theirs = torch.ones(SHAPE), torch.ones(SHAPE)
            for at in (4, 5, 0):
                x = torch.randn(BATCH, HEADS, 1, WIDTH)
                torch.testing.assert_close(way(ours, x, torch.tensor([at])), model(theirs, x, torch.tensor([at])))
                torch.testing.assert_close(ours, theirs)


class Stacked(nn.Module):
    """Keys and values of all layers in one buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(3, 2, *SHAPE))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        for layer in range(3):
            self.cache[layer, 0].index_copy_(2, at, x)
            self.cache[layer, 1, :, :, at] = x * 2
            x = x + nn.functional.scaled_dot_product_attention(x, *self.cache[layer].unbind(0)).tanh()
        return x


@pytest.mark.parametrize("target", ["8.6", pytest.param("11.4", marks=pytest.mark.slow)])  # the same on both
def test_of_a_cache_of_all_layers_the_steps_are_written(target: str) -> None:
    model = Stacked()
    given = (torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([3]))
    program = trtdiag.compile(
        torch.export.export(copy.deepcopy(model), given), backend="reference", target=target, verify=False
    )
    (cache,) = program.state()
    for at in (0, 9, STEPS - 1):
        given = (torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([at]))
        with Written([cache[0, 0].clone(), cache]) as seen:  # the least of them is one layer's
            got = program(*given)
        assert (seen.copies, seen.into_caches) == (0, 6 * ROW)
        torch.testing.assert_close(got, model(*given))
    torch.testing.assert_close(cache, model.cache)


@pytest.mark.parametrize("target", ["8.6", pytest.param("11.4", marks=pytest.mark.slow)])  # the same on both
@pytest.mark.slow  # quick: of a cache of all layers the steps are written; casts in test_assembled_programs.py
def test_in_half_precision_caches_stay_in_their_own(target: str) -> None:
    model = Decoder()
    program = trtdiag.compile(
        torch.export.export(copy.deepcopy(model), step_inputs(3)), backend="reference", target=target, precision="fp16"
    )
    caches = program.state()
    assert {cache.dtype for cache in caches} == {torch.float32}
    for at in range(5):
        given = step_inputs(at)
        with Written(caches) as seen:
            got = program(*given)
        assert seen.into_caches == 2 * ROW
        torch.testing.assert_close(got, model(*given), rtol=1e-2, atol=1e-2)  # 11 bits, through a product and a softmax


class AtANumber(nn.Module):
    """Writes where a number says, as many steps as it is given."""

    def forward(self, cache: Tensor, x: Tensor, first: int) -> Tensor:
        cache[:, :, first : first + x.shape[2]] = x.tanh()
        return cache.sum(2)


def test_sizes_that_say_where_are_worked_out_outside() -> None:
    shapes = {"cache": None, "x": {2: Dim("n", min=2, max=5)}, "first": Dim.DYNAMIC(min=2, max=12)}
    given = (torch.zeros(SHAPE), torch.randn(BATCH, HEADS, 3, WIDTH), 4)
    program = trtdiag.compile(
        torch.export.export(AtANumber(), given, dynamic_shapes=shapes), backend="reference", target="8.6",
        min_segment_ops=1,
    )  # fmt: skip
    assert any("only what a call writes" in note for note in notes_of(program))
    for way in (program, loaded(program)):
        ours, theirs = torch.ones(SHAPE), torch.ones(SHAPE)
        for first, count in ((4, 3), (12, 5), (2, 2)):
            x = torch.randn(BATCH, HEADS, count, WIDTH)
            with Written([ours]) as seen:
                got = way(ours, x, first)
            assert (seen.copies, seen.into_caches) == (0, count * ROW)
            torch.testing.assert_close(got, AtANumber()(theirs, x, first))
            torch.testing.assert_close(ours, theirs)


class Handed(nn.Module):
    """What one cache had goes into the other, before or after it is written itself."""

    def __init__(self, before: bool) -> None:
        super().__init__()
        self.before = before

    def forward(self, first: Tensor, second: Tensor, x: Tensor, at: Tensor) -> Tensor:
        if self.before:
            second.index_copy_(2, torch.arange(STEPS), first)
        first.index_copy_(2, at, x.tanh())
        if not self.before:
            second.index_copy_(2, torch.arange(STEPS), first)
        return first.sum(2) + second.sum(2) * 2


@pytest.mark.parametrize("before", [True, False])
def test_what_one_cache_hands_to_another_is_read_in_time(before: bool) -> None:
    model = Handed(before)
    given = (torch.zeros(SHAPE), torch.zeros(SHAPE), torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([2]))
    program = compiled(model, given, target="8.6", plan=NARROW)
    for way in (program, loaded(program)):
        ours, theirs = [torch.ones(SHAPE) for _ in range(2)], [torch.ones(SHAPE) for _ in range(2)]
        for at in (3, 7):
            x, place = torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([at])
            torch.testing.assert_close(way(*ours, x, place), model(*theirs, x, place))
            torch.testing.assert_close(ours, theirs)


def _seen_by_torch(cache: Tensor, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    before = torch.erfinv(cache)
    cache.index_copy_(2, at, x / 2)
    return before, cache.sum(2)


def _returned(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache.index_copy_(2, at, x)
    return cache


def _read_by_torch(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache.index_copy_(2, at, x / 2)
    return torch.erfinv(cache)


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (_seen_by_torch, "reads its old elements"),
        (_returned, "also returns it"),
        (_read_by_torch, "reads its new elements"),
    ],
)
def test_what_others_read_is_copied_as_before_and_told(run: Callable[..., Any], why: str) -> None:
    given = (torch.zeros(SHAPE), torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([2]))
    options: dict[str, Any] = {"min_segment_ops": 1, "keep_in_torch": ["aten.erfinv.default"]}
    exported = torch.export.export(Changed(run), given)
    program = trtdiag.compile(exported, backend="reference", target="8.6", **options)
    assert any("copied at each call" in note and why in note for note in notes_of(program)), notes_of(program)
    ours, theirs = torch.zeros(SHAPE), torch.zeros(SHAPE)
    for at in (2, 9):
        x = torch.randn(BATCH, HEADS, 1, WIDTH)
        torch.testing.assert_close(program(ours, x, torch.tensor([at])), Changed(run)(theirs, x, torch.tensor([at])))
        torch.testing.assert_close(ours, theirs)


class Counting(nn.Module):
    """Counts its calls, and keeps what it last saw."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int32))
        self.register_buffer("last", torch.zeros(3, 5))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        self.last.copy_(x.tanh())
        return self.last * 2 + self.calls


def test_what_is_wholly_new_is_no_cache_of_which_anything_is_told() -> None:
    model = Counting()
    exported = torch.export.export(copy.deepcopy(model), (torch.randn(3, 5),))
    program = trtdiag.compile(exported, backend="reference", target="8.6", min_segment_ops=1)
    assert notes_of(program) == []
    for _ in range(3):
        x = torch.randn(3, 5)
        torch.testing.assert_close(program(x), model(x))
    for ours, theirs in zip(program.state(), model.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_compiled_program_is_compiled_again() -> None:
    model = Decoder()
    first = trtdiag.compile(
        torch.export.export(copy.deepcopy(model), step_inputs(3)), backend="reference", target="8.6"
    )
    again = trtdiag.compile(first.exported_program, backend="reference", target="8.6")
    assert sorted(again.exported_program.graph_signature.buffers_to_mutate.values()) == ["keys", "values"]
    decoded(again, model, 4)
