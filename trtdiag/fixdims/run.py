"""``fix_dims``: from any source to corrected dims."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import torch

from trtdiag.arguments import checked, function, mapping, optional, seconds, whole
from trtdiag.arguments import inputs as examples
from trtdiag.dims.compare_plans import same_plan
from trtdiag.dims.plan import Plan
from trtdiag.dims.program_plan import program_plan
from trtdiag.dims.spelling.asked import Structure, asked_plan, structure_of
from trtdiag.dims.spelling.spell import Spelled, asked_code, spell, spell_sites
from trtdiag.errors import DimsError
from trtdiag.fixdims.advice import with_model_changes
from trtdiag.fixdims.changes import changes_between
from trtdiag.fixdims.child import no_child, run_in_child
from trtdiag.fixdims.child_export import exported_alone, import_for_exports, planned, ran, trial
from trtdiag.fixdims.confirmation import confirmation, refusals
from trtdiag.fixdims.error_text.from_text import fix_text
from trtdiag.fixdims.export_result import Tried, read_program
from trtdiag.fixdims.fix import Change, Confirmation, DataCheck, Fix, Outcome, UnreadCondition
from trtdiag.fixdims.loop import Found, Search
from trtdiag.fixdims.several_programs.assemble import MOST_PROGRAMS, OFFERED, several_of
from trtdiag.fixdims.sources import ModelSource, ProgramSource, TextSource, read_source
from trtdiag.fixdims.time_budget import DEFAULT_SOLVE_S, Allowance
from trtdiag.frontend.data_dependent.torch_checks import NeededCheck, needed_checks
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.module_inputs import Inputs, module_inputs
from trtdiag.frontend.program import Program
from trtdiag.frontend.reexport import program_recipe
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.option_warnings import OptionWarning, warn_of
from trtdiag.symbolic import Proof, ProofKind
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.text import in_words

DEFAULT_LIMIT_S = 600.0
DEFAULT_ROUNDS = 8
MOST_OPEN = 3

_NO_MAX = re.compile(r"\w+ = Dim\((?!.*max=).*\)")

Progress = Callable[[str], None]


@checked(
    args=optional(examples),
    kwargs=optional(mapping),
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
    time_limit_s: float = DEFAULT_LIMIT_S,
    solve_limit_s: float = DEFAULT_SOLVE_S,
    rounds: int = DEFAULT_ROUNDS,
    programs: int | None = None,
    progress: Progress | None = None,
) -> Fix:
    """Find ``dynamic_shapes`` with which a model exports and takes every size that they admit.

    Args:
        source: A module (with ``args``), a tuple ``(module, args, kwargs, dynamic_shapes)``, a callable or
            ``"package.module:factory"`` that gives one, an ``ExportedProgram``, the path of a ``.pt2``/``.ep`` file,
            the path of a log, or an error text itself.
        args: Example inputs, where ``source`` is a module.
        kwargs: The same by keyword.
        dynamic_shapes: What was asked, where ``source`` is a module: in any form that ``torch.export.export`` takes.
        inputs: In the place of these three: ``Input``s and tensors, as for ``analyze``.
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
        DimsError: ``dynamic_shapes`` does not fit the inputs, a text states no condition, or ``programs`` is out of
            range.
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
    step = progress or _silent
    if inputs is not None:
        asked = module_inputs(source, inputs, beside=(args, kwargs, dynamic_shapes)).recipe()
        args, kwargs, dynamic_shapes = asked.args, asked.kwargs, asked.dynamic_shapes
    given = {"args": args, "kwargs": kwargs, "dynamic_shapes": dynamic_shapes}
    read = read_source(source, args, kwargs, dynamic_shapes, step)
    if not isinstance(source, torch.nn.Module):
        why = "it belongs to a module alone, and this source brings its own"
        warn_of(OptionWarning(name, value, why) for name, value in given.items() if value is not None)
    if isinstance(read, TextSource):
        limits = (("time_limit_s", time_limit_s, DEFAULT_LIMIT_S), ("solve_limit_s", solve_limit_s, DEFAULT_SOLVE_S))
        counts = (("rounds", rounds, DEFAULT_ROUNDS), ("programs", programs, None))
        why = "a text has no model to export"
        warn_of(OptionWarning(name, value, why) for name, value, usual in (*limits, *counts) if value != usual)
        with TORCH_TURN:
            return fix_text(read.text, read.label)
    if isinstance(read, ProgramSource):
        return _fix_program(read, time_limit_s, Allowance(solve_limit_s, exports=True), rounds, programs, step)
    return _fix_model(read, time_limit_s, Allowance(solve_limit_s), rounds, programs, step)


def _silent(step: str) -> None:
    del step


