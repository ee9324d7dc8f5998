"""Engines that are wrong though their networks are right: what `compile` builds in their place."""

from __future__ import annotations

import io
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram, export

import trtdiag
from tests.verification.faulty_backend import (
    Alter,
    Chain,
    Faulty,
    is_output,
    outputs_of,
    register,
    with_other_activation,
)
from trtdiag.engine.backend import get_backend
from trtdiag.errors import EngineBuildError
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline import accuracy_repair, compare
from trtdiag.pipeline.accuracy_repair import alike
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State
from trtdiag.pipeline.verify import verify_saved
from trtdiag.symbolic import Range, symbol
from trtdiag.verification.engine_search import showing
from trtdiag.verification.facts import Point
from trtdiag.verification.limits import VerifyLimits
from trtdiag.verification.run import Comparison

LENGTH, TURN = 11, 5


class Blocks(torch.nn.Module):
    """The same block again and again, each with a tanh in the same line."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.steps = torch.nn.ModuleList(torch.nn.Linear(5, 5) for _ in range(length))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            y = step(x).tanh()
            x = (x + y).cos()
        return x


@cache
def _exported(kind: type[torch.nn.Module], *arguments: int) -> tuple[ExportedProgram, torch.nn.Module]:
    torch.manual_seed(0)
    module = kind(*arguments).eval()
    return export(module, (torch.randn(3, 5),), dynamic_shapes={"x": {0: Dim("b", min=1, max=7)}}), module


def _compiled(
    patch: pytest.MonkeyPatch,
    alter: Alter,
    model: tuple[ExportedProgram, torch.nn.Module],
    **partition: object,
) -> tuple[State, Faulty, torch.nn.Module]:
    torch.manual_seed(0)
    made = register(patch, get_backend("reference"), alter)
    exported, module = model
    options = CompileOptions("8.6", "faulty", partition=PartitionOptions(**partition))  # type: ignore[arg-type]
    return compile_in_stages(exported, options), made, module


def _fused(network: Network) -> Network:
    """Each tanh is wrong whose block shows nothing: a fusion over the block."""

    def shown(node: str) -> bool:
        suffix = node.removeprefix("tanh")
        return any(is_output(network, name + suffix) for name in ("tanh", "linear", "add"))

    for node in dict.fromkeys(placed.origin.node for placed in network.layers):
        if node.startswith("tanh") and not shown(node):
            network = with_other_activation(network, node)
    return network


def _agrees(compiled: State, module: torch.nn.Module) -> None:
    for batch in (1, 2, 7):
        x = torch.randn(batch, 5)
        # Sums of five terms in another order.
        torch.testing.assert_close(compiled.compiled(x), module(x), rtol=1e-5, atol=1e-5)


def _notes(found: State) -> tuple[str, ...]:
    facts = found.report.analysis.compilation
    assert facts is not None
    assert set(facts.notes) <= set(found.report.analysis.program.notes)
    # What was built otherwise agrees: it is none of the things that were not checked.
    assert not [text for text in found.report.analysis.not_checked if "was wrong" in text and facts.notes]
    return facts.notes


def test_a_fusion_that_is_wrong_in_every_block_is_ended_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found, made, module = _compiled(monkeypatch, _fused, _exported(Blocks, 6))
    assert found.verification is not None
    assert found.verification.passed
    assert len(found.engines) == 1
    network = found.converted[0].network
    assert _fused(network) is network  # each block shows something
    assert [len(engine.manifest.outputs) for engine in found.engines] == [len(network.outputs)]
    _agrees(found, module)
    (note,) = _notes(found)
    assert "engine 0 was wrong though its network is right, and was built again with " in note
    assert " tensors inside as outputs, from aten." in note
    assert made.built[-1] is network
    told = {stage.name for stage in found.stages}
    assert "mend" in told


@pytest.mark.slow  # which points are asked again is looked at here alone
def test_other_engines_are_compared_at_least_where_the_wrong_ones_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still in the first comparison; in the next there is no time for more than one point."""
    asked: list[list[Point]] = []
    ticks = count(step=1_000_000)

    def comparison(*args: Any, again: list[Point], limits: VerifyLimits, **given: Any) -> Comparison:
        asked.append(again)
        clock = (lambda: float(next(ticks))) if len(asked) > 1 else (lambda: 0.0)
        limits = replace(limits, seconds=1e12)
        return Comparison(*args, again=again, limits=limits, clock=clock, **given)

    monkeypatch.setattr(compare, "Comparison", comparison)
    made = _compiled(monkeypatch, _fused, _exported(Blocks, 6))[0].verified
    tuned, later = asked
    assert len(tuned) == 1  # where the program is tuned for; every comparison looks there
    assert {str(point.sizes) for point in later} == {str(result.point.sizes) for result in made.results}
    assert (made.passed, made.left_out) == (True, ())


