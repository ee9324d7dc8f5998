"""One export with a plan, in a child process: what it leaves behind as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from torch.export import ExportedProgram

from trtdiag.capture.attempted import attempted
from trtdiag.capture.corner_run import NotRunnableError, ShapeRunner
from trtdiag.capture.data_checks import assumed_checks, example_values
from trtdiag.capture.factory import Recipe
from trtdiag.capture.program import InputTensor, Join, Pin, Program
from trtdiag.dims.asked_ranges import corner_points, system_of
from trtdiag.dims.collect import gather
from trtdiag.dims.facts import GuardOrigin, UnparsedGuard
from trtdiag.dims.plan import Plan
from trtdiag.dims.spelling.asked import Structure
from trtdiag.dims.spelling.examples import resized
from trtdiag.dims.spelling.spell import spell
from trtdiag.graph.source import NO_STACK, Stack
from trtdiag.symbolic.expr import Condition


@dataclass(frozen=True)
class Corner:
    """A run on shapes: the symbols' values, the sizes by site, and the refusal's text, empty where it passed."""

    point: Mapping[str, int]
    sizes: tuple[tuple[str, int], ...]
    refusal: str


@dataclass(frozen=True)
class Tried:
    """How an export with a plan went.

    Attributes:
        passed: Whether torch gave a program.
        finished: Whether the whole model was traced, so that the conditions are complete.
        error_type: The class of torch's exception, empty where it passed.
        message: torch's words.
        stack: The user's frames at the failure.
        inputs: The inputs, sizes over the symbols that were left.
        hints: Symbol -> example size.
        names: Symbol -> the user's name.
        conditions: Every condition with its origin.
        unread: Conditions that could not be read.
        pins: Dims that took one value, and why.
        joins: Dims that became one, and why.
        corners: Runs at the smallest and largest sizes, where it passed.
        unrun: Why it was not run, empty where it was.
        seconds: What the export took.
    """

    passed: bool
    finished: bool
    error_type: str
    message: str
    stack: Stack
    inputs: tuple[InputTensor, ...]
    hints: Mapping[str, int]
    names: Mapping[str, str]
    conditions: Mapping[Condition, GuardOrigin]
    unread: tuple[UnparsedGuard, ...]
    pins: tuple[Pin, ...]
    joins: tuple[Join, ...]
    corners: tuple[Corner, ...] = ()
    unrun: str = ""
    seconds: float = 0.0


def planned(recipe: Recipe, structure: Structure, plan: Plan) -> Recipe:
    """The recipe with the plan's declaration and, where it says so, other example sizes."""
    args, kwargs = recipe.args, recipe.kwargs
    if plan.sizes:
        args, kwargs = resized(args, kwargs, recipe.parameter_names(), plan.sizes)
    return replace(recipe, args=args, kwargs=kwargs, dynamic_shapes=spell(plan, structure).dynamic_shapes)


def trial(recipe: Recipe, plan: Plan, given: object, spelled: Callable[[], Recipe], *, assume: bool = False) -> Tried:
    """Export with ``plan`` and read what is left; to be called in a child process.

    Args:
        recipe: As the user gave it.
        plan: The plan that ``spelled`` declares.
        given: The user's own ``dynamic_shapes`` to use as they are; ``None`` spells the plan.
        spelled: Gives the recipe with the plan spelled.
        assume: Go on where only data decides, the way the example goes.
    """
    used = spelled() if given is None else replace(recipe, dynamic_shapes=given)
    with _assuming(used) if assume else nullcontext():
        outcome = attempted(used)
    tried = read_program(outcome.program, finished=outcome.finished)
    exported = outcome.program.exported
    return tried if exported is None else run_at_corners(tried, exported, plan, used)


def run_at_corners(tried: Tried, exported: ExportedProgram, plan: Plan, used: Recipe) -> Tried:
    """``tried`` with what its program says at the smallest and largest sizes of ``plan``."""
    corners: list[Corner] = []
    try:
        runner = ShapeRunner(exported, tried.inputs, used.args, used.kwargs)
        for point in corner_points(system_of(tried.inputs, plan).box, tried.hints):
            corners.append(Corner(point, _sizes(tried.inputs, plan, runner, point), runner.refusal(point)))
    except NotRunnableError as error:
        return replace(tried, corners=tuple(corners), unrun=str(error))
    return replace(tried, corners=tuple(corners))


def _assuming(recipe: Recipe) -> AbstractContextManager[object]:
    values = example_values(recipe.module, recipe.args, recipe.kwargs, recipe.dynamic_shapes)
    return assumed_checks(values)


def _sizes(
    inputs: tuple[InputTensor, ...], plan: Plan, runner: ShapeRunner, point: Mapping[str, int]
) -> tuple[tuple[str, int], ...]:
    return tuple(
        (dim.site, runner.size(dim, point)) for tensor in inputs for dim in tensor.dims if dim.site in plan.leaves
    )


def read_program(program: Program, *, finished: bool = True) -> Tried:
    """What a captured program says about its dims."""
    gathered = gather(program)
    failure = program.failure
    return Tried(
        passed=program.exported is not None and failure is None,
        finished=finished,
        error_type="" if failure is None else failure.error_type,
        message="" if failure is None else failure.message,
        stack=NO_STACK if failure is None else failure.stack,
        inputs=program.inputs,
        hints=dict(program.hints),
        names=dict(program.names),
        conditions=gathered.conditions,
        unread=tuple(gathered.unparsed),
        pins=program.pins,
        joins=program.joins,
        seconds=program.export_s or 0.0,
    )
