"""Which op an engine computes wrongly whose network is right: with backends that build something else."""

from __future__ import annotations

import re
from functools import cache

import pytest
import torch
from torch.export import Dim, ExportedProgram, export

from tests.verification.faulty_backend import Alter, Chain, Faulty, is_output, register, with_other_activation
from trtdiag.engine.backend import get_backend
from trtdiag.errors import EngineBuildError
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.reduce import TopK, TopKOperation
from trtdiag.network.layers.squeeze import Shape
from trtdiag.options import CompileOptions
from trtdiag.pipeline import accuracy_repair
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State
from trtdiag.pipeline.verify import verify_saved
from trtdiag.report.compile_words import culprit_line
from trtdiag.symbolic import Range, symbol
from trtdiag.verification.engine_search import MOST_BUILDS, MOST_TAPS, made_of_data, spread
from trtdiag.verification.facts import Culprit

LENGTH = 17
TURN = 7


@pytest.fixture(autouse=True)
def _not_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search finds is looked at here, not what is done about it."""
    monkeypatch.setattr(accuracy_repair, "MOST_MENDINGS", 0)


@cache
def _exported(turn: int) -> ExportedProgram:
    torch.manual_seed(0)
    model = Chain(LENGTH, turn).eval()
    return export(model, (torch.randn(3, 5),), dynamic_shapes={"x": {0: Dim("b", min=1, max=7)}})


def _compiled(patch: pytest.MonkeyPatch, alter: Alter, turn: int = TURN) -> tuple[State, Faulty]:
    exported = _exported(turn)
    torch.manual_seed(0)
    made = register(patch, get_backend("reference"), alter)
    return compile_in_stages(exported, CompileOptions("8.6", "faulty")), made


def _culprit(found: State) -> Culprit:
    assert found.verification is not None
    assert not found.verification.passed
    assert found.verification.culprit is not None
    return found.verification.culprit


@pytest.mark.slow  # quick: a fault of a fusion is told by the last range that shows it
@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.slow) for turn in (TURN, LENGTH - 1))])
def test_the_op_is_found_in_few_builds(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found, made = _compiled(monkeypatch, with_other_activation, turn)
    culprit = _culprit(found)
    assert culprit.origin is not None
    assert culprit.origin.op == "aten.tanh.default"
    assert culprit.origin.frame is not None
    assert culprit.origin.frame.code.strip() == "y = y.tanh()"
    assert (culprit.layer, culprit.since) == ("Activation", None)
    assert culprit.note == "every layer of its network is right: the engine is not"
    assert culprit.max_abs > 0.01
    assert 2 <= len(made.built) <= 4  # the engine itself, and to look inside
    line = culprit_line(culprit, {})
    assert "aten.tanh.default (tanh)" in line
    assert ": every layer of its network is right: the engine is not; build another with --optimization-level 0" in line


@pytest.mark.slow  # quick: a right program is not touched, in tests/compiling/test_mending.py
def test_a_right_engine_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, made = _compiled(monkeypatch, lambda network: network)
    assert found.verification is not None
    assert found.verification.passed
    assert len(made.built) == 1


@pytest.mark.slow  # the quick run verifies saved programs in test_verify_run.py
def test_a_saved_program_is_searched_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    found, made = _compiled(monkeypatch, with_other_activation)
    before = len(made.built)
    torch.manual_seed(0)
    asked = (Chain(LENGTH, TURN).eval(), (torch.randn(3, 5),), {}, {"x": {0: Dim("b", min=1, max=7)}})
    culprit = verify_saved(found.compiled, asked).verification.culprit
    assert culprit is not None
    assert culprit.origin is not None
    assert culprit.origin.op == "aten.tanh.default"
    assert len(made.built) > before


def test_a_fault_of_a_fusion_is_told_by_the_last_range_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault needs tanh and the product before it in one kernel: as soon as the product is an output it is gone."""

    def alter(network: Network) -> Network:
        fused = not is_output(network, "tanh") and not is_output(network, f"linear_{TURN}")
        return with_other_activation(network) if fused else network

    found, made = _compiled(monkeypatch, alter)
    culprit = _culprit(found)
    assert culprit.origin is not None
    assert culprit.origin.node == f"add_{TURN}"  # the first that shows it
    assert culprit.since is not None
    assert culprit.since.node == f"add_{TURN - 1}"
    assert "the fusion is at fault, or hides it" in culprit.note
    assert len(made.built) <= 1 + MOST_BUILDS
    assert f"after aten.add.Tensor (add_{TURN - 1})" in culprit_line(culprit, {})
    assert culprit_line(culprit, {}).endswith("--optimization-level 0, or leave the op to PyTorch with --keep-in-torch")


