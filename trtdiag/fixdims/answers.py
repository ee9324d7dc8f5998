"""From a finished search to the answer of ``fix_dims``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from trtdiag.dims.compare_plans import same_plan
from trtdiag.dims.dynamic_shapes.asked import Structure
from trtdiag.dims.dynamic_shapes.code_text import with_missing_maxima
from trtdiag.dims.dynamic_shapes.spell import Spelled, asked_code, spell, spell_sites
from trtdiag.dims.plan import Plan
from trtdiag.dims.solver_input import ONLY_SIZES, dims_in
from trtdiag.fixdims.advice import with_model_changes
from trtdiag.fixdims.changes import changes_between
from trtdiag.fixdims.child_export import exported_alone, planned
from trtdiag.fixdims.confirmation import confirmation, refusals, unlike_model
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.fix import Change, Confirmation, DataCheck, Fix, Outcome, UnreadCondition
from trtdiag.fixdims.search_result import SearchResult
from trtdiag.fixdims.sources import ModelSource, ProgramSource
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.failed_export import told_of_model
from trtdiag.frontend.unguarded_size_uses import EXPORT, FLOAT, KIND, LOOKUP, SIGN, TENS, TEXT
from trtdiag.graph.source import Frame
from trtdiag.symbolic import Proof, ProofKind
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.text import in_words

MOST_OPEN = 3
UNLIKE = (
    "what was exported is another program than the model, as where the model asks whether a size is an int, makes text "
    "of one, asks torch.compiler.is_exporting(), or seeds a generator of random numbers"
)

_INSTEAD = {
    TEXT: "torch.export has the text of a symbol there: compare the size as a number (n == 30), which it guards",
    FLOAT: "torch.export joins such steps into one: compare whole numbers (10 * n >= 3 * m), which it guards exactly",
    TENS: "torch.export leaves it as it is: write 10 * round(n / 10)",
    KIND: "torch.export has no int there: ask isinstance(n, (int, torch.SymInt))",
    SIGN: "torch.export has -1 ** n in its code, which Python reads as -(1 ** n): write 1 - 2 * (n % 2) for the sign",
    LOOKUP: "torch.export has no number there: compare the size (n == 30), which it guards",
    EXPORT: "what it does otherwise is in no program: let it do the same either way",
}
"""What to write in the place of each way to ask of a size what torch guards nowhere."""


def answer_of(
    source: ModelSource | ProgramSource,
    recipe: Recipe,
    structure: Structure,
    asked: Plan,
    found: SearchResult,
    checks: tuple[DataCheck, ...],
    notes: tuple[str, ...],
    form_refused: str = "",
) -> Fix:
    """The answer that a search came to, with the export that confirms it.

    Args:
        source: What was given.
        recipe: The model with example inputs.
        structure: Its inputs, and what was asked for them.
        asked: The same as a plan.
        found: The search.
        checks: What the model needs where sizes come from data; it was then exported with these assumed.
        notes: More for the reader.
        form_refused: torch's words where it takes what was asked in no such form, as entries of ``*args`` without a
            tuple of their own.
    """
    original = isinstance(source, ModelSource) and recipe.dynamic_shapes is not None
    refused, unlike = refusals(found), "" if found.plan is None else unlike_model(found)
    proof = found.proof
    if found.last is not None and found.last.unread:
        why = "a condition was not read"
        if all(guard.read for guard in found.last.unread):
            why = f"a condition speaks of an integer, and {ONLY_SIZES}"
        proof = Proof(ProofKind.NONE, found.proof.checked, why)
    if refused and found.plan is not None:
        proof = Proof(ProofKind.NONE, found.proof.checked, f"the program fails at {refused[0]}")
    last = None if found.plan is None else found.last
    if last is not None and unlike:
        proof = Proof(ProofKind.NONE, found.proof.checked, unlike)
        notes = (*notes, *([UNLIKE] if last.on_data.unlike else []), *_escapes(last))
    elif last is not None and last.on_data.failed:
        proof = Proof(ProofKind.NONE, found.proof.checked, last.on_data.unrun)
    elif last is not None and last.on_data.unseen:
        said = f"the model {last.escapes[0].how}, which no guard of torch.export says, and {last.on_data.unseen}"
        proof = Proof(ProofKind.NONE, found.proof.checked, said)
        notes = (*notes, *_escapes(last))
    notes = (*notes, *(() if last is None else last.on_data.at_zero))
    ranks = {tensor.name: len(tensor.dims) for tensor in (found.last.inputs if found.last else ())}
    spelled = spell(asked if found.plan is None else found.plan, structure)
    tried = confirmation(found, refused, unlike, assumed=bool(checks))
    fix = _answer(source, asked, found, proof, ranks, spelled, tried)
    refusing = bool(found.failure) and not found.confirmed
    # The model itself has to change first, or torch takes nothing.
    outcome = Outcome.IMPOSSIBLE if checks or refusing else fix.outcome
    if outcome is Outcome.UNCHANGED and form_refused:
        outcome = Outcome.CHANGED
        said = "; ".join(told_of_model(form_refused)[:1])
        notes = (*notes, f"torch does not take the dynamic_shapes as they are written: {said}")
    used = planned(recipe, structure, fix.plan)
    # The export without changes is the user's own, words included.
    own = outcome is Outcome.UNCHANGED and recipe.dynamic_shapes is not None
    final = replace(used, dynamic_shapes=recipe.dynamic_shapes) if own else used
    # A program that takes what it was asked is the answer itself: its Dims may have been hints, which say more.
    known = source.program.exported if isinstance(source, ProgramSource) and outcome is Outcome.UNCHANGED else None
    return replace(
        fix,
        outcome=outcome,
        dynamic_shapes=final.dynamic_shapes,
        asked_code=asked_code(structure) if original else spell(asked, structure).code,
        checks=tuple(_in_names(found, check) for check in checks),
        notes=(*fix.notes, *notes),
        args=final.args,
        kwargs=final.kwargs,
        make_program=lambda: known or exported_alone(final),
    )


def answer_unconfirmed(source: ProgramSource, asked: Plan, found: SearchResult) -> Fix:
    """A program that cannot be exported again: the solved plan, unconfirmed."""
    inputs = [(tensor.name, len(tensor.dims)) for tensor in source.program.inputs]
    spelled = spell_sites(asked if found.plan is None else found.plan, inputs)
    untried = Confirmation(None, 0, (), "the file has no example inputs to export again with")
    fix = _answer(source, asked, found, found.proof, dict(inputs), spelled, untried)
    return replace(fix, asked_code=spell_sites(asked, inputs).code)


def _answer(
    source: ModelSource | ProgramSource,
    asked: Plan,
    found: SearchResult,
    proof: Proof,
    ranks: Mapping[str, int],
    spelled: Spelled,
    tried: Confirmation,
) -> Fix:
    """What a search came to, as far as nothing is exported with it."""
    plan = asked if found.plan is None else found.plan
    changes: tuple[Change, ...] = ()
    if found.plan is not None:
        dims = [] if found.last is None else dims_in(found.last.inputs, plan)
        worked_out = {dim.site for dim, _leaf in dims if affine(dim.expr) is None}  # their size follows from others
        changes = changes_between(asked, plan, found.notebook.sites, proof, worked_out)
        changes = with_model_changes(changes, asked, plan, ranks)
    outcome = Outcome.CHANGED if changes or not same_plan(asked, plan) else Outcome.UNCHANGED
    return Fix(
        label=source.label,
        source=source.kind,
        outcome=Outcome.IMPOSSIBLE if found.plan is None else outcome,
        plan=plan,
        dynamic_shapes=spelled.dynamic_shapes,
        code=with_missing_maxima(spelled.code),
        asked_code="",
        changes=changes,
        proof=proof,
        confirmation=tried,
        unread=tuple(
            UnreadCondition(guard.text, guard.why, guard.read)
            for guard in (found.last.unread if found.last is not None else ())
        ),
        conflicts=tuple(found.conflicts),
        notes=(*_stopped(found), *(_named(found, note) for note in found.notes), *_undecided(found)),
        failure=_named(found, "\n".join(told_of_model(found.failure))),
    )


def _named(found: SearchResult, text: str) -> str:
    """The words of torch or of a stage with sizes by the user's names."""
    return text if found.last is None else in_words(text, found.last.names)


