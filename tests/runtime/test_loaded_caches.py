"""Programs that ``torch.export.load`` runs: engines write caches in the memory of the program or of who calls it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import trtdiag
from tests.harness.forked_runs import run_forked
from tests.runtime.cache_models import (
    BATCH,
    HEADS,
    SHAPE,
    WIDTH,
    Decoder,
    GivenCaches,
    WholeCaches,
    decoded,
    step_inputs,
)
from trtdiag.errors import ArtifactError, ShapeOutOfRangeError
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.custom_op import EXECUTE_ENGINE, WRITE_CACHES

STEP = (torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([1]))


def loaded(model: nn.Module, given: tuple[Tensor, ...], folder: Path) -> tuple[Any, CompiledProgram]:
    """A compiled program that has KVCacheUpdate, by torch's reader and by ours."""
    program = trtdiag.compile(torch.export.export(copy.deepcopy(model), given), backend="reference", target="11.4")
    trtdiag.save(program, folder / "caches.pt2")
    return torch.export.load(folder / "caches.pt2"), trtdiag.load(folder / "caches.pt2")


def calls(exported: torch.export.ExportedProgram, op: Any) -> int:
    return len(exported.graph.find_nodes(op="call_function", target=op))


def in_engine(event: Any) -> bool:
    """Whether an op of a profile ran within an engine."""
    while event is not None and event.name != "trtdiag::write_caches":
        event = event.cpu_parent
    return event is not None


@pytest.mark.slow  # quick: test_caches_in_place.py
def test_a_step_copies_no_cache_and_the_buffers_stay_where_they_are(tmp_path: Path) -> None:
    model = Decoder()
    exported, ours = loaded(model, step_inputs(3), tmp_path)
    assert (calls(exported, WRITE_CACHES), calls(exported, EXECUTE_ENGINE)) == (1, 0)
    # In memory the call changes nothing: all that reads programs knows that one op.
    assert (calls(ours.exported_program, WRITE_CACHES), calls(ours.exported_program, EXECUTE_ENGINE)) == (0, 1)
    run = exported.module()
    places = [buffer.data_ptr() for buffer in (run.keys, run.values)]
    for at in range(5):
        given = step_inputs(at)
        before = run.keys._version
        with WholeCaches() as seen:
            result = run(*given)
        assert seen.ops == ["copy_", "copy_"]  # each into itself, as torch closes a program that writes to buffers
        assert run.keys._version > before
        torch.testing.assert_close(result, model(*given))
    assert [buffer.data_ptr() for buffer in (run.keys, run.values)] == places
    for name, buffer in model.named_buffers():
        torch.testing.assert_close(dict(run.named_buffers())[name], buffer)
    decoded(ours, Decoder(), 3)


@pytest.mark.slow  # quick: a step copies no cache
def test_the_profiler_sees_no_copy_of_a_cache(tmp_path: Path) -> None:
    run = loaded(Decoder(), step_inputs(3), tmp_path)[0].module()
    run(*step_inputs(0))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        run(*step_inputs(1))
    outside = [event for event in profiled.events() if event.name.startswith("aten::") and not in_engine(event)]
    whole = [event.name for event in outside if list(SHAPE) in event.input_shapes]
    assert whole == ["aten::copy_", "aten::copy_"]  # into themselves: the test below


def test_a_copy_into_itself_writes_nothing(tmp_path: Path) -> None:
    made = "torch.frombuffer(mmap.mmap(-1, 1 << 16, prot=mmap.PROT_READ), dtype=torch.float32)"
    given = f"import mmap, warnings, torch; warnings.simplefilter('ignore'); cache = {made}"
    assert run_forked(f"{given}; cache.copy_(cache)", cwd=tmp_path).returncode == 0
    assert run_forked(f"{given}; cache.copy_(torch.ones(1 << 14))", cwd=tmp_path).returncode < 0  # a fault of memory


