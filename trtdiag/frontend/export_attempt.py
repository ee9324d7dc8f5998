"""One try of ``torch.export`` as it is asked, with everything that it leaves behind, passed or not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO

import torch
from torch.export import ExportedProgram

from trtdiag.frontend.declared_dims import declared_dims
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.failed_export import export_failure, failed_env, failed_guards, tracing_finished
from trtdiag.frontend.guard_stacks import GuardStacks, recording
from trtdiag.frontend.inputs import input_tensors
from trtdiag.frontend.node_origins import op_origins
from trtdiag.frontend.pinned_dims import joined_dims, pinned_dims
from trtdiag.frontend.program import Program, RawGuard, SourceKind, Versions
from trtdiag.frontend.recorded_conditions import recorded_guards
from trtdiag.frontend.symbol_names import failed_names, program_names
from trtdiag.frontend.torch_private import backed_hints, plain_ranges, replacements, running_schema, shape_env_of
from trtdiag.frontend.unexported_inputs import input_sketch


@dataclass(frozen=True)
class Attempted:
    """How one export ended.

    Attributes:
        program: The program; without a graph and with ``failure`` where the export was refused.
        finished: Whether the whole model was traced, so that the guards are complete.
    """

    program: Program
    finished: bool


def attempted(recipe: Recipe, label: str = "the given module") -> Attempted:
    """Export once, exactly as ``recipe`` says, and keep the guards with their lines whatever happens."""
    started = time.perf_counter()
    with recording() as stacks, redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # torch prints whole graphs
        try:
            exported = torch.export.export(
                recipe.module,
                recipe.args,
                recipe.kwargs or None,
                dynamic_shapes=recipe.dynamic_shapes,
                strict=False,
            )
        except Exception as error:  # torch raises anything here; every kind is read by the caller
            return _refused(recipe, label, error, stacks, time.perf_counter() - started)
    return Attempted(_passed(recipe, label, exported, stacks, time.perf_counter() - started), finished=True)


def _passed(recipe: Recipe, label: str, exported: ExportedProgram, stacks: GuardStacks, seconds: float) -> Program:
    declared = declared_dims(recipe.args, recipe.kwargs, recipe.parameter_names(), recipe.dynamic_shapes)
    env = shape_env_of(exported.graph_module)
    hints = {} if env is None else backed_hints(env)
    inputs = input_tensors(exported, declared, hints)
    if env is not None:
        stacks.also_in_roots(replacements(env))
    return Program(
        label=label,
        kind=SourceKind.LIVE,
        exported=exported,
        inputs=inputs,
        ranges=plain_ranges(exported.range_constraints),
        hints=hints,
        names=program_names(exported, inputs),
        guards=tuple(_noted(guard, stacks) for guard in recorded_guards(exported, env)),
        origins=op_origins(exported.graph_module),
        versions=_versions(),
        export_s=seconds,
        pins=pinned_dims(env, inputs, stacks),
        joins=joined_dims(env, inputs, stacks),
    )


def _refused(recipe: Recipe, label: str, error: Exception, stacks: GuardStacks, seconds: float) -> Attempted:
    names = recipe.parameter_names()
    declared = declared_dims(recipe.args, recipe.kwargs, names, recipe.dynamic_shapes)
    env = failed_env(error)
    sketch = input_sketch(recipe.args, recipe.kwargs, names, declared, env, recipe.rest_name())
    hints: Mapping[str, int] = {} if env is None else backed_hints(env)
    program = Program(
        label=label,
        kind=SourceKind.LIVE,
        exported=None,
        inputs=sketch,
        ranges={},
        hints=hints,
        names=failed_names(env, sketch),
        guards=() if env is None else tuple(failed_guards(env, stacks)),
        origins={},
        versions=_versions(),
        failure=export_failure(error, None),
        export_s=seconds,
        pins=pinned_dims(env, sketch, stacks),
        joins=joined_dims(env, sketch, stacks),
    )
    return Attempted(program, tracing_finished(error))


def _versions() -> Versions:
    return Versions(str(torch.__version__), str(torch.__version__), running_schema(), running_schema())


def _noted(guard: RawGuard, stacks: GuardStacks) -> RawGuard:
    stack = stacks.of(guard.condition)
    return guard if stack is None else replace(guard, stack=stack, op=stacks.op_of(guard.condition))