def _fix_model(
    source: ModelSource, limit_s: float, solving: Allowance, rounds: int, programs: int | None, step: Progress
) -> Fix:
    recipe = source.recipe
    structure = structure_of(recipe)
    asked = asked_plan(structure)
    exporter = _Exporter(recipe, structure, asked, limit_s, step, solving)
    examples = _examples(structure)
    found = Search(asked, examples, exporter.attempt, rounds, solving=solving).run()
    checks = exporter.data_checks() if found.from_data else ()
    if checks:
        # What the dims must be once the checks are written: the conditions behind the first check are known only so.
        words, exporter.assume = found.failure, True
        found = Search(asked, examples, exporter.attempt, rounds, solving=solving).run()
        found.failure = words
    fix = _assembled(source, recipe, structure, asked, found, checks, exporter.notes())
    return fix if checks or solving.look() else _with_several(fix, found, exporter, rounds, programs)


def _fix_program(
    source: ProgramSource, limit_s: float, solving: Allowance, rounds: int, programs: int | None, step: Progress
) -> Fix:
    program = source.program
    asked = program_plan(program)
    with TORCH_TURN:
        recipe = program_recipe(program)
        known = read_program(program)
    if recipe is None:
        why = "the file keeps no example inputs, and not all of them are tensors"
        found = Search(asked, {}, lambda _plan, _why: why, rounds, known, solving).run()
        return _without_module(source, asked, found)
    structure = structure_of(recipe)
    known = _run_known(known, program, asked, recipe, solving.least(limit_s) / 2, step)
    exporter = _Exporter(recipe, structure, asked, limit_s, step, solving, original=False)
    found = Search(asked, _examples(structure), exporter.attempt, rounds, known, solving).run()
    fix = _assembled(source, recipe, structure, asked, found, (), exporter.notes())
    return fix if solving.look() else _with_several(fix, found, exporter, rounds, programs)


def _with_several(fix: Fix, found: Found, exporter: _Exporter, rounds: int, programs: int | None) -> Fix:
    """``fix`` with the programs that together take more than it alone."""
    if programs == 1 or fix.outcome is Outcome.IMPOSSIBLE:
        return fix
    several = several_of(
        exporter.asked,
        found,
        _examples(exporter.structure),
        None if programs is None else exporter.attempt,
        rounds,
        programs or OFFERED,
        lambda plan: (planned(exporter.recipe, exporter.structure, plan), spell(plan, exporter.structure).code),
    )
    return replace(fix, several=several)


def _run_known(known: Tried, program: Program, asked: Plan, recipe: Recipe, limit_s: float, step: Progress) -> Tried:
    """What a program that was exported long ago says at the ends of its ranges."""
    exported = program.exported
    if exported is None:
        return known
    step("run at its smallest and largest sizes")
    ended = run_in_child(lambda: ran(known, exported, asked, recipe, limit_s), limit_s)
    return replace(known, unrun=ended.failure) if ended.value is None else ended.value


class _Exporter:
    """Exports one model with plans, each in a child process."""

    def __init__(
        self,
        recipe: Recipe,
        structure: Structure,
        asked: Plan,
        limit_s: float,
        step: Progress,
        solving: Allowance,
        *,
        original: bool = True,
    ) -> None:
        self.recipe, self.structure, self.asked = recipe, structure, asked
        self.limit_s, self.step, self.original = limit_s, step, original
        self.solving = solving
        self.count = 0
        self.here = False
        self.assume = False

    def attempt(self, plan: Plan, why: str) -> Tried | str:
        """One export; a text where there is no answer at all."""
        self.count += 1
        self.step(f"export {self.count}: {why}")
        # The user's own object goes to torch as it is: what it says may be more than a plan can hold.
        given = self.recipe.dynamic_shapes if self.original and plan is self.asked else None
        given = given if self.recipe.dynamic_shapes is not None else None
        if not no_child():
            import_for_exports()
        ended = run_in_child(
            lambda: trial(
                self.recipe,
                plan,
                given,
                lambda: planned(self.recipe, self.structure, plan),
                assume=self.assume,
                limit_s=self.limit_s,
                own_s=self.solving.least(inf),
            ),
            self.solving.least(self.limit_s) if self.solving.exports else self.limit_s,
        )
        self.here = self.here or ended.here
        if ended.timed_out and self.solving.exports and self.solving.look():
            return self.solving.words
        if ended.timed_out:
            return f"{ended.failure}: give torch.export more time, or make fewer dims dynamic"
        return ended.failure if ended.value is None else ended.value

    def data_checks(self) -> tuple[DataCheck, ...]:
        """The checks that a model whose sizes come from data needs."""
        self.step("export with data-dependent conditions assumed")
        recipe = self.recipe
        ended = run_in_child(
            lambda: needed_checks(recipe.module, recipe.args, recipe.kwargs, recipe.dynamic_shapes), self.limit_s
        )
        if ended.value is None:
            return ()
        return tuple(_data_check(check, confirmed=ended.value.traced) for check in ended.value.checks)

    def notes(self) -> tuple[str, ...]:
        """What the reader should know about how the exports ran."""
        why = no_child() if self.here else ""
        return (f"the exports ran in this process, without a time limit: {why}",) if why else ()


def _data_check(check: NeededCheck, *, confirmed: bool) -> DataCheck:
    return DataCheck(check.code, check.place, check.condition, confirmed=confirmed, note=check.note)


