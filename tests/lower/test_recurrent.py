"""Recurrent layers: unrolled where the steps are known and few, else left whole with the reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from tests.harness.rows import thinned
from tests.lower.agreement import assert_lowered_agrees, lowered_of, targets
from trtdiag.frontend.capture import capture
from trtdiag.graph.recurrent import MOST_CELLS, is_recurrent_call, longest_unrolled, why_not_unrolled
from trtdiag.lower.lstm_steps import FAULT
from trtdiag.lower.metadata import check_metadata
from trtdiag.pipeline.analyze import analyze


class Recurrent(nn.Module):
    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.layers = getattr(nn, kind)(4, 6, batch_first=True, **options)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)[0]
        return y


def exported_of(kind: str, steps: int, **options: Any) -> ExportedProgram:
    torch.manual_seed(0)
    module = Recurrent(kind, **options).eval()
    return export(module, (torch.randn(3, steps, 4),), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param("LSTM", {"num_layers": 2, "bidirectional": True}, marks=pytest.mark.slow),
        ("LSTM", {"bidirectional": True}),  # quick: directions count as layers do
        pytest.param("LSTM", {"proj_size": 3}, marks=pytest.mark.slow),  # quick: the final states of one, below
        # Quick: their cells are unrolled where several count together and where a lost value is found again, below.
        pytest.param("GRU", {"bidirectional": True}, marks=pytest.mark.slow),
        pytest.param("RNN", {}, marks=pytest.mark.slow),
        pytest.param("RNN", {"nonlinearity": "relu", "num_layers": 2}, marks=pytest.mark.slow),
    ],
)
# Three have a first, an inner and a last step.
@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.slow), 3, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.slow  # quick: a lost value of a recurrent op, and tests/convert/test_time_steps.py
def test_a_recurrent_layer_of_known_length_is_unrolled(kind: str, options: dict[str, Any], steps: int) -> None:
    exported = exported_of(kind, steps, **options)
    _, lowered = assert_lowered_agrees(exported, (torch.randn(3, steps, 4),), beside_torch=False)
    assert lowered.limits == ()
    assert not [name for name in targets(lowered) if name.startswith(("aten.lstm", "aten.gru", "aten.rnn"))]


@pytest.mark.slow  # the quick run unrolls lengths that are known from the start
def test_a_length_that_turned_out_to_be_fixed_is_known() -> None:
    class Joined(Recurrent):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x * 2) + torch.arange(5.0)[:, None]  # a symbol until here, then 5

    dims = ({0: Dim("batch", min=1, max=9), 1: Dim.AUTO},)
    exported = export(Joined("GRU").eval(), (torch.randn(3, 5, 4),), dynamic_shapes=dims)
    (layer,) = [node for node in exported.graph.nodes if node.target is torch.ops.aten.gru.input]
    assert isinstance(layer.args[0].meta["val"].shape[1], torch.SymInt)
    _, lowered = assert_lowered_agrees(exported, (torch.randn(3, 5, 4),), beside_torch=False)
    assert lowered.limits == ()


# Quick: beyond the edge; at the edge in test_many_that_are_short_count_together.  Layers count as directions do.
@pytest.mark.parametrize(
    ("options", "limited"),
    [
        *(pytest.param(*row, marks=pytest.mark.slow) for row in (({}, False), ({"num_layers": 2}, True))),
        ({"bidirectional": True}, True),
    ],
)
@pytest.mark.slow  # quick: a projected state stays, tests/convert/test_time_steps.py
def test_a_long_one_stays_whole(options: dict[str, Any], limited: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtdiag.graph.recurrent.MOST_CELLS", 2)  # the edge itself, at a length that is quick to trace
    assert MOST_CELLS > 2
    _, lowered = lowered_of(exported_of("GRU", 2, **options))
    assert ["4 times (2 time steps)" in limit.why for limit in lowered.limits] == [True] * limited
    assert ("aten.gru.input" in targets(lowered)) == limited


class Several(nn.Module):
    """Layers one behind the other, of these numbers of time steps."""

    def __init__(self, lengths: tuple[int, ...]) -> None:
        super().__init__()
        self.lengths = lengths
        self.layers = nn.ModuleList(nn.GRU(4, 4, batch_first=True) for _ in lengths)

    def forward(self, x: Tensor) -> Tensor:
        for length, layer in zip(self.lengths, self.layers, strict=True):
            x = torch.cat([layer(x[:, :length])[0], x[:, length:]], 1)
        return x


# The quick run has a count at the edge, one beyond it and one cell alone.
@thinned(
    ("lengths", "left"),
    [
        ((1, 3), []),  # 4 cells, as many as may be
        ((3, 3), [3, 3]),  # none of equals before another
        ((2, 3), [3]),
        ((3, 1, 2, 1), [3]),  # the short ones fill it
        ((5, 1), [5]),
    ],
    every=9,
)
@pytest.mark.slow  # quick: those that are too many together, below
def test_many_that_are_short_count_together(
    lengths: tuple[int, ...], left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trtdiag.graph.recurrent.MOST_CELLS", 4)  # the edge itself, at lengths that are quick to trace
    graph = _several(lengths).graph
    longest = longest_unrolled(graph)
    whys = [why_not_unrolled(node, node.target, longest) for node in graph.nodes if is_recurrent_call(node)]
    assert [int(why.split(" times (")[0].split()[-1]) for why in whys if why] == left


@pytest.mark.slow  # the quick run counts them in test_many_that_are_short_count_together
def test_those_that_are_too_many_together_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtdiag.graph.recurrent.MOST_CELLS", 7)  # the edge itself, at lengths that are quick to trace
    _, lowered = assert_lowered_agrees(_several((5, 2, 3)), (torch.randn(3, 9, 4),), beside_torch=False)
    (limit,) = lowered.limits
    assert "its cell 5 times (5 time steps), it and all that are no longer more than 7 times together" in limit.why
    whole = [node for node in lowered.graph_module.graph.nodes if str(node.target) == "aten.gru.input"]
    assert len(whole) == 1


def _several(lengths: tuple[int, ...]) -> ExportedProgram:
    torch.manual_seed(0)
    module = Several(lengths).eval()
    return export(module, (torch.randn(3, 9, 4),), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))


def test_one_of_dynamic_length_stays_whole() -> None:
    # torch refuses to export one: here the dims change places, so that the dynamic one counts the steps.
    exported = exported_of("LSTM", 5)
    (node,) = (n for n in exported.graph.nodes if str(n.target) == "aten.lstm.input")
    assert why_not_unrolled(node, node.target) == ""
    node.args = (*node.args[:8], False)
    assert "time steps is dynamic (dim 0 of its input)" in why_not_unrolled(node, node.target)


@pytest.mark.parametrize(
    ("kind", "states"), [("LSTM", 2), *(pytest.param(kind, 1, marks=pytest.mark.slow) for kind in ("GRU", "RNN"))]
)
@pytest.mark.parametrize(
    "batch_first", [True, pytest.param(False, marks=pytest.mark.slow)]
)  # the same code but for an axis
def test_a_lost_value_of_a_recurrent_op_is_found_again(kind: str, states: int, batch_first: bool) -> None:
    # Their kernels refuse sizes that are symbols, so the value cannot come from running the op.
    module = getattr(nn, kind)(4, 6, num_layers=2, bidirectional=True, batch_first=batch_first).eval()
    shape, batch = ((3, 2, 4), 0) if batch_first else ((2, 3, 4), 1)
    exported = export(module, (torch.randn(shape),), dynamic_shapes=({batch: Dim("batch", min=1, max=9)},))
    (node,) = (node for node in exported.graph.nodes if str(node.target).startswith("aten.") and len(node.args) == 9)
    size = node.args[0].meta["val"].shape[batch]
    del node.meta["val"]
    checked = check_metadata(capture(exported))
    assert [(d.node, d.repaired) for d in checked.defects if d.root] == [(node.name, True)]
    (repaired,) = (other for other in checked.graph_module.graph.nodes if other.name == node.name)
    wanted = [[size, 2, 12] if batch_first else [2, size, 12]] + [[4, size, 6]] * states
    assert [list(value.shape) for value in repaired.meta["val"]] == wanted


class WithStates(nn.Module):
    """Returns the final states too, one of them after an op that reads its sizes."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layers = nn.LSTM(4, 6, batch_first=True, **options)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.layers(x)
        return y, h.transpose(0, -2), c