@pytest.mark.slow  # quick: what is mended, above; files of programs in tests/artifact
def test_a_mended_program_is_saved_loaded_and_exported_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, _, module = _compiled(monkeypatch, _fused, _exported(Blocks, 6))
    path = tmp_path / "mended.ep"
    trtdiag.save(found.compiled, path)
    loaded = trtdiag.load(path)
    x = torch.randn(5, 5)
    assert torch.equal(loaded(x), found.compiled(x))
    with path.open("rb") as file:
        plain = torch.export.load(io.BytesIO(file.read()))
    assert torch.equal(plain.module()(x), found.compiled(x))
    dims = {"x": {0: Dim("b", min=1, max=7)}}
    again = torch.export.export(plain.module(), (x,), dynamic_shapes=dims)
    assert torch.equal(again.module()(x), found.compiled(x))

    asked = (module, (torch.randn(3, 5),), {}, dims)
    assert verify_saved(loaded, asked).verification.passed


@pytest.mark.slow  # quick: what is mended, above; that its network is known again is looked at here alone
def test_a_mended_program_is_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outputs that it has for its own sake do not make its network another one."""
    found, made, module = _compiled(monkeypatch, _fused, _exported(Blocks, 6))
    module = deepcopy(module)  # it is changed below, and other tests have it too
    asked = (module, (torch.randn(3, 5),), {}, {"x": {0: Dim("b", min=1, max=7)}})
    checked = verify_saved(found.compiled, asked)
    assert checked.verification.passed
    facts = checked.report.analysis.compilation
    assert facts is not None
    assert [engine.ops is not None for engine in facts.engines] == [True]

    before = len(made.built)
    with torch.no_grad():
        module.steps[2].weight.mul_(2)  # type: ignore[union-attr, operator]  # it is a parameter
    assert not verify_saved(found.compiled, asked).verification.passed
    assert len(made.built) == before  # another model has other networks: nothing to look into


@pytest.mark.slow  # quick: a remedy that is refused, here
def test_an_op_that_is_wrong_by_itself_is_left_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, module = _compiled(monkeypatch, with_other_activation, _exported(Chain, LENGTH, TURN))
    assert found.verification is not None
    assert found.verification.passed
    assert [limit.code for limit in found.plan.support.limits.values()] == ["wrong-engine"]
    assert len(found.engines) == 2
    left = {entry.op: entry.limit.code for entry in found.plan.partitioned.fallback}
    assert left == {"aten.tanh.default": "wrong-engine"}
    (note,) = _notes(found)
    assert "1 op like aten.tanh.default (tanh)" in note
    assert note.endswith("is left to PyTorch")
    x = torch.randn(7, 5)
    for got, wanted in zip(found.compiled(x), module(x), strict=True):
        # Sums of five terms in another order, over 11 steps.
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_a_remedy_that_is_refused_leaves_the_comparison_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def alter(network: Network) -> Network:
        if not any(placed.origin.node == "tanh" for placed in network.layers):
            raise EngineBuildError("no engine without it", because="a test", fix="none", reference="engine-refused")
        return with_other_activation(network)

    found, _, _ = _compiled(monkeypatch, alter, _exported(Chain, LENGTH, TURN))
    assert found.verification is not None
    assert not found.verification.passed
    assert found.verification.culprit is not None
    assert found.verification.culprit.origin is not None
    assert found.verification.culprit.origin.op == "aten.tanh.default"
    assert len(found.engines) == 1
    (note,) = found.verification.notes
    assert "1 op like aten.tanh.default (tanh)" in note
    assert note.endswith("is left to PyTorch; that is refused: engine 0 (1 of 2): no engine without it (a test)")


@pytest.mark.slow  # quick: a remedy that is refused leaves the comparison as it was
def test_full_leaves_no_op_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, _ = _compiled(monkeypatch, with_other_activation, _exported(Chain, LENGTH, TURN), require_full=True)
    assert found.verification is not None
    assert not found.verification.passed
    assert found.verification.culprit is not None
    assert len(found.engines) == 1


def test_what_nothing_mends_is_told_as_it_was_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def alter(network: Network) -> Network:
        """The sum at the end is never right."""
        wrong = max(placed.outputs[0] for placed in network.layers if placed.origin.node.startswith("cos"))
        layers = tuple(
            type(p)(Activation(ActivationType.SIGMOID), p.inputs, p.outputs, p.origin) if wrong in p.outputs else p
            for p in network.layers
        )
        return type(network)(**{**vars_of(network), "layers": layers})

    found, _, _ = _compiled(monkeypatch, alter, _exported(Blocks, 3), require_full=True)
    assert found.verification is not None
    assert not found.verification.passed
    assert not found.verification.notes
    assert not _notes(found)
    assert len(found.converted[0].network.outputs) == 1


def vars_of(network: Network) -> dict[str, object]:
    names = ("inputs", "layers", "outputs", "tensors", "weights", "ranges", "given", "definitions")
    return {name: getattr(network, name) for name in names}


def test_a_right_program_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    found, made, _ = _compiled(monkeypatch, lambda network: network, _exported(Blocks, 3))
    assert len(made.built) == 1
    assert "mend" not in {stage.name for stage in found.stages}


def _repeated(blocks: int) -> Network:
    builder = NetworkBuilder({"s": Range(1, 8)})
    x = builder.input("x", DType.FLOAT32, [symbol("s"), 5])
    for block in range(blocks):
        with builder.at(Origin("aten.tanh.default", f"tanh_{block}")):
            x = builder.add_single(Activation(ActivationType.TANH), x)
    builder.output("y", x)
    return builder.build()


@pytest.mark.parametrize("blocks", [1, 3])
def test_ops_without_a_source_line_are_alike_with_themselves_alone(blocks: int) -> None:
    network = _repeated(blocks)
    first = outputs_of(network, "tanh_0")
    assert alike(network, sorted(first)) == (first if blocks > 1 else set())
    shown = showing(network, first)
    assert len(shown.outputs) == 2
    assert network.outputs == shown.outputs[:1]


@pytest.mark.slow  # quick: a fusion that is wrong in every block is ended in all
def test_more_blocks_than_are_shown_show_those_alone_that_were_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy_repair, "MOST_SHOWN", 4)  # the edge itself, with blocks that are quick to compile
    found, _, _ = _compiled(monkeypatch, lambda network: network, _exported(Blocks, 5))
    network = found.converted[0].network
    (first,) = outputs_of(network, "tanh")
    assert alike(network, [first]) == {first}
    found, _, _ = _compiled(monkeypatch, lambda network: network, _exported(Blocks, 4))
    network = found.converted[0].network
    (first,) = outputs_of(network, "tanh")
    assert len(alike(network, [first])) == 4