def _in_names(found: SearchResult, check: DataCheck) -> DataCheck:
    """A check with its condition by the user's names, and its note, but for symbols that its code has."""
    names = {} if found.last is None else found.last.names
    in_code = set(re.findall(r"\w+", check.code))
    outside = {symbol: name for symbol, name in names.items() if symbol not in in_code}
    return replace(check, condition=_named(found, check.condition), note=in_words(check.note, outside))


def _escapes(last: Tried) -> tuple[str, ...]:
    """The lines at which the model asked of sizes what torch guards nowhere, with what to do."""
    told = []
    for escape in last.escapes[:MOST_OPEN]:
        frame = escape.stack.best
        frame = frame if frame is None or frame.inside is None else frame.inside
        at = "" if frame is None else f" at {frame}: {frame.code.strip()}"
        told.append(f"the model {escape.how}{at}. {_INSTEAD[escape.how]}")
    return tuple(told)


def _stopped(found: SearchResult) -> tuple[str, ...]:
    """The line of the model at which torch gave up, where it was torch."""
    frame = None if found.last is None or found.failure != found.last.message else found.last.stack.best
    if frame is None or not found.failure:
        return ()
    inside = "" if frame.inside is None else f", in {_line(frame.inside, frame.inside.short)}"
    return (f"torch.export stops at {_line(frame, PurePath(frame.short).name)}{inside}",)


def _line(frame: Frame, place: str) -> str:
    return f"{place}: {frame.code}" if frame.code else place


def _undecided(found: SearchResult) -> tuple[str, ...]:
    """The conditions that are neither shown to hold nor mended."""
    if not found.open or found.plan is None:
        return ()
    rest = f" and {len(found.open) - MOST_OPEN} more" if len(found.open) > MOST_OPEN else ""
    return (f"not decided over the suggested sizes: {'; '.join(found.open[:MOST_OPEN])}{rest}",)