def _examples(structure: Structure) -> dict[str, int]:
    return {site: dim.size for site, dim in structure.dims.items()}


def _assembled(
    source: ModelSource | ProgramSource,
    recipe: Recipe,
    structure: Structure,
    asked: Plan,
    found: Found,
    checks: tuple[DataCheck, ...],
    notes: tuple[str, ...],
) -> Fix:
    original = isinstance(source, ModelSource) and recipe.dynamic_shapes is not None
    refused = refusals(found)
    proof = found.proof
    if found.last is not None and found.last.unread:
        proof = Proof(ProofKind.NONE, found.proof.checked, "a condition was not read")
    if refused and found.plan is not None:
        proof = Proof(ProofKind.NONE, found.proof.checked, f"the program fails at {refused[0]}")
    ranks = {tensor.name: len(tensor.dims) for tensor in (found.last.inputs if found.last else ())}
    spelled = spell(asked if found.plan is None else found.plan, structure)
    fix = _answer(source, asked, found, proof, ranks, spelled, confirmation(found, refused, assumed=bool(checks)))
    refusing = bool(found.failure) and not found.confirmed
    # The model itself has to change first, or torch takes nothing.
    outcome = Outcome.IMPOSSIBLE if checks or refusing else fix.outcome
    used = planned(recipe, structure, fix.plan)
    # The export without changes is the user's own, words included.
    own = outcome is Outcome.UNCHANGED and recipe.dynamic_shapes is not None
    final = replace(used, dynamic_shapes=recipe.dynamic_shapes) if own else used
    return replace(
        fix,
        outcome=outcome,
        dynamic_shapes=final.dynamic_shapes,
        asked_code=asked_code(structure) if original else spell(asked, structure).code,
        checks=tuple(replace(check, condition=_named(found, check.condition)) for check in checks),
        notes=(*fix.notes, *notes),
        args=final.args,
        kwargs=final.kwargs,
        make_program=lambda: exported_alone(final),
    )


def _without_module(source: ProgramSource, asked: Plan, found: Found) -> Fix:
    """A program that cannot be exported again: the solved plan, unconfirmed."""
    inputs = [(tensor.name, len(tensor.dims)) for tensor in source.program.inputs]
    spelled = spell_sites(asked if found.plan is None else found.plan, inputs)
    untried = Confirmation(None, 0, (), "the file has no example inputs to export again with")
    fix = _answer(source, asked, found, found.proof, dict(inputs), spelled, untried)
    return replace(fix, asked_code=spell_sites(asked, inputs).code)


def _answer(
    source: ModelSource | ProgramSource,
    asked: Plan,
    found: Found,
    proof: Proof,
    ranks: Mapping[str, int],
    spelled: Spelled,
    tried: Confirmation,
) -> Fix:
    """What a search came to, as far as nothing is exported with it."""
    plan = asked if found.plan is None else found.plan
    changes: tuple[Change, ...] = ()
    if found.plan is not None:
        changes = changes_between(asked, plan, found.notebook.sites, proof, _worked_out(found))
        changes = with_model_changes(changes, asked, plan, ranks)
    outcome = Outcome.CHANGED if changes or not same_plan(asked, plan) else Outcome.UNCHANGED
    return Fix(
        label=source.label,
        source=source.kind,
        outcome=Outcome.IMPOSSIBLE if found.plan is None else outcome,
        plan=plan,
        dynamic_shapes=spelled.dynamic_shapes,
        code=_commented(spelled.code),
        asked_code="",
        changes=changes,
        proof=proof,
        confirmation=tried,
        unread=tuple(
            UnreadCondition(guard.text, guard.why) for guard in (found.last.unread if found.last is not None else ())
        ),
        conflicts=tuple(found.conflicts),
        notes=(*(_named(found, note) for note in found.notes), *_undecided(found)),
        failure=_named(found, found.failure),
    )


def _worked_out(found: Found) -> set[str]:
    """The sites whose size follows from several others."""
    inputs = () if found.last is None else found.last.inputs
    return {dim.site for tensor in inputs for dim in tensor.dims if affine(dim.expr) is None}


def _named(found: Found, text: str) -> str:
    """The words of torch or of a stage with sizes by the user's names."""
    return text if found.last is None else in_words(text, found.last.names)


def _undecided(found: Found) -> tuple[str, ...]:
    """The conditions that are neither shown to hold nor mended."""
    if not found.open or found.plan is None:
        return ()
    rest = f" and {len(found.open) - MOST_OPEN} more" if len(found.open) > MOST_OPEN else ""
    return (f"not decided over the suggested sizes: {'; '.join(found.open[:MOST_OPEN])}{rest}",)


def _commented(code: str) -> str:
    """The code with a word at each Dim that has no largest size."""
    lines = [
        f"{line}  # give it max=: TensorRT builds for sizes up to one" if _NO_MAX.fullmatch(line) else line
        for line in code.splitlines()
    ]
    return "\n".join(lines) + "\n"
