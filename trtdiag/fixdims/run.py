"""``fix_dims``: from any source to corrected dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from trtdiag.arguments import (
    checked,
    flag,
    function,
    inputs as examples,
    mapping,
    optional,
    seconds,
    sizes_by_name,
    whole,
)
from trtdiag.dims.dynamic_shapes.asked import asked_plan, structure_of
from trtdiag.dims.dynamic_shapes.spell import spell
from trtdiag.dims.max_sizes import capped
from trtdiag.dims.plan import Plan, program_plan
from trtdiag.errors import DimsError
from trtdiag.fixdims.answers import answer_of, answer_unconfirmed
from trtdiag.fixdims.child_export import planned, ran
from trtdiag.fixdims.child_process import run_in_child
from trtdiag.fixdims.error_text.from_text import fix_text
from trtdiag.fixdims.export_loop import Search
from trtdiag.fixdims.export_result import Tried, read_program
from trtdiag.fixdims.exporter import Exporter
from trtdiag.fixdims.fix import Fix, Outcome
from trtdiag.fixdims.search_result import SearchResult
from trtdiag.fixdims.several_programs.assemble import MOST_PROGRAMS, OFFERED, several_of
from trtdiag.fixdims.sources import ModelSource, ProgramSource, TextSource, read_source
from trtdiag.fixdims.time_budget import DEFAULT_SOLVE_S, Allowance
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.module_inputs import Inputs, module_inputs
from trtdiag.frontend.program import Program
from trtdiag.frontend.reexport import program_recipe
from trtdiag.frontend.resolve_source import resolve_source
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.option_keywords import Sizes
from trtdiag.option_warnings import OptionWarning, warn_of
from trtdiag.options import Progress

DEFAULT_LIMIT_S = 600.0
DEFAULT_ROUNDS = 8


@checked(
    args=optional(examples),
    kwargs=optional(mapping),
    meta=flag,
    max_sizes=sizes_by_name,
    time_limit_s=seconds,
    solve_limit_s=seconds,
    rounds=whole(1),
    programs=optional(whole()),
    progress=optional(function),
)
def fix_dims(
    source: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    inputs: Inputs | None = None,
    meta: bool = False,
    max_sizes: Sizes = (),
    time_limit_s: float = DEFAULT_LIMIT_S,
    solve_limit_s: float = DEFAULT_SOLVE_S,
    rounds: int = DEFAULT_ROUNDS,
    programs: int | None = None,
    progress: Progress | None = None,
) -> Fix:
    """Find ``dynamic_shapes`` with which a model exports and takes every size that they admit.

    Args:
        source: A module (with ``args``), a tuple ``(module, args, kwargs, dynamic_shapes)``, a callable or
            ``"package.module:factory"`` that gives one, an ``ExportedProgram``, the path of a ``.pt2``/``.ep`` file or
            of a folder of Hugging Face, the path of a log, or an error text itself.
        args: Example inputs, where ``source`` is a module.
        kwargs: The same by keyword.
        dynamic_shapes: What was asked, where ``source`` is a module: in any form that ``torch.export.export`` takes.
        inputs: In the place of these three: ``Input``s and tensors, as for ``analyze``; also beside what names a
            module, and beside a folder of Hugging Face.
        meta: Make the model on the meta device, without weights; nothing then runs on data.
        max_sizes: Greatest sizes of dims by name (a ``Dim``'s, or ``x.shape[2]``): they are declared with them.
        time_limit_s: For one export, in seconds; each runs in a process of its own.
        solve_limit_s: For all solving and checking together, in seconds of computing; exports of a saved program
            count, those of a live model do not.  Then the best that was found is the answer, and a note says so.
        rounds: How many corrected declarations are tried.
        programs: Where one declaration leaves out sizes that were asked for: how many programs together may take them,
            each exported (``fix.programs``).  1 looks for one only; without a number what the conditions of this export
            allow is offered and not exported.
        progress: Called with a clause about each long step as it begins.

    Raises:
        CaptureError: The source cannot be read.
        DimsError: ``dynamic_shapes`` does not fit the inputs, a text states no condition, ``programs`` is out of
            range, or ``max_sizes`` names no dim or leaves no size.
        UserError: ``wrong-argument``, ``wrong-option``.

    Warns:
        OptionWarning: Of each argument that a source of this kind leaves without effect.
    """
    if programs is not None and not 1 <= programs <= MOST_PROGRAMS:
        raise DimsError(
            f"{programs} programs cannot be looked for",
            because=f"from 1 to {MOST_PROGRAMS} can",
            fix="give programs=4, or leave it out",
            reference="programs-out-of-range",
        )
    step = progress or (lambda _step: None)
    if not isinstance(source, torch.nn.Module) or meta:
        source = resolve_source(source, inputs, meta=meta)
    elif inputs is not None:
        own = module_inputs(source, inputs, beside=(args, kwargs, dynamic_shapes)).recipe()
        args, kwargs, dynamic_shapes = own.args, own.kwargs, own.dynamic_shapes
    given = {"args": args, "kwargs": kwargs, "dynamic_shapes": dynamic_shapes}
    read = read_source(source, args, kwargs, dynamic_shapes, step)
    if not isinstance(source, torch.nn.Module):
        why = "it belongs to a module alone, and this source brings its own"
        warn_of(OptionWarning(name, value, why) for name, value in given.items() if value is not None)
    if isinstance(read, TextSource):
        limits = (("time_limit_s", time_limit_s, DEFAULT_LIMIT_S), ("solve_limit_s", solve_limit_s, DEFAULT_SOLVE_S))
        counts = (("rounds", rounds, DEFAULT_ROUNDS), ("programs", programs, None), ("max_sizes", max_sizes, ()))
        why = "a text has no model to export"
        warn_of(OptionWarning(name, value, why) for name, value, usual in (*limits, *counts) if value != usual)
        with TORCH_TURN:
            return fix_text(read.text, read.label)
    solving = Allowance(solve_limit_s, exports=isinstance(read, ProgramSource))
    request = _Request(sizes_by_name("max_sizes", max_sizes), time_limit_s, solving, rounds, programs, step)
    return _fix_program(read, request) if isinstance(read, ProgramSource) else _fix_model(read, request)


@dataclass(frozen=True)
class _Request:
    """What ``fix_dims`` was asked for beside the source."""

    largest: Sequence[tuple[str, int]]
    limit_s: float
    solving: Allowance
    rounds: int
    programs: int | None
    step: Progress


def _fix_model(source: ModelSource, request: _Request) -> Fix:
    recipe = source.recipe
    structure = structure_of(recipe)
    plan, examples = asked_plan(structure), structure.examples
    wanted = capped(plan, request.largest, examples) if request.largest else plan
    exporter = Exporter(
        recipe, structure, wanted, request.limit_s, request.step, request.solving, original=not request.largest
    )
    search = partial(Search, wanted, examples, exporter.attempt, request.rounds, solving=request.solving)
    found = search().run()
    checks = exporter.data_checks() if found.from_data else ()
    if checks:
        # What the dims must be once the checks are written: the conditions behind the first check are known only so.
        words = found.failure
        found = search().run()
        found.failure = words
    fix = answer_of(source, recipe, structure, plan, found, checks, exporter.notes(), exporter.refused)
    return fix if checks or request.solving.look() else _with_several(fix, found, exporter, request)


def _fix_program(source: ProgramSource, request: _Request) -> Fix:
    program, solving = source.program, request.solving
    plan = program_plan(program)
    hints = {dim.site: dim.hint for each in program.inputs for dim in each.dims if dim.hint}
    wanted = capped(plan, request.largest, hints)
    with TORCH_TURN:
        recipe = program_recipe(program)
        known = read_program(program)
    if recipe is None:
        why = "the file keeps no example inputs, and not all of them are tensors"
        found = Search(wanted, {}, lambda _plan, _why: why, request.rounds, known, solving).run()
        return answer_unconfirmed(source, plan, found)
    structure = structure_of(recipe)
    known = _run_known(known, program, wanted, recipe, solving.least(request.limit_s) / 2, request.step)
    exporter = Exporter(recipe, structure, wanted, request.limit_s, request.step, solving, original=False)
    found = Search(wanted, structure.examples, exporter.attempt, request.rounds, known, solving).run()
    fix = answer_of(source, recipe, structure, plan, found, (), exporter.notes())
    return fix if solving.look() else _with_several(fix, found, exporter, request)


def _with_several(fix: Fix, found: SearchResult, exporter: Exporter, request: _Request) -> Fix:
    """``fix`` with the programs that together take more than it alone."""
    if request.programs == 1 or fix.outcome is Outcome.IMPOSSIBLE:
        return fix
    try:
        several = several_of(
            exporter.asked,
            found,
            exporter.structure.examples,
            None if request.programs is None else exporter.attempt,
            request.rounds,
            request.programs or OFFERED,
            lambda plan: (planned(exporter.recipe, exporter.structure, plan), spell(plan, exporter.structure).code),
        )
    except OverflowError:
        why = "further programs were not looked for: a condition has a power that is not computed for many sizes"
        return replace(fix, notes=(*fix.notes, why))
    return replace(fix, several=several)


def _run_known(known: Tried, program: Program, asked: Plan, recipe: Recipe, limit_s: float, step: Progress) -> Tried:
    """What a program that was exported long ago says at the ends of its ranges."""
    exported = program.exported
    if exported is None:
        return known
    step("run at its smallest and largest sizes")
    ended = run_in_child(lambda: ran(known, exported, asked, recipe, limit_s), limit_s)
    return replace(known, unrun=ended.failure) if ended.value is None else ended.value