def test_caches_that_are_given_are_written_where_they_are(tmp_path: Path) -> None:
    exported, _ = loaded(GivenCaches(), (*STEP, *torch.zeros(2, *SHAPE)), tmp_path)
    assert calls(exported, WRITE_CACHES) == 1
    run, model = exported.module(), GivenCaches()
    ours = list(torch.randn(2, *SHAPE))
    theirs = [cache.clone() for cache in ours]
    for at in range(3):
        given = (torch.randn(BATCH, HEADS, 1, WIDTH), torch.tensor([at]))
        with WholeCaches() as seen:
            result = run(*given, *ours)
        assert "clone" not in seen.ops
        torch.testing.assert_close(result, model(*given, *theirs))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("how", ["one tensor twice", "not row-major", "beside its input"])
def test_caches_that_cannot_be_written_in_place_are_copied(how: str, tmp_path: Path) -> None:
    exported, ours = loaded(GivenCaches(), (*STEP, *torch.zeros(2, *SHAPE)), tmp_path)
    memory = torch.randn(2, *SHAPE)

    def given(memory: Tensor) -> tuple[Tensor, ...]:
        x, at = torch.ones(BATCH, HEADS, 1, WIDTH), torch.tensor([2])
        if how == "one tensor twice":
            return x, at, memory[0], memory[0]
        if how == "not row-major":
            return x, at, memory[0].transpose(0, 1).contiguous().transpose(0, 1), memory[1]
        return memory[0, :, :, :1], at, memory[0], memory[1]

    mine, theirs = given(memory.clone()), given(memory.clone())
    torch.testing.assert_close(exported.module()(*mine), ours(*theirs), rtol=0, atol=0)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


class ReadsBehind(nn.Module):
    """What is left to PyTorch behind the engine reads an input: it may lie in the memory of a cache."""

    def forward(self, x: Tensor, at: Tensor, cache: Tensor, y: Tensor) -> Tensor:
        cache.index_copy_(2, at, x)
        return torch.linalg.eigvalsh((cache.sum((0, 1)).T @ cache.sum((0, 1))) + y)


def test_an_input_that_is_read_behind_the_engine_keeps_the_call_without_writes(tmp_path: Path) -> None:
    given = (*STEP, torch.zeros(SHAPE), torch.randn(WIDTH, WIDTH))
    program = trtdiag.compile(
        torch.export.export(ReadsBehind(), given), backend="reference", target="11.4", min_segment_ops=0,
        keep_in_torch=["aten.add"],
    )  # fmt: skip
    trtdiag.save(program, tmp_path / "caches.pt2")
    exported = torch.export.load(tmp_path / "caches.pt2")
    assert calls(exported, WRITE_CACHES) == 0
    shared = torch.zeros(SHAPE)
    result = exported.module()(*STEP, shared, shared[0, 0, :WIDTH])
    other = torch.zeros(SHAPE)
    torch.testing.assert_close(result, ReadsBehind()(*STEP, other, torch.zeros(WIDTH, WIDTH)))


@pytest.mark.slow  # quick: saved and exported programs go on as the model, in test_cached_programs.py
def test_a_loaded_program_is_exported_and_saved_again(tmp_path: Path) -> None:
    model = Decoder()
    exported, _ = loaded(model, step_inputs(3), tmp_path)
    again = torch.export.export(exported.module(), step_inputs(3)).run_decompositions()
    torch.export.save(again, tmp_path / "again.pt2")
    decoded(torch.export.load(tmp_path / "again.pt2").module(), model, 4)


def test_a_file_with_calls_that_write_is_analyzed(tmp_path: Path) -> None:
    loaded(Decoder(), step_inputs(3), tmp_path)
    assert not trtdiag.analyze(tmp_path / "caches.pt2", target="11.4").errors


def test_wrong_calls_are_refused(tmp_path: Path) -> None:
    exported, _ = loaded(Decoder(), step_inputs(3), tmp_path)
    (call,) = exported.graph.find_nodes(op="call_function", target=WRITE_CACHES)
    engine, text = exported.state_dict["trtdiag_engine_0"], call.args[3]
    x, at = step_inputs(3)
    caches = list(torch.zeros(2, *SHAPE))
    with pytest.raises(ArtifactError, match="other caches"):
        WRITE_CACHES([x, at], caches[:1], engine, text)
    with pytest.raises(ShapeOutOfRangeError):
        WRITE_CACHES([x[:, :0], at], caches, engine, text)
