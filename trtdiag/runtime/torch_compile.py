"""The backend of ``torch.compile(model, backend="trtdiag")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from trtdiag.errors import ArgumentError, UserError
from trtdiag.graph.fake_values import fake_mode_among
from trtdiag.lower.dynamo_program import dynamo_program, traceable_graph
from trtdiag.option_warnings import warn_of
from trtdiag.runtime.compiled import CompiledProgram

CompileExported = Callable[[ExportedProgram, Mapping[str, Any]], CompiledProgram]
Backend = Callable[..., Callable[..., Any]]

NO_TRAINING = (
    "the backend trtdiag runs forward passes only: gradients are enabled, and parameters or inputs require them. The"
    " results are right, and backward() from them is an error; torch.no_grad() or torch.inference_mode() around the"
    " call says that none is wanted"
)


def backend_of(compile_exported: CompileExported) -> Backend:
    """The backend that compiles graphs of torch.compile by ``compile_exported``.

    Weights are constants of what is compiled: after changing their values, call ``torch.compiler.reset()``.  A graph
    that layers share, which differ in weights alone, is compiled for each of them.  Where gradients are enabled and
    something requires them there is a warning, and a backward pass that reaches the graph is an error.

    Args:
        compile_exported: Compiles one program with the ``options`` of torch.compile; ops that no engine takes stay
            with PyTorch.
    """

    def compile_graph(
        graph_module: GraphModule,
        example_inputs: Sequence[Any],
        *,
        options: Mapping[str, Any] | None = None,
        mode: str | None = None,
    ) -> Callable[..., Any]:
        if mode is not None:
            raise ArgumentError(
                f"mode={mode!r} of torch.compile has no meaning for the backend trtdiag",
                because="modes are PyTorch's own compiler's",
                fix="leave it out; options={'precision': 'fp16'} has the fields of trtdiag.CompileOptions",
                reference="wrong-option",
            )
        # torch.compile calls what is returned in the mode that it was compiled in, and compiles again for another.
        requires = any(isinstance(given, torch.Tensor) and given.requires_grad for given in example_inputs)
        differentiable = None
        if requires and torch.is_grad_enabled():
            warn_of([UserWarning(NO_TRAINING)], within=("trtdiag", "torch"))
            differentiable = Differentiable.of(graph_module, example_inputs)
        made = dynamo_program(graph_module, example_inputs)
        given = {} if options is None else options
        programs = [([example_inputs[index] for index in made.held], compile_exported(made.exported, given))]

        def run(*arguments: Any) -> Any:
            weights = [arguments[index] for index in made.held]
            program = next((program for own, program in programs if all(map(is_, own, weights))), None)
            if program is None:  # torch.compile has one graph for all layers that run the same lines
                program = compile_exported(made.with_weights(weights), given)
                programs.append((weights, program))
            return program(*(arguments[index] for index in made.taken))

        return run if differentiable is None else without_backward(run, differentiable)

    return compile_graph


# Calls whose results require gradients as those of the original do, and refuse to give any.


@dataclass(frozen=True)
class Differentiable:
    """What of a graph would have a gradient in PyTorch.

    Attributes:
        outputs: Whether each output would, in order.
        written: The inputs, by position, that are written with values that would.
    """

    outputs: tuple[bool, ...]
    written: tuple[int, ...]

    @classmethod
    def of(cls, graph_module: GraphModule, example_inputs: Sequence[Any]) -> Differentiable:
        """Ask PyTorch: the graph is run with gradients on tensors without content.

        Args:
            graph_module: A graph of torch.compile, whose placeholders have example values.
            example_inputs: What it is compiled for.
        """
        placeholders = graph_module.graph.find_nodes(op="placeholder")
        values = [node.meta.get("example_value", one) for node, one in zip(placeholders, example_inputs, strict=True)]
        with torch.enable_grad(), fake_mode_among(values):
            given = [_like(value, example) for value, example in zip(values, example_inputs, strict=True)]
            before = [_state(one) for one in given]
            made = traceable_graph(graph_module)(*given)
        changed = [index for index, one in enumerate(given) if _state(one) != before[index]]
        results = made if isinstance(made, (tuple, list)) else [made]
        return cls(tuple(map(_requires, results)), tuple(index for index in changed if _requires(given[index])))


def without_backward(run: Callable[..., Any], differentiable: Differentiable) -> Callable[..., Any]:
    """``run``, whose results have a gradient where those of the original do, which is an error when it is asked for."""

    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            results = list(run(*arguments))
            flags = zip(results, differentiable.outputs, strict=True)
            ctx.mark_non_differentiable(*(one for one, own in flags if isinstance(one, torch.Tensor) and not own))
            written = [arguments[index] for index in differentiable.written]
            ctx.mark_dirty(*written)
            return (*results, *written)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            del ctx, gradients
            raise UserError(
                "the backend trtdiag does not train",
                because="backward() has reached a graph that it compiled, and engines compute the forward pass only",
                fix="train the model without it, or compile for training with another backend; where no gradient is"
                " wanted, call it under torch.no_grad() or detach its results",
                reference="training",
            )

    def called(*arguments: Any) -> Any:
        results = Forward.apply(*arguments)  # type: ignore[no-untyped-call]
        return results[: len(differentiable.outputs)]

    return called


def _like(value: Any, example: Any) -> Any:
    """A tensor of the same form that may be written in place, also where it requires a gradient; a number as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    requires = isinstance(example, torch.Tensor) and example.requires_grad
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.requires_grad_().clone() if requires else made


def _state(value: Any) -> Any:
    return value._version if isinstance(value, torch.Tensor) else None  # noqa: SLF001 - torch counts writes there


def _requires(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
