"""Exported programs of thousands of ops, in seconds: a small one is exported, and its graph laid end to end.

torch.export takes 7 s for 1,000 ops.  What stands here is an exported program like any other: named parameters, module
paths, source lines, dynamic sizes, sizes computed from them, and every so often an op that no engine takes.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

_PERIOD = 14


class Feed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)) * 2 + 1)


class Mixer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.norm(x)).unflatten(-1, (2, -1))
        return y.transpose(1, 2).softmax(-1).transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)


class Block(nn.Module):
    """As a layer of a transformer: two halves with what each adds, and in some a scan that no engine takes."""

    def __init__(self, width: int, *, scans: bool) -> None:
        super().__init__()
        self.mixer = Mixer(width)
        self.feed = Feed(width)
        self.scans = scans

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mixer(x)
        if self.scans:
            x = torch.cummax(x, 1).values
        return torch.cat([x, x + self.feed(x)], 1)[:, : x.shape[1]]


def large_program(nodes: int, blocks: int = _PERIOD) -> ExportedProgram:
    """A program of at least ``nodes`` nodes, parameters and sizes among them, in parts of so many blocks."""
    model = nn.Sequential(*[Block(8, scans=at == blocks // 2) for at in range(blocks)]).eval()
    dims = {0: Dim("batch", min=1, max=31), 1: Dim("length", min=2, max=509)}
    small = export(model, (torch.randn(2, 7, 8),), dynamic_shapes=(dims,))
    each = len(small.graph.nodes) - 2  # the input and the output stay one
    return _repeated(small, -(-nodes // each))


def _repeated(small: ExportedProgram, times: int) -> ExportedProgram:
    """A program that does ``times`` times what ``small`` does, each time with parameters of its own."""
    graph, state, inputs = fx.Graph(), {}, []
    parameters = small.graph_signature.inputs_to_parameters
    placeholders = {node.name: node for node in small.graph.nodes if node.op == "placeholder"}
    values: list[dict[fx.Node, fx.Node]] = [{} for _ in range(times)]
    for turn in range(times):
        for name, target in parameters.items():
            new = graph.placeholder(_renumbered(name, turn, "p_"))
            new.meta = dict(placeholders[name].meta)
            values[turn][placeholders[name]] = new
            state[_renumbered(target, turn)] = small.state_dict[target]
            inputs.append(InputSpec(InputKind.PARAMETER, TensorArgument(new.name), _renumbered(target, turn)))
    (own,) = small.graph_signature.user_inputs
    user = graph.placeholder(str(own))
    user.meta = dict(placeholders[str(own)].meta)
    inputs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(user.name), None))
    here = user
    for turn, known in enumerate(values):
        known[placeholders[str(own)]] = here
        for node in small.graph.nodes:
            if node.op == "output":
                here = known[node.args[0][0]]
            elif node.op != "placeholder":
                known[node] = graph.node_copy(node, lambda old, known=known: known[old])
                known[node].meta = _moved(node.meta, turn)
    graph.output((here,))
    signature = ExportGraphSignature(inputs, [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(here.name), None)])
    return ExportedProgram(
        nn.Module(),
        graph,
        signature,
        state,
        small.range_constraints,
        small.module_call_graph[:1],
        example_inputs=small.example_inputs,
    )


def _renumbered(name: str, turn: int, prefix: str = "") -> str:
    """``0.mixer.norm`` of the third turn as ``28.mixer.norm``."""
    return re.sub(rf"^{prefix}(\d+)", lambda found: f"{prefix}{int(found[1]) + turn * _PERIOD}", name)


def _moved(meta: dict[str, Any], turn: int) -> dict[str, Any]:
    stack = meta.get("nn_module_stack", {})
    moved = {f"{key}_{turn}": (_renumbered(path, turn), kind) for key, (path, kind) in stack.items()}
    return {**meta, "nn_module_stack": moved}
