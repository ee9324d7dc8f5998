"""A compiled program: called like the module that it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from trtdiag.engine.manifest import Manifest
from trtdiag.options import CompileOptions
from trtdiag.runtime.engine_nodes import engine_nodes
from trtdiag.runtime.program_inputs import ProgramInputs


class CompiledProgram:
    """A program whose segments run in engines.

    It is called with the arguments of the original module.  What it was not compiled for is refused before anything
    runs.  Several threads may call it at once, unless the program changes its buffers.

    Args:
        exported: The program, which calls ``trtdiag::execute_engine``.
        networks: The bytes of each engine's network, where they were kept to rebuild engines elsewhere.
        options: What it was compiled with, where it was compiled here.
        report: What compiling found, where it was compiled here.

    Attributes:
        exported_program: The program, to save, export again or look at.
        manifests: What each engine says of itself, in the order of execution.
    """

    def __init__(
        self,
        exported: ExportedProgram,
        networks: Sequence[bytes] = (),
        *,
        options: CompileOptions | None = None,
        report: object | None = None,
    ) -> None:
        self.exported_program = exported
        self.manifests: tuple[Manifest, ...] = tuple(found.manifest for found in engine_nodes(exported))
        self.networks = tuple(networks)
        self.options = options
        self.report = report
        self._inputs = ProgramInputs(exported)
        self._module: GraphModule | None = None
        self._lock = Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the program.

        Raises:
            ShapeOutOfRangeError: A tensor's size is outside of its range: its name, what it is and what is allowed.
            UserError: Arguments are missing or too many, or a tensor has another dtype.
        """
        self._inputs.check(args, kwargs)
        with torch.no_grad():
            return self._runnable()(*args, **kwargs)

    def module(self) -> torch.nn.Module:
        """A new module with the program's calling convention, for example to export or compile it again."""
        made: torch.nn.Module = self.exported_program.module()
        return made

    def _runnable(self) -> Any:
        with self._lock:
            if self._module is None:
                self._module = self.exported_program.module()
            return self._module
