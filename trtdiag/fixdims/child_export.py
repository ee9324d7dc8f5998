"""Exports a model with a plan and runs what comes out, in a child process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, redirect_stdout, suppress
from dataclasses import replace
from functools import cache
from io import StringIO
from math import inf

import torch
from torch.export import Dim, ExportedProgram

from trtdiag.dims.declare import refused_by_rounding
from trtdiag.dims.dynamic_shapes.asked import Structure
from trtdiag.dims.dynamic_shapes.examples import resized
from trtdiag.dims.dynamic_shapes.spell import spell
from trtdiag.dims.plan import Plan
from trtdiag.dims.solver_input import corner_points, dims_in, system_of, tied_symbols
from trtdiag.fixdims.child_process import no_child
from trtdiag.fixdims.export_result import Corner, OnData, Tried, read_program
from trtdiag.fixdims.run_on_data import run_on_data
from trtdiag.frontend.data_dependent.torch_checks import DataValues, assumed_checks, example_values
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.fake_run import NotRunnableError, ShapeRunner
from trtdiag.frontend.program_of_export import attempted
from trtdiag.frontend.quick_sizes import quick_sizes
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.symbolic import Range, evaluate
from trtdiag.symbolic.build import affine

SECONDS_ON_DATA = 10.0
"""For the runs on tensors of one export.  Own choice: small models need less than 1, large ones 1 to 5 for each run."""


@cache
def import_for_exports() -> None:
    """Import in this process, once, what ``torch.export`` imports when it is first called; to be called before a fork.

    Each child would do so otherwise, which takes it longer than the export of a small model.  torch has no list of
    these modules: something is exported.
    """
    inputs = (torch.zeros(2, device="cpu"),)
    with TORCH_TURN, warnings.catch_warnings(), suppress(Exception):  # a child says what is wrong with its own export
        warnings.simplefilter("ignore")
        torch.export.export(torch.nn.ReLU(), inputs, dynamic_shapes=({0: Dim.DYNAMIC},), strict=False)


def planned(recipe: Recipe, structure: Structure, plan: Plan) -> Recipe:
    """The recipe with the plan's declaration and, where it says so, other example sizes."""
    args, kwargs = recipe.args, recipe.kwargs
    if plan.sizes:
        args, kwargs = resized(args, kwargs, recipe.parameter_names(), plan.sizes)
    return replace(recipe, args=args, kwargs=kwargs, dynamic_shapes=spell(plan, structure).dynamic_shapes)


def exported_alone(recipe: Recipe) -> ExportedProgram:
    """The program of ``recipe``, exported in this process."""
    with TORCH_TURN:
        return recipe.export()


@quick_sizes()
def trial(
    recipe: Recipe,
    plan: Plan,
    given: object,
    spelled: Callable[[], Recipe],
    *,
    assumed: DataValues | None = None,
    limit_s: float = inf,
    own_s: float = inf,
) -> Tried:
    """Export with ``plan`` and read what is left; to be called in a child process.

    Args:
        recipe: As the user gave it.
        plan: The plan that ``spelled`` declares.
        given: The user's own ``dynamic_shapes`` to use as they are; ``None`` spells the plan.
        spelled: Gives the recipe with the plan spelled.
        assumed: What data decides at the inputs of ``recipe``: the export goes on that way; ``None`` stops there.
        limit_s: When the child is killed; runs take no more than half of what the export leaves.
        own_s: What may be computed here beside the export.
    """
    started = time.monotonic()
    used = spelled() if given is None else replace(recipe, dynamic_shapes=given)
    if assumed is not None and used.args is not recipe.args:  # other inputs, which decide for themselves
        assumed = example_values(used.module, used.args, used.kwargs, used.dynamic_shapes)
    with nullcontext() if assumed is None else assumed_checks(assumed) as recorder:
        program = attempted(used)
    one_way = recorder is not None and any(check.pins for check in recorder.checks)
    began = time.thread_time()
    tried = read_program(program, finished=program.failure is None or program.failure.traced)
    exported = program.exported
    if exported is not None:
        left_s = min(limit_s - (time.monotonic() - started), own_s - (time.thread_time() - began))
        checked = recorder is not None and bool(recorder.checks)
        tried = ran(tried, exported, plan, used, left_s, on_data=not one_way, assumed=checked)
    elif not (tried.finished or plan.groups() or no_child()):  # no dims are left that could be the reason
        tried = replace(tried, without_export=_said_without_export(used))
    return replace(tried, own_seconds=time.thread_time() - began)


def _said_without_export(used: Recipe) -> str | None:
    """Python's words where the model itself fails at its example, empty where it runs, ``None`` without values."""
    if any(each.is_meta for each in (*used.module.parameters(), *used.module.buffers())):
        return None
    try:
        with torch.no_grad(), warnings.catch_warnings(), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            used.module(*used.args, **used.kwargs)
    except Exception as error:  # a model raises anything
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}".removesuffix(": ")
    return ""


def ran(
    tried: Tried,
    exported: ExportedProgram,
    plan: Plan,
    used: Recipe,
    limit_s: float,
    *,
    on_data: bool = True,
    assumed: bool = False,
) -> Tried:
    """``tried`` with what its program says at sizes of ``plan``: smallest and largest on shapes, others on tensors.

    A program in which a branch on data was assumed refuses other inputs for what they hold: it is run on none.
    With other checks ``assumed``, which the model does not have yet, the model is no measure of what they refuse.
    """
    started = time.monotonic()
    corners: list[Corner] = []
    unrun = ""
    try:
        runner = ShapeRunner(exported, tried.inputs, used.args, used.kwargs)
        ties = tied_symbols(tried.inputs, plan)  # torch may leave two symbols for one Dim
        box = {symbol: range_ for symbol, range_ in system_of(tried.inputs, plan).box.items() if symbol not in ties}
        ends = corner_points(box, tried.hints)
        for free in (*ends, *_rounded(tried, box, ends[:2][-1])):
            point = {**free, **{symbol: int(evaluate(size, free)) for symbol, size in ties.items()}}
            if corners and time.monotonic() - started > limit_s:
                unrun = "the time for runs was over"
                break
            dims = dims_in(tried.inputs, plan)
            sizes = tuple((dim.site, runner.size(dim, point)) for dim, _leaf in dims)
            corners.append(Corner(point, sizes, runner.refusal(point)))
    except NotRunnableError as error:
        unrun = str(error)
    on_shapes = replace(tried, corners=tuple(corners), unrun=unrun)
    if not tried.passed:
        return on_shapes
    if not on_data:
        return replace(on_shapes, on_data=OnData(unrun="a branch on data was assumed, which other inputs may not take"))
    seconds = min(SECONDS_ON_DATA, (limit_s - (time.monotonic() - started)) / 2)
    return run_on_data(on_shapes, exported, plan, used, seconds, assumed=assumed)


def _rounded(tried: Tried, box: Mapping[str, Range], others: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes that torch may refuse because it compares them by fractions: one value of each symbol beside ``others``."""
    lines = [line for tensor in tried.inputs for dim in tensor.dims if (line := affine(dim.expr)) is not None]
    for symbol, range_ in box.items():
        value = refused_by_rounding([line[1:] for line in lines if line[0] == symbol], range_)
        if value is not None:
            yield {**others, symbol: value}
