"""``torch.compile(model, backend="trtdiag")``: every graph is compiled as a program is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.export import ExportedProgram

from trtdiag.engine.backend import get_backend
from trtdiag.engine.reused_builder_process import reused_builder_process
from trtdiag.errors import UserError
from trtdiag.frontend.move_to_device import program_device
from trtdiag.options import CompileOptions, with_changes
from trtdiag.pipeline.compile import compile
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.torch_compile import backend_of


def _compile_exported(exported: ExportedProgram, options: Mapping[str, Any]) -> CompiledProgram:
    """Compile one graph.

    Findings do not stop it: torch.compile's sizes have no upper ends, and what no engine takes runs in PyTorch.  It
    is not verified: the graph is all that there is to compare with, and it would run on made-up inputs at each call
    that compiles.  Nor is it moved: the model that calls it stays where it is.

    Raises:
        UserError: ``unknown-option``, ``wrong-option``; ``program-device`` where the model is on another device than
            its engines.
    """
    chosen = with_changes(CompileOptions(force=True, verify=False), options)
    backend, device = get_backend(chosen.backend), program_device(exported)
    if device is not None and device.type != backend.device:
        raise UserError(
            f"the model is on {device.type}: engines of the backend {backend.name!r} run on {backend.device}",
            because="torch.compile calls the compiled graphs with the model's own tensors",
            fix=f"move the model and its inputs to {backend.device}, or choose another backend",
            reference="program-device",
        )
    with reused_builder_process():  # the next graph of the model is compiled soon
        return compile(exported, chosen)


compile_graph = backend_of(_compile_exported)
