"""Aliases by schema, held against what PyTorch really does with the memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sympy
import torch
from torch import nn
from torch.export import export
from torch.fx import Interpreter
from torch.utils._sympy.functions import FloorDiv

from trtdiag.graph import aliases
from trtdiag.graph.aliases import alias_base
from trtdiag.graph.inputs import storage_key


class Views(nn.Module):
    def forward(self, x):
        turned = x.transpose(0, 1)
        flat = turned.reshape(-1)  # copies: not row-major
        rows = x.reshape(2, -1)  # a view
        parts = x.split(2, dim=1)
        first, *_ = x.unbind(0)
        same, other = x.to(torch.float32), x.to(torch.float16)
        added = x.clone().add_(1)
        values, order = x.sort()
        return (
            flat, rows, parts[0], first, same, other, added, values, order, turned.contiguous(), x.contiguous(),
            x.view(-1), x.expand(2, 4, 6), x[1:, ::2], x.unsqueeze(0), x.detach(), x + 0, x.flatten(), turned.flatten(),
            x[..., -1].flatten(), x[..., 0].reshape(2, 2), x[:, :4].reshape(4, 2, 2), turned.reshape(3, 2, 4),
            x[:, :4].reshape(8, 2), turned.unflatten(0, (2, 3)), x[..., 1].ravel(), x[..., 1].reshape_as(x[..., 2]),
            x.type_as(other), x.type_as(x), torch.atleast_1d(x), torch.atleast_3d(x), x.sum_to_size(4, 6),
            x.sum_to_size(1, 6), x.to(torch.float32, copy=True), x[None, None].to(memory_format=torch.channels_last),
            x[None].expand(2, 4, 6)[None].contiguous(memory_format=torch.channels_last), x[:, ::2].to(torch.float32),
            x[None, None, :, ::2].to(memory_format=torch.channels_last), torch.dropout(x, 0.0, True),
            torch.unsafe_chunk(x, 2)[1], torch.unsafe_split(x, 3, 1)[0], torch.conj_physical(x),
            x.mean().sum_to_size(()),
            torch.conj_physical(x * 1j).real, torch.feature_alpha_dropout(x, 0.0, True), torch.dropout(x, 0.5, False),
            x[None, :, :, None].contiguous(memory_format=torch.channels_last),
        )  # fmt: skip


class Recorder(Interpreter):
    def __init__(self, module):
        super().__init__(module)
        self.seen = {}

    def run_node(self, n):
        self.seen[n] = super().run_node(n)
        return self.seen[n]


@pytest.mark.parametrize(
    "loaded", [pytest.param(False, marks=pytest.mark.slow), True], ids=["live", "saved and loaded"]
)
def test_every_view_shares_memory_and_every_copy_does_not(loaded, tmp_path):
    exported = export(Views(), (torch.randn(4, 6),))
    if loaded:
        torch.export.save(exported, tmp_path / "views.pt2")
        exported = torch.export.load(tmp_path / "views.pt2")
    recorder = Recorder(exported.graph_module)
    recorder.run(torch.randn(4, 6))
    checked = 0
    for node, value in recorder.seen.items():
        if node.op != "call_function" or not isinstance(value, torch.Tensor):
            continue
        base = alias_base(node)
        while base is not None and not isinstance(recorder.seen[base], torch.Tensor):
            held = [storage_key(item) for item in recorder.seen[base]]
            assert storage_key(value) in held
            base = alias_base(base)
        inputs = [recorder.seen[source] for source in node.all_input_nodes]
        before = {storage_key(source) for source in inputs if isinstance(source, torch.Tensor)}
        shares = storage_key(value) in before or base is not None
        assert (base is not None) == shares, node.name
        if base is not None:
            assert storage_key(recorder.seen[base]) == storage_key(value), node.name
        checked += 1
    assert checked >= 20


def test_shared_weights_have_one_storage():
    weight = torch.zeros(3, 4)
    assert storage_key(weight) == storage_key(weight.view(-1)) == storage_key(weight[1:])
    assert storage_key(weight) != storage_key(weight.clone())


def test_sizes_that_divide_by_a_size_of_0_are_not_known() -> None:
    """As BigBird's blocks of 64 tokens of a sequence of 1: it ended in a traceback."""
    tokens = sympy.Symbol("tokens", integer=True, positive=True)
    size: Any = SimpleNamespace(node=SimpleNamespace(expr=FloorDiv(tokens + 63, FloorDiv(tokens, 64))))
    assert aliases._numbers([[size, 7]], (1,)) is None
    assert aliases._numbers([[size, 7]], (128,)) == ((95, 7),)
