"""``torch.compile(model, backend="trtdiag")``: every graph is compiled as a program is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.export import ExportedProgram

from trtdiag.compiling import compile
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.torch_compile import backend_of


def _compile_exported(exported: ExportedProgram, options: Mapping[str, Any]) -> CompiledProgram:
    """Compile one graph.

    Findings do not stop it: torch.compile's sizes have no upper ends, and what no engine takes runs in PyTorch.  It
    is not verified: the graph is all that there is to compare with, and it would run on made-up inputs at each call
    that compiles.
    """
    return compile(exported, **{"force": True, "verify": False, **options})


compile_graph = backend_of(_compile_exported)
