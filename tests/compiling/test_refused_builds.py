"""Engines that TensorRT finds no kernels for: what `compile` builds in their place, and what it says of it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch.export import Dim, ExportedProgram, export

import trtdiag
from tests.verification.faulty_backend import Faulty, is_output, outputs_of, register
from trtdiag.engine.backend import get_backend
from trtdiag.errors import EngineBuildError
from trtdiag.network import Network
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline import build_fallback
from trtdiag.pipeline.build_fallback import first_refused
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State
from trtdiag.pipeline.verify import verify_saved
from trtdiag.report.compile_text import engines_text
from trtdiag.report.shown_paths import short_paths
from trtdiag.verification.engine_search import made_of_data

BLOCKS = 5
Refuses = Callable[[Network], tuple[str, ...]]
"""The nodes that an engine of a network is refused for; none: it is built."""


class Parallel(torch.nn.Module):
    """Blocks whose two branches meet in a sum, as in Phi-2."""

    def __init__(self, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.left = torch.nn.ModuleList(torch.nn.Linear(5, 5) for _ in range(blocks))
        self.right = torch.nn.ModuleList(torch.nn.Linear(5, 5) for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for left, right in zip(self.left, self.right, strict=True):
            x = x + (left(x).sin() * right(x).tanh()).cos()
        return x


def _refusal(nodes: tuple[str, ...], message: str = "TensorRT does not build the engine") -> EngineBuildError:
    error = EngineBuildError(message, because="a test", fix="none", reference="engine-refused")
    error.without_kernel = nodes
    return error


def _of(network: Network, prefix: str) -> list[str]:
    nodes = dict.fromkeys(placed.origin.node for placed in network.layers)
    return [node for node in nodes if node.startswith(prefix)]


def _ends(network: Network) -> tuple[str, ...]:
    return network.layers[0].origin.node, network.layers[-1].origin.node


def _fused(network: Network) -> tuple[str, ...]:
    """A product of two tensors is refused unless one that enters it is an output: a fusion over all of it."""
    for node in _of(network, "mul"):
        suffix = node.removeprefix("mul")
        if not is_output(network, "sin" + suffix) and not is_output(network, "tanh" + suffix):
            return _ends(network)
    return ()


def _tanh(network: Network) -> tuple[str, ...]:
    return _ends(network) if _of(network, "tanh") else ()


@cache
def _parallel() -> tuple[ExportedProgram, torch.nn.Module]:
    torch.manual_seed(0)
    return _exported(Parallel().eval())


def _exported(module: torch.nn.Module) -> tuple[ExportedProgram, torch.nn.Module]:
    return export(module, (torch.randn(3, 5),), dynamic_shapes={"x": {0: Dim("b", min=1, max=7)}}), module


def _compiled(
    patch: pytest.MonkeyPatch, refuses: Refuses, module: torch.nn.Module | None = None, **changes: Any
) -> tuple[State, Faulty, torch.nn.Module]:
    torch.manual_seed(0)
    exported, module = _exported(module.eval()) if module else _parallel()

    def alter(network: Network) -> Network:
        nodes = refuses(network)
        if nodes:
            raise _refusal(nodes)
        return network

    made = register(patch, get_backend("reference"), alter)
    patch.setattr("tests.compiling.test_refused_builds.MADE", [made])
    return compile_in_stages(exported, CompileOptions("8.6", "faulty", **changes)), made, module


MADE: list[Faulty] = []


def _agrees(found: State, module: torch.nn.Module) -> None:
    assert found.verification is not None
    assert found.verification.passed
    for batch in (1, 2, 7):
        x = torch.randn(batch, 5)
        # Sums of five terms in another order, over a few blocks.
        torch.testing.assert_close(found.compiled(x), module(x), rtol=1e-5, atol=1e-5)


@pytest.mark.slow  # quick: it is said, saved and known again, below
def test_what_enters_the_op_becomes_an_output_in_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    found, made, module = _compiled(monkeypatch, _fused)
    _agrees(found, module)
    assert len(found.engines) == 1
    assert not found.plan.support.limits
    network = found.converted[0].network
    sines = {number for node in _of(network, "sin") for number in outputs_of(network, node)}
    assert {port.tensor for port in network.outputs[1:]} == sines  # one of the two suffices, and one is shown
    assert len(sines) == BLOCKS
    assert len(found.engines[0].manifest.outputs) == BLOCKS + 1
    # The whole, parts that halve up to 6 x 5 ops, the part with what enters it, the whole again.
    assert 3 < len(made.built) < 10
    (note,) = [note for note in found.report.analysis.program.notes if "refused" in note]
    assert note.startswith("engine 0 was refused, since TensorRT finds no kernels from aten.mul.Tensor (mul) at ")
    assert f"it was built with {BLOCKS} tensors inside as outputs, of what enters that op and its like" in note


@pytest.mark.slow  # quick: the page and the terminal say it
def test_such_a_program_is_saved_and_known_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, _, module = _compiled(monkeypatch, _fused)
    path = tmp_path / "yielding.ep"
    trtdiag.save(found.compiled, path)
    loaded = trtdiag.load(path)
    x = torch.randn(7, 5)
    assert torch.equal(loaded(x), found.compiled(x))
    asked = (module, (torch.randn(3, 5),), {}, {"x": {0: Dim("b", min=1, max=7)}})
    checked = verify_saved(loaded, asked)
    assert checked.verification.passed
    facts = checked.report.analysis.compilation
    assert facts is not None
    assert [engine.ops is not None for engine in facts.engines] == [True]


def test_an_op_that_is_refused_anyhow_is_left_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, module = _compiled(monkeypatch, _tanh, verify=False)
    assert found.verification is None
    left = {entry.op: entry.limit.code for entry in found.plan.partitioned.fallback if entry.computes}
    assert left["aten.tanh.default"] == "engine-refused"
    assert len([limit for limit in found.plan.support.limits.values() if limit.code == "engine-refused"]) == BLOCKS
    (note,) = [note for note in found.report.analysis.program.notes if "refused" in note]
    assert note.endswith(
        f"(tanh) at {note.split(' at ')[1].split(' on:')[0]} on: {BLOCKS} ops like it are left to PyTorch"
    )
    assert found.report.analysis.partition is not None
    assert found.report.analysis.partition.partitioned is found.plan.partitioned
    x = torch.randn(7, 5)
    # Sums of five terms in another order, over a few blocks.
    torch.testing.assert_close(found.compiled(x), module(x), rtol=1e-5, atol=1e-5)


@pytest.mark.slow  # quick: an op that is refused anyhow, above
def test_a_single_layer_that_is_named_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(network: Network) -> tuple[str, ...]:
        return tuple(_of(network, "tanh")[:1])

    found, made, module = _compiled(monkeypatch, refuses)
    _agrees(found, module)
    whole, *parts = [len(network.layers) for network in made.built]
    assert parts[0] < whole  # up to that op, with what enters it as an output
    assert len(made.built) == 2 + len(found.engines)


def test_full_leaves_no_op_to_pytorch_and_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineBuildError) as caught:
        _compiled(monkeypatch, _tanh, partition=PartitionOptions(require_full=True))
    assert caught.value.because == "a test"
    assert _compiled(monkeypatch, _fused, partition=PartitionOptions(require_full=True))[0].compiled is not None

    def twice(network: Network) -> tuple[str, ...]:
        return _fused(network) or (_ends(network) if len(_of(network, "cos")) == BLOCKS else ())

    with pytest.raises(EngineBuildError) as caught:
        _compiled(monkeypatch, twice, partition=PartitionOptions(require_full=True))
    assert caught.value.because.startswith("a test; tried: engine 0 was refused, since")
    assert caught.value.reference == "engine-refused"


def test_a_refusal_for_another_reason_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def alter(network: Network) -> Network:
        raise _refusal((), "TensorRT does not build the engine: no memory")

    torch.manual_seed(0)
    made = register(monkeypatch, get_backend("reference"), alter)
    asked = (Parallel().eval(), (torch.randn(3, 5),), {}, {"x": {0: Dim("b", min=1, max=7)}})
    with pytest.raises(EngineBuildError) as caught:
        compile_in_stages(asked, CompileOptions("8.6", "faulty"))
    assert caught.value.message.endswith("no memory")
    assert len(made.built) == 1


@pytest.mark.slow  # quick: a refusal for another reason is told at once, above
def test_parts_that_are_refused_for_another_reason_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: list[int] = []

    def alter(network: Network) -> Network:
        whole.append(len(network.layers))
        raise _refusal(_ends(network) if len(network.layers) == whole[0] else ())

    register(monkeypatch, get_backend("reference"), alter)
    asked = (Parallel().eval(), (torch.randn(3, 5),), {}, {"x": {0: Dim("b", min=1, max=7)}})
    with pytest.raises(EngineBuildError) as caught:
        compile_in_stages(asked, CompileOptions("8.6", "faulty"))
    assert caught.value.because == "a test"
    assert len(whole) == 2


def test_it_ends_where_everything_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_fallback, "MOST_REMEDIES", 1)
    with pytest.raises(EngineBuildError) as caught:
        _compiled(monkeypatch, _ends)
    assert caught.value.because.startswith("a test; tried: engine 0 was refused, since TensorRT finds no kernels from ")
    assert caught.value.because.endswith(f"{2 * BLOCKS} ops like it are left to PyTorch")


@pytest.mark.slow  # quick: where everything is refused
def test_the_like_in_other_engines_is_left_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(network: Network) -> tuple[str, ...]:
        return _ends(network) if _of(network, "linear") or _of(network, "sin") else ()

    found, _, module = _compiled(monkeypatch, refuses, partition=PartitionOptions(min_segment_ops=1))
    _agrees(found, module)
    facts = found.report.analysis.compilation
    assert facts is not None
    first, second = facts.notes
    assert "(linear) at " in first
    assert first.endswith(f" on: {2 * BLOCKS} ops like it are left to PyTorch")
    assert "(sin) at " in second  # each block is an engine of its own by then
    assert second.endswith(f" on: {BLOCKS} ops like it are left to PyTorch")


def test_the_page_and_the_terminal_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, _ = _compiled(monkeypatch, _fused)
    (note,) = found.report.analysis.program.notes
    assert "Engine 0 was refused, since TensorRT finds no kernels from aten.mul.Tensor (mul)" in found.report.to_html()
    told = short_paths(note)
    assert told in json.loads(found.report.to_json())["program"]["notes"]
    console = Console(width=2000, record=True, file=io.StringIO())
    console.print(engines_text(found.plan, found.converted, found.engines, (note,)))
    assert f"note: {told}" in console.export_text()


@pytest.mark.slow  # quick: the like in other engines, above
def test_the_engine_that_is_refused_is_the_one_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Split(torch.nn.Module):
        """Two engines with an op between them that PyTorch computes."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(5, 5), Parallel(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.second(torch.exp(self.first(x).sigmoid()).sin().cos())
            return y

    found, _, module = _compiled(
        monkeypatch,
        _fused,
        Split(),
        partition=PartitionOptions(keep_in_torch=("aten.exp.default",), min_segment_ops=1),
    )
    _agrees(found, module)
    assert [len(one.network.outputs) for one in found.converted] == [1, 3]
    (note,) = [note for note in found.report.analysis.program.notes if "refused" in note]
    assert note.startswith("engine 1 was refused")


# Quick: one between the ends.
@pytest.mark.parametrize("at", [8, *(pytest.param(at, marks=pytest.mark.slow) for at in (1, 2, 34, 35))])
def test_the_first_op_with_which_it_is_refused(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, _ = _compiled(monkeypatch, lambda _network: ())
    network = found.converted[0].network
    nodes = list(dict.fromkeys(placed.origin.node for placed in network.layers))
    assert len(nodes) == 36
    asked: list[Network] = []

    def refuses(part: Network) -> bool:
        asked.append(part)
        return any(placed.origin.node == nodes[at] for placed in part.layers)

    count = first_refused(network, refuses, made_of_data(network))
    assert network.layers[count - 1].origin.node == nodes[at]
    assert count == len(network.layers) or network.layers[count].origin.node != nodes[at]
    assert len(asked) <= 6  # 2**6 are more than 36
    for part in asked:  # each is a network of its own
        x = torch.randn(2, 5)
        given = trtdiag.network.run(part, [x])
        assert len(given) == len(part.outputs) > 0