def states_exported(steps: int, recorded_wrong: bool, **options: Any) -> ExportedProgram:
    """The program as torch before 2.13 records it, with one axis too many in the states, or as later ones do."""
    torch.manual_seed(0)
    module = WithStates(**options).eval()
    exported = export(module, (torch.randn(3, steps, 4),), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))
    (lstm,) = (node for node in exported.graph.nodes if str(node.target) == "aten.lstm.input")
    y, *states = lstm.meta["val"]
    if recorded_wrong and states[0].dim() == 3:
        h, c = (state.unsqueeze(1) for state in states)
        values = {"getitem_1": h, "getitem_2": c, "transpose": h.transpose(0, -2)}
        lstm.meta["val"] = (y, h, c)
        for node in exported.graph.nodes:
            node.meta["val"] = values.get(node.name, node.meta.get("val"))
    return exported


@pytest.mark.slow  # quick: a recurrent layer of known length is unrolled
@pytest.mark.parametrize(
    "options", [pytest.param({"num_layers": 2, "bidirectional": True}, marks=pytest.mark.slow), {"proj_size": 3}]
)
@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("recorded_wrong", [pytest.param(False, marks=pytest.mark.slow), True])  # mended, then the same
def test_the_final_states_of_an_lstm_have_the_sizes_of_a_real_call(
    options: dict[str, Any], steps: int, recorded_wrong: bool
) -> None:
    exported = states_exported(steps, recorded_wrong, **options)
    _, lowered = assert_lowered_agrees(exported, (torch.randn(3, steps, 4),), beside_torch=False)
    assert lowered.limits == ()
    assert "aten.lstm.input" not in targets(lowered)
    (output,) = lowered.graph_module.graph.find_nodes(op="output")
    assert [len(node.meta["val"].shape) for node in output.args[0]] == [3, 3, 3]


@pytest.mark.slow  # quick: a lost value of a recurrent op is found again
def test_states_recorded_with_an_axis_too_many_are_mended_and_said_to_be_a_fault_of_torch() -> None:
    report = analyze(states_exported(5, recorded_wrong=True))
    assert report.errors == ()
    found = [finding for finding in report.findings if finding.rule == "MET102"]
    (root,) = (finding for finding in found if finding.places[0].op == "aten.lstm.input")
    assert FAULT in [evidence.fact for evidence in root.evidence]
    assert {finding.fix.title for finding in found if finding.fix} == {"export again with torch 2.13 or later"}
