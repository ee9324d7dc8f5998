"""The backend of ``torch.compile(model, backend="trtdiag")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from trtdiag.lower.dynamo_program import dynamo_program
from trtdiag.option_warnings import warn_of
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.no_backward import Differentiable, without_backward

CompileExported = Callable[[ExportedProgram, Mapping[str, Any]], CompiledProgram]
Backend = Callable[..., Callable[..., Any]]

NO_TRAINING = (
    "the backend trtdiag runs forward passes only: gradients are enabled, and parameters or inputs require them. The"
    " results are right, and backward() from them is an error; torch.no_grad() or torch.inference_mode() around the"
    " call says that none is wanted"
)


def backend_of(compile_exported: CompileExported) -> Backend:
    """The backend that compiles graphs of torch.compile by ``compile_exported``.

    Weights are constants of what is compiled: after changing them, call ``torch.compiler.reset()``.  Where gradients
    are enabled and something requires them there is a warning, and a backward pass that reaches the graph is an error.

    Args:
        compile_exported: Compiles one program with the ``options`` of torch.compile; ops that no engine takes stay
            with PyTorch.
    """

    def compile_graph(
        graph_module: GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
    ) -> Callable[..., Any]:
        # torch.compile calls what is returned in the mode that it was compiled in, and compiles again for another.
        requires = any(isinstance(given, torch.Tensor) and given.requires_grad for given in example_inputs)
        differentiable = None
        if requires and torch.is_grad_enabled():
            warn_of([UserWarning(NO_TRAINING)], within=("trtdiag", "torch"))
            differentiable = Differentiable.of(graph_module, example_inputs)
        made = dynamo_program(graph_module, example_inputs)
        program = compile_exported(made.exported, {} if options is None else options)

        def run(*arguments: Any) -> Any:
            return program(*(arguments[index] for index in made.taken))

        return run if differentiable is None else without_backward(run, differentiable)

    return compile_graph
