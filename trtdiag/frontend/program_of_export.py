"""From what an export left behind, a program or an error, to a Program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO

import torch

from trtdiag.frontend.archive.summary import ArchiveSummary
from trtdiag.frontend.declared_dims import declared_dims
from trtdiag.frontend.factory import Exported, Recipe
from trtdiag.frontend.failed_export import export_failure, failed_env, failed_guards
from trtdiag.frontend.guard_stacks import GuardStacks, Noted, recording
from trtdiag.frontend.inputs import example_sizes, input_tensors
from trtdiag.frontend.node_origins import op_origins
from trtdiag.frontend.pinned_dims import joined_dims, pinned_dims
from trtdiag.frontend.program import InputTensor, Program, RawGuard, SourceKind, Versions
from trtdiag.frontend.recorded_conditions import recorded_guards
from trtdiag.frontend.subclass_weights import with_plain_weights
from trtdiag.frontend.symbol_names import failed_names, program_names
from trtdiag.frontend.torch_private import backed_hints, plain_ranges, replacements, running_schema, shape_env_of
from trtdiag.frontend.unexported_inputs import input_sketch
from trtdiag.graph.source import NO_STACK


def program_of(
    outcome: Exported,
    label: str,
    kind: SourceKind,
    *,
    summary: ArchiveSummary | None = None,
    notes: tuple[str, ...] = (),
) -> Program:
    """The Program of an export; where torch refused it, without a graph, with all that is known of its dims.

    Args:
        outcome: How the export ended, with what it was exported from where that happened here: its declarations.
        label: As of ``Program``.
        kind: Where it came from.
        summary: What its file says.
        notes: As of ``Program``.
    """
    if outcome.program is not None:
        outcome = replace(outcome, program=with_plain_weights(outcome.program))
    exported, recipe, stacks = outcome.program, outcome.recipe, outcome.stacks
    env = outcome.env if exported is None else shape_env_of(exported.graph_module)
    declared = () if recipe is None else declared_dims(recipe)
    hints = {} if env is None else backed_hints(env)
    if exported is None:
        assert recipe is not None
        inputs = input_sketch(recipe, declared, env)
        guards = [] if env is None or stacks is None else failed_guards(env, stacks)
    else:
        if kind is SourceKind.FILE:
            hints = {**hints, **example_sizes(exported, input_tensors(exported, declared, hints))}
        inputs = input_tensors(exported, declared, hints)
        if env is not None and stacks is not None:
            stacks.also_in_roots(replacements(env))
        guards = [_with_stack(guard, stacks) for guard in recorded_guards(exported, env)]
    versions = Versions(str(torch.__version__), str(torch.__version__), running_schema(), running_schema())
    if summary is not None:
        schema = None if summary.schema_version is None else ".".join(map(str, summary.schema_version))
        versions = replace(versions, exporting_torch=summary.torch_version, schema=schema)
    return Program(
        label=label,
        kind=kind,
        exported=exported,
        inputs=inputs,
        ranges={} if exported is None else plain_ranges(exported.range_constraints),
        hints=hints,
        names=_names(outcome, inputs),
        guards=tuple(guards),
        origins={} if exported is None else op_origins(exported.graph_module),
        versions=versions,
        failure=outcome.failure,
        export_s=outcome.seconds,
        file_bytes=None if summary is None else summary.size_bytes,
        notes=notes,
        pins=pinned_dims(env, inputs, stacks),
        joins=joined_dims(env, inputs, stacks),
    )


def _names(outcome: Exported, inputs: Sequence[InputTensor]) -> dict[str, str]:
    if outcome.program is not None:
        return program_names(outcome.program, inputs)
    return failed_names(outcome.env, inputs, {} if outcome.failure is None else outcome.failure.values_of_data)


def _with_stack(guard: RawGuard, stacks: GuardStacks | None) -> RawGuard:
    noted = Noted(NO_STACK, None) if stacks is None else stacks.of(guard.condition)
    return replace(guard, stack=noted.stack, op=noted.op) if noted.stack.frames else guard


def attempted(recipe: Recipe) -> Program:
    """Export once, exactly as ``recipe`` says, and keep the guards with their lines whatever happens.

    Returns:
        The program; without a graph and with ``failure`` where the export was refused.
    """
    started = time.perf_counter()
    exported = failure = env = None
    with recording() as stacks, redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # torch prints whole graphs
        try:
            exported = recipe.export()
        except Exception as error:  # torch raises anything here; every kind is read by the caller
            failure, env = export_failure(error, None), failed_env(error)
        seconds = time.perf_counter() - started
    outcome = Exported(exported, recipe, failure, env, stacks, seconds)
    return program_of(outcome, "the given module", SourceKind.LIVE)
