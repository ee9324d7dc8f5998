"""A compiled program with other engines, or other weights, in the same places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from trtdiag.engine.engine_bytes import Blob
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.frontend.rebuilt_program import copied_graph, rebuilt_program
from trtdiag.graph.fake_values import FakeValues
from trtdiag.runtime.engine_cache import engine_tensor
from trtdiag.runtime.engine_nodes import EngineNode


def with_engines(
    exported: ExportedProgram,
    calls: Sequence[EngineNode],
    engines: Sequence[tuple[Blob, Manifest]],
    weights: Mapping[str, torch.Tensor] | None = None,
) -> ExportedProgram:
    """A copy of a program with other engines in the place of these.

    Args:
        exported: The program; it stays as it is.
        calls: Its engines that are replaced.
        engines: What replaces them, in the same order.
        weights: Other tensors that ops left to PyTorch read, by their name in the program.
    """
    graph, copies = copied_graph(exported.graph)
    state, constants = dict(exported.state_dict), dict(exported.constants)
    values = FakeValues(exported.graph)
    for call, (blob, manifest) in zip(calls, engines, strict=True):
        content = engine_tensor(blob)
        (state if call.buffer in state else constants)[call.buffer] = content
        made = copies[call.node]
        inputs, placeholder, _ = made.args
        assert isinstance(placeholder, Node)
        placeholder.meta["val"] = values.like(content)
        made.args = (inputs, placeholder, manifest_to_text(manifest))
    for name, tensor in (weights or {}).items():
        place = state if name in state else constants
        before = place[name]
        tensor = tensor.to(before.device)
        if isinstance(before, torch.nn.Parameter):
            tensor = torch.nn.Parameter(tensor, requires_grad=before.requires_grad)
        place[name] = tensor
    signature = replace(exported.graph_signature)
    return rebuilt_program(exported, exported.graph_module, graph, signature, state, constants)