@pytest.mark.slow  # quick: the last range that shows a fault
def test_an_op_whose_output_ends_the_fault_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the one to keep in PyTorch, without it the advice would name none; the fault is left with its engine."""

    def alter(network: Network) -> Network:
        return with_other_activation(network) if len(network.outputs) == 2 else network

    found, made = _compiled(monkeypatch, alter)
    culprit = _culprit(found)
    assert (culprit.origin, culprit.since) == (None, None)
    assert culprit.layer == "every layer of its network is right: the engine is not"
    assert "changes what TensorRT fuses" in culprit.note or "engines were built" in culprit.note
    assert 3 <= len(made.built) <= 1 + MOST_BUILDS
    told = r"it goes with the output of (aten\.\S+) \((\w+)\) at .* shown: an op to keep in PyTorch"
    named = re.search(told, culprit.note)
    assert named is not None, culprit.note
    ops = {placed.origin.node: placed.origin.op for one in found.converted for placed in one.network.layers}
    assert ops[named[2]] == named[1]


def test_a_backend_that_refuses_to_show_its_inside_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def alter(network: Network) -> Network:
        if len(network.outputs) > 2:
            raise EngineBuildError("no such output", because="a test", fix="none", reference="engine-refused")
        return with_other_activation(network)

    found, _ = _compiled(monkeypatch, alter)
    culprit = _culprit(found)
    assert culprit.origin is None
    assert culprit.note == "an engine that shows what is between them cannot be made: no such output"


@pytest.mark.slow  # the quick run has a backend that refuses to show its inside
def test_a_build_that_is_refused_for_many_outputs_is_tried_with_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    def alter(network: Network) -> Network:
        if len(network.outputs) > 2 + MOST_TAPS // 2:
            raise EngineBuildError("too many outputs", because="a test", fix="none", reference="engine-refused")
        return with_other_activation(network)

    culprit = _culprit(_compiled(monkeypatch, alter)[0])
    assert culprit.origin is not None
    assert culprit.origin.op == "aten.tanh.default"


@pytest.mark.slow  # quick: an op whose output ends the fault is named
def test_a_right_output_clears_what_it_is_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = _compiled(monkeypatch, with_other_activation)
    own = made.built[0]
    outputs = {port.tensor for port in own.outputs}
    inside = {port.tensor for network in made.built[1:] for port in network.outputs} - outputs
    makers = {number: placed for placed in own.layers for number in placed.outputs}
    waiting, before = [port.tensor for port in own.outputs if makers[port.tensor].origin.node == "cos"], set()
    while waiting:
        number = waiting.pop()
        before.add(number)
        waiting += [n for n in makers[number].inputs if n in makers] if number in makers else []
    assert len(before) > TURN
    assert inside
    assert not inside & before


class Hides(torch.nn.Module):
    """What follows the tanh hides what it gives, but for its way to the end."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.cos().tanh()
        z = torch.sign(y + 2)
        for step in range(LENGTH):
            z = (z + step).sin()
        return z + y


@pytest.mark.slow  # quick: an op whose output ends the fault is named
def test_right_tensors_that_hide_a_fault_do_not_clear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = register(monkeypatch, get_backend("reference"), with_other_activation)
    asked = (Hides().eval(), (torch.randn(3, 5),), {}, {"x": {0: Dim("b", min=1, max=7)}})
    culprit = _culprit(compile_in_stages(asked, CompileOptions("8.6", "faulty")))
    assert culprit.origin is not None
    assert culprit.origin.op == "aten.tanh.default"
    assert culprit.note == "every layer of its network is right: the engine is not"
    assert len(made.built) <= 1 + MOST_BUILDS


@pytest.mark.parametrize(("length", "most"), [(0, 4), (1, 4), (4, 4), (5, 4), (97, 16), (1000, 1)])
def test_taps_lie_inside_in_order(length: int, most: int) -> None:
    taps = spread(range(length), most)
    assert len(taps) == min(length, most)
    assert taps == sorted(set(taps))
    gaps = [b - a for a, b in zip([-1, *taps], [*taps, length], strict=True)]
    assert max(gaps) <= length // (most + 1) + 2


def test_what_sizes_alone_decide_is_no_suspect() -> None:
    builder = NetworkBuilder({"s": Range(1, 8)})
    with builder.at(Origin("aten.test.default", "test")):
        x = builder.input("x", DType.FLOAT32, [symbol("s"), 5])
        n = builder.input("n", DType.INT64, [], [symbol("s")])
        sizes = builder.add_single(Shape(), x)
        twice = builder.add_single(ElementWise(ElementWiseOperation.SUM), sizes, sizes)
        moved = builder.add_single(ElementWise(ElementWiseOperation.SUM), n, n)
        top, where = builder.add(TopK(TopKOperation.MAX, 2, 1), x)
        for name, value in (("twice", twice), ("moved", moved), ("top", top), ("where", where)):
            builder.output(name, value)
    network = builder.build()
    found = made_of_data(network)
    assert {port.name for port in network.outputs if port.tensor in found} == {"top", "where"}
    assert network.inputs[0].tensor in found
    assert network.inputs[1].tensor not in found
