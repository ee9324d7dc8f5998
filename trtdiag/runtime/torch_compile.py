"""The backend of ``torch.compile(model, backend="trtdiag")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from trtdiag.errors import UserError
from trtdiag.lower.dynamo_program import dynamo_program
from trtdiag.runtime.compiled import CompiledProgram

CompileExported = Callable[[ExportedProgram, Mapping[str, Any]], CompiledProgram]
Backend = Callable[..., Callable[..., Any]]


def backend_of(compile_exported: CompileExported) -> Backend:
    """The backend that compiles graphs of torch.compile by ``compile_exported``.

    Weights are constants of what is compiled: after changing them, call ``torch.compiler.reset()``.

    Args:
        compile_exported: Compiles one program with the ``options`` of torch.compile; ops that no engine takes stay
            with PyTorch.
    """

    def compile_graph(
        graph_module: GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
    ) -> Callable[..., Any]:
        _refuse_training(example_inputs)
        made = dynamo_program(graph_module, example_inputs)
        program = compile_exported(made.exported, {} if options is None else options)

        def run(*arguments: Any) -> Any:
            return program(*(arguments[index] for index in made.taken))

        return run

    return compile_graph


def _refuse_training(example_inputs: Sequence[Any]) -> None:
    wanted = any(isinstance(given, torch.Tensor) and given.requires_grad for given in example_inputs)
    if wanted and torch.is_grad_enabled():
        raise UserError(
            "the backend trtdiag does not train",
            because="gradients are enabled, and parameters or inputs require them; engines have no backward pass",
            fix="call the compiled model under torch.no_grad() or torch.inference_mode(); compile for training with"
            " another backend",
            reference="training",
        )
