"""From what an export left behind, a program or an error, to a Program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.frontend.archive.summary import ArchiveSummary
from trtdiag.frontend.declared_dims import Declared, declared_dims
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.failed_export import failed_guards
from trtdiag.frontend.guard_stacks import GuardStacks
from trtdiag.frontend.inputs import example_sizes, input_tensors
from trtdiag.frontend.node_origins import op_origins
from trtdiag.frontend.pinned_dims import joined_dims, pinned_dims
from trtdiag.frontend.program import ExportFailure, Program, RawGuard, SourceKind, Versions
from trtdiag.frontend.recorded_conditions import recorded_guards
from trtdiag.frontend.symbol_names import failed_names, program_names
from trtdiag.frontend.torch_private import backed_hints, plain_ranges, replacements, running_schema, shape_env_of
from trtdiag.frontend.unexported_inputs import input_sketch


def program_of(
    exported: ExportedProgram,
    label: str,
    kind: SourceKind,
    *,
    recipe: Recipe | None = None,
    stacks: GuardStacks | None = None,
    seconds: float | None = None,
    summary: ArchiveSummary | None = None,
    notes: tuple[str, ...] = (),
) -> Program:
    """The Program of an ExportedProgram.

    Args:
        exported: torch's program.
        label: As of ``Program``.
        kind: Where it came from.
        recipe: What it was exported from, where that happened here: its declarations.
        stacks: The lines of its guards, noted meanwhile.
        seconds: What the export took.
        summary: What its file says.
        notes: As of ``Program``.
    """
    env = shape_env_of(exported.graph_module)
    declared = () if recipe is None else _declared(recipe)
    hints = {} if env is None else backed_hints(env)
    if kind is SourceKind.FILE:
        hints = {**hints, **example_sizes(exported, input_tensors(exported, declared, hints))}
    inputs = input_tensors(exported, declared, hints)
    if env is not None and stacks is not None:
        stacks.also_in_roots(replacements(env))
    here = _versions()
    return Program(
        label=label,
        kind=kind,
        exported=exported,
        inputs=inputs,
        ranges=plain_ranges(exported.range_constraints),
        hints=hints,
        names=program_names(exported, inputs),
        guards=tuple(_with_stack(guard, stacks) for guard in recorded_guards(exported, env)),
        origins=op_origins(exported.graph_module),
        versions=here
        if summary is None
        else replace(here, exporting_torch=summary.torch_version, schema=_dotted(summary.schema_version)),
        export_s=seconds,
        file_bytes=None if summary is None else summary.size_bytes,
        notes=notes,
        pins=pinned_dims(env, inputs, stacks),
        joins=joined_dims(env, inputs, stacks),
    )


def program_of_failure(
    recipe: Recipe,
    label: str,
    kind: SourceKind,
    failure: ExportFailure | None,
    env: ShapeEnv | None,
    stacks: GuardStacks,
    seconds: float,
) -> Program:
    """The Program of an export that torch refused: without a graph, with all that is known of its dims.

    Args:
        recipe: What was exported.
        label: As of ``Program``.
        kind: Where it came from.
        failure: How it failed.
        env: What it left behind.
        stacks: The lines of its guards.
        seconds: What it took.
    """
    inputs = input_sketch(
        recipe.args, recipe.kwargs, recipe.parameter_names(), _declared(recipe), env, recipe.rest_name()
    )
    return Program(
        label=label,
        kind=kind,
        exported=None,
        inputs=inputs,
        ranges={},
        hints={} if env is None else backed_hints(env),
        names=failed_names(env, inputs),
        guards=() if env is None else tuple(failed_guards(env, stacks)),
        origins={},
        versions=_versions(),
        failure=failure,
        export_s=seconds,
        pins=pinned_dims(env, inputs, stacks),
        joins=joined_dims(env, inputs, stacks),
    )


def _declared(recipe: Recipe) -> Sequence[dict[int, Declared]]:
    return declared_dims(recipe.args, recipe.kwargs, recipe.parameter_names(), recipe.dynamic_shapes)


def _versions() -> Versions:
    return Versions(str(torch.__version__), str(torch.__version__), running_schema(), running_schema())


def _dotted(version: tuple[int, int] | None) -> str | None:
    return None if version is None else f"{version[0]}.{version[1]}"


def _with_stack(guard: RawGuard, stacks: GuardStacks | None) -> RawGuard:
    stack = None if stacks is None else stacks.of(guard.condition)
    if stacks is None or stack is None or not stack.frames:
        return guard
    return replace(guard, stack=stack, op=stacks.op_of(guard.condition))
