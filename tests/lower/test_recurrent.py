"""Recurrent layers: unrolled where the steps are known and few, else left whole with the reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, draft_export, export

from tests.lower.agreement import assert_lowered_agrees, lowered_of, targets
from trtdiag.lower.recurrent import MOST_CELLS


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
        ("LSTM", {"num_layers": 2, "bidirectional": True}),
        ("LSTM", {"proj_size": 3}),
        ("GRU", {"bidirectional": True}),
        ("RNN", {}),
        ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
    ],
)
@pytest.mark.parametrize("steps", [1, 5])
def test_a_recurrent_layer_of_known_length_is_unrolled(kind: str, options: dict[str, Any], steps: int) -> None:
    exported = exported_of(kind, steps, **options)
    _, lowered = assert_lowered_agrees(exported, (torch.randn(3, steps, 4),), beside_torch=False)
    assert lowered.limits == ()
    assert not [name for name in targets(lowered) if name.startswith(("aten.lstm", "aten.gru", "aten.rnn"))]


@pytest.mark.parametrize(
    ("options", "limited"),
    [({}, False), ({"num_layers": 2}, True), ({"bidirectional": True}, True)],
)
def test_a_long_one_stays_whole(options: dict[str, Any], limited: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtdiag.lower.recurrent.MOST_CELLS", 7)  # the edge itself, at a length that is quick to trace
    assert MOST_CELLS > 7
    _, lowered = lowered_of(exported_of("GRU", 7, **options))
    assert ["14 times (7 time steps)" in limit.why for limit in lowered.limits] == [True] * limited
    assert ("aten.gru.input" in targets(lowered)) == limited


def test_one_of_dynamic_length_stays_whole() -> None:
    # torch refuses the range; a draft export keeps the op with its dynamic size, as a relaxed capture would.
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.LSTM(4, 6, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layers(x.reshape(3, -1, 4))[0]
            return y

    shapes = {"x": {1: Dim("columns", min=1, max=20)}}
    exported = draft_export(Late().eval(), (torch.randn(6, 10, 2),), dynamic_shapes=shapes)
    (node,) = (n for n in exported.graph.nodes if str(n.target) == "aten.lstm.input")
    if not isinstance(node.args[0].meta["val"].shape[1], torch.SymInt):
        pytest.skip("this torch makes the length static when it traces the layer")
    _, lowered = lowered_of(exported)
    assert ["time steps is dynamic" in limit.why for limit in lowered.limits] == [True]
