"""Caches that engines write to in place: as the model does, without a copy, and copied where a copy could be told."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from tests.harness.rows import each
from tests.random_cases import some
from tests.runtime.cache_models import (
    BATCH,
    HEADS,
    SHAPE,
    STEPS,
    WIDTH,
    WRITES,
    Decoder,
    GivenCaches,
    WholeCaches,
    Write,
    decoded,
    step_inputs,
)
from tests.runtime.compiling import compiled
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.errors import UserError
from trtdiag.network import from_bytes
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import engine_bytes
from trtdiag.runtime.engine_nodes import engine_nodes
from trtdiag.runtime.in_place_execution import may_be_written

VIEWS = ("detach", "view", "transpose", "squeeze", "permute", "slice", "select", "unsqueeze")
WRITTEN = ["scatter_", "scatter_"]
"""What the reference backend does to two caches: it writes steps into them."""


def _updates(program: CompiledProgram) -> int:
    networks = [from_bytes(engine_bytes(found.engine)) for found in engine_nodes(program.exported_program)]
    return sum(placed.layer.kind == "KVCacheUpdate" for network in networks for placed in network.layers)


@each("name", some(list(WRITES), 3))
def test_a_step_is_written_into_the_buffers_and_nothing_is_copied(name: str) -> None:
    model = Decoder(WRITES[name])
    program = compiled(copy.deepcopy(model), step_inputs(3))
    assert _updates(program) == 2
    assert [dict(manifest.written) for manifest in program.manifests] == [{0: 0, 1: 1}]
    where = [buffer.data_ptr() for buffer in program.state()]
    for at in range(STEPS - 1):
        given = step_inputs(at)
        with WholeCaches() as seen:
            got = program(*given)
        assert "copy_" not in seen.ops
        # Some of PyTorch's ways to run attention copy keys and values; that is behind the writes.
        assert [op for op in seen.ops[: seen.ops.index("scatter_") + 2] if op not in VIEWS] == WRITTEN
        torch.testing.assert_close(got, model(*given))
    assert [buffer.data_ptr() for buffer in program.state()] == where
    for own, buffer in zip(model.buffers(), program.state(), strict=True):
        torch.testing.assert_close(buffer, own)


def test_other_targets_have_no_engine_that_writes_in_place() -> None:
    model = Decoder()
    program = compiled(copy.deepcopy(model), step_inputs(3), target="8.6", plan={torch.int64: torch.int32})
    assert _updates(program) == 0
    assert "memory_of" not in manifest_to_text(program.manifests[0])
    decoded(program, model, 3)


@pytest.mark.slow  # quick: test_several_neighbours_are_written_at_once
def test_caches_that_are_given_are_written() -> None:
    x = torch.randn(BATCH, HEADS, 1, WIDTH)
    batch = Dim("batch", min=2, max=9)
    shapes = ({0: batch}, None, {0: batch}, {0: batch})
    given = (x, torch.tensor([1]), torch.zeros(SHAPE), torch.zeros(SHAPE))
    program = compiled(GivenCaches(), given, dynamic_shapes=shapes)
    assert _updates(program) == 2
    for size in (2, 5, 9):
        ours, theirs = ([torch.zeros(size, *SHAPE[1:]) for _ in range(2)] for _ in range(2))
        for at in (0, 7, STEPS - 1):
            x = torch.randn(size, HEADS, 1, WIDTH)
            with WholeCaches(ours[0].numel()) as seen:
                got = program(x, torch.tensor([at]), *ours)
            assert seen.ops[:2] == WRITTEN
            assert "copy_" not in seen.ops
            torch.testing.assert_close(got, GivenCaches()(x, torch.tensor([at]), *theirs))
            for one, other in zip(ours, theirs, strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=0)


def _long(cache: Tensor, update: Tensor, at: Tensor) -> None:
    cache.index_copy_(2, torch.arange(update.shape[2]) + at[0], update)


def _long_slice(cache: Tensor, update: Tensor, at: Tensor) -> None:
    cache[:, :, 2 : 2 + update.shape[2]] = update + at.sum()


@each("write", [_long, _long_slice])
def test_several_neighbours_are_written_at_once(write: Write) -> None:
    x, model = torch.randn(BATCH, HEADS, 5, WIDTH), GivenCaches(write)
    shapes = (None if write is _long_slice else {2: Dim("steps", min=2, max=9)}, None, None, None)
    program = compiled(model, (x, torch.tensor([1]), *torch.zeros(2, *SHAPE)), dynamic_shapes=shapes)
    assert _updates(program) == 2
    for at in (0, 6, STEPS - 9):
        ours, theirs = ([torch.ones(SHAPE) for _ in range(2)] for _ in range(2))
        torch.testing.assert_close(program(x, torch.tensor([at]), *ours), model(x, torch.tensor([at]), *theirs))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


class Otherwise(nn.Module):
    """Writes to a cache in a way that no layer has, or that a copy can be told from."""

    def __init__(self, run: Callable[[Tensor, Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.run = run

    def forward(self, cache: Tensor, x: Tensor, at: Tensor) -> Any:
        return self.run(cache, x, at)


def _any_places(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache.index_copy_(2, torch.cat([at, at + 3]), torch.cat([x, x + 1], 2))
    return cache.sum(2)


def _perhaps_negative(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache[:, :, torch.arange(2) + at] = torch.cat([x, x + 1], 2)
    return cache.sum(2)


def _returned(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache.index_copy_(2, at, x)
    return cache


def _returned_view(cache: Tensor, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    cache.index_copy_(2, at, x)
    return cache.permute(0, 2, 1, 3), cache.sum(2)


def _old_is_read(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    before = cache.sum(2)
    cache.index_copy_(2, at, x)
    return before + cache.sum(2)


def _twice(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache.index_copy_(2, at, x)
    cache.index_copy_(2, at + 1, x * 2)
    return cache.sum(2)


def _read_by_torch(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache.index_copy_(2, at, torch.tanh(x) / 2)
    return torch.erfinv(cache)


def _added(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    torch.ops.aten.index_put_.default(cache, [None, None, at], x, True)
    return cache.sum(2)


def _along_heads(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache.index_copy_(1, at * 0 + 1, x[:, :1].expand(BATCH, 1, STEPS, WIDTH))
    return cache.sum(2)


def _every_other(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
    cache[:, :, 1:6:2] = x + at
    return cache.sum(2)


OTHERS: dict[str, tuple[Callable[..., Any], str]] = {
    "any places": (_any_places, "follow one another"),
    "perhaps negative": (_perhaps_negative, "may be negative"),
    "returned": (_returned, "also returns it"),
    "old is read": (_old_is_read, "old elements are read"),
    "twice": (_twice, ""),
    "read by torch": (_read_by_torch, "reads its new elements"),
    "added": (_added, "added to what is there"),
    "along heads": (_along_heads, "along dim 1"),
    "every other": (_every_other, "so many-th"),
}


@pytest.mark.slow  # quick: a cache of other dims is no update
@each("name", OTHERS)
def test_what_is_not_proven_to_fit_is_no_update_and_agrees(name: str) -> None:
    run, why = OTHERS[name]
    model = Otherwise(run)
    given = (torch.zeros(SHAPE), torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([2]))
    program = compiled(model, given, keep=["aten.erfinv.default"])
    assert _updates(program) == 0, why
    ours, theirs = torch.ones(SHAPE), torch.ones(SHAPE)
    for at in (4, 5, 0):
        x = torch.randn(BATCH, HEADS, 1, WIDTH)
        got, wanted = program(ours, x, torch.tensor([at])), model(theirs, x, torch.tensor([at]))
        torch.testing.assert_close(got, wanted)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["returned"])  # others are in test_row_writes.py
def test_why_a_cache_is_copied_is_told(name: str) -> None:
    run, why = OTHERS[name]
    given = (torch.zeros(SHAPE), torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([2]))
    exported = torch.export.export(Otherwise(run), given)
    program = trtdiag.compile(exported, backend="reference", target="11.4", verify=False)
    notes = program.report.analysis.program.notes  # type: ignore[attr-defined]
    assert [note for note in notes if "cache is copied at each call" in note and why in note]


@each("shape", [(HEADS, STEPS, WIDTH), (1, BATCH, HEADS, STEPS, WIDTH)])
def test_a_cache_of_other_dims_is_no_update(shape: tuple[int, ...]) -> None:
    class Model(nn.Module):
        def forward(self, cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
            cache.index_copy_(cache.dim() - 2, at, x)
            return cache.sum()

    x = torch.randn(*shape[:-2], 1, WIDTH)
    program = compiled(Model(), (torch.zeros(shape), x, torch.tensor([2])))
    assert _updates(program) == 0
    cache = torch.zeros(shape)
    torch.testing.assert_close(program(cache, x, torch.tensor([4])), x.sum())
    torch.testing.assert_close(cache[..., 4:5, :], x)


def test_a_returned_view_is_no_view_of_the_buffer() -> None:
    """In place or not: what a call returned does not change with the next."""
    model = Otherwise(_returned_view)
    program = compiled(model, (torch.zeros(SHAPE), torch.ones(BATCH, HEADS, 1, WIDTH), torch.tensor([2])))
    cache = torch.zeros(SHAPE)
    first, _ = program(cache, torch.ones(BATCH, HEADS, 1, WIDTH), torch.tensor([2]))
    program(cache, torch.ones(BATCH, HEADS, 1, WIDTH), torch.tensor([3]))
    assert float(first.sum()) == BATCH * HEADS * WIDTH


def _shared(whole: Tensor) -> dict[str, tuple[tuple[Tensor, Tensor], bool]]:
    """Pairs of caches in memory of 2 * SHAPE and a row more, and whether they may both be written in place."""
    count = SHAPE[0] * SHAPE[1] * SHAPE[2] * SHAPE[3]
    halves = whole[: 2 * count].view(2, *SHAPE)
    return {
        "apart": ((halves[0], halves[1]), True),
        "one": ((halves[0], halves[0]), False),
        "overlapping": ((halves[0], whole[WIDTH : WIDTH + count].view(SHAPE)), False),
        "turned": ((halves[0], halves[1].view(BATCH, STEPS, HEADS, WIDTH).transpose(1, 2)), False),
    }


@pytest.mark.slow  # quick: what may be written, and an input that shares memory with a cache
@each("name", ["apart", "one", "overlapping", "turned"])
def test_caches_that_share_memory_are_copied_in_their_order(name: str) -> None:
    x = torch.randn(BATCH, HEADS, 1, WIDTH)
    program = compiled(GivenCaches(), (x, torch.tensor([1]), *torch.zeros(2, *SHAPE)))
    plain = program.module()
    count = 2 * BATCH * HEADS * STEPS * WIDTH + WIDTH
    memory = [torch.arange(count).float() for _ in range(2)]
    for _ in range(2):
        results = []
        for run, whole in zip((program, plain), memory, strict=True):
            pair, alone = _shared(whole)[name]
            with WholeCaches() as seen:
                results.append(run(x, torch.tensor([5]), *pair))
            if run is program:
                assert ("copy_" not in seen.ops) is alone
        torch.testing.assert_close(*results, rtol=0, atol=0)
        torch.testing.assert_close(*memory, rtol=0, atol=0)


def test_an_input_that_shares_memory_with_a_cache_is_read_before() -> None:
    program = compiled(GivenCaches(), (torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([1]), *torch.zeros(2, *SHAPE)))
    keys, values = (torch.arange(torch.Size(SHAPE).numel()).float().view(SHAPE) for _ in range(2))
    before = keys[:, :, 5:6].clone()
    program(keys[:, :, 5:6], torch.tensor([5]), keys, values)  # x is read for the second cache, too
    torch.testing.assert_close(values[:, :, 5:6], before * 2, rtol=0, atol=0)
    torch.testing.assert_close(keys[:, :, 5:6], before, rtol=0, atol=0)


def test_what_may_be_written() -> None:
    whole = torch.zeros(4, 6)
    assert may_be_written([whole[:2], whole[2:]], [torch.zeros(3), torch.zeros(0)])
    assert may_be_written([whole[:2]], [whole[2:], whole[3:]])  # those that are read may share
    assert not may_be_written([whole[:2]], [whole[1:]])
    assert not may_be_written([whole[:2], whole], [])
    assert not may_be_written([whole.t()], [])
    assert not may_be_written([whole], [whole[:, 5]])
    assert not may_be_written([whole[:2]], [torch.zeros(2, 2).to_sparse()])
    leaf = torch.zeros(3, requires_grad=True)
    assert not may_be_written([leaf], [])
    with torch.no_grad():
        assert may_be_written([leaf], [])
    with torch.inference_mode():
        never_recorded = torch.zeros(3)
        assert may_be_written([never_recorded], [])
    assert not may_be_written([never_recorded], [])


def test_a_place_outside_is_refused_and_nothing_is_written() -> None:
    program = compiled(Decoder(), step_inputs(3))
    decoded(program, Decoder(), 2)
    before = [buffer.clone() for buffer in program.state()]
    for _ in range(2):
        with pytest.raises(UserError, match="not all in the cache"):
            program(*step_inputs(STEPS))
    torch.testing.assert_close(program.state(), before, rtol=0, atol=0)


def test_a_tensor_that_autograd_keeps_is_seen_to_change() -> None:
    program = compiled(GivenCaches(), (torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([1]), *torch.zeros(2, *SHAPE)))
    keys, weight = torch.ones(SHAPE), torch.ones(SHAPE, requires_grad=True)
    kept = (keys * weight).sum()
    for at in range(2):
        program(torch.ones(BATCH, HEADS, 1, WIDTH), torch.tensor([at]), keys, torch.zeros(SHAPE))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()


def test_several_engines_with_a_cache_in_one() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.decoder = nn.Linear(HEADS * WIDTH, HEADS * WIDTH), Decoder()
            self.requires_grad_(False)

        def forward(self, x: Tensor, at: Tensor) -> Tensor:
            return self.decoder(torch.erfinv(torch.tanh(self.first(x)) / 2), at)

    model = Model()
    program = compiled(copy.deepcopy(model), step_inputs(3), keep=["aten.erfinv.default"])
    assert [len(manifest.written) for manifest in program.manifests] == [0, 2]
    with WholeCaches() as seen:
        decoded(program, model, 4)
    assert "copy_" in seen.ops or seen.ops.count("scatter_") == 8
    decoded(program, model, 4, first=4)
