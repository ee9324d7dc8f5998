"""``fix_dims`` with no model at hand: corrected dims from an export error or log alone."""

from __future__ import annotations

import re
from dataclasses import replace

from trtdiag.dims.compare_plans import same, same_plan
from trtdiag.dims.declare import declared, respelled
from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.dims.solver.choose import Chosen, choose
from trtdiag.dims.solver_input import LOWEST_HINTED, LOWEST_NAMED, asked_range
from trtdiag.dims.torch_text.facts import ExportErrorText
from trtdiag.dims.torch_text.lines import errors_apart
from trtdiag.dims.torch_text.read import read_export_error
from trtdiag.errors import DimsError
from trtdiag.fixdims.advice import with_model_changes
from trtdiag.fixdims.changes import changes_between
from trtdiag.fixdims.error_text.checks import data_checks
from trtdiag.fixdims.error_text.code import asked_text, outside_code, spelled_text
from trtdiag.fixdims.error_text.examples import example_sizes, inside, outside_changes, solved_examples
from trtdiag.fixdims.error_text.reasons import noted, reason_of
from trtdiag.fixdims.error_text.system import TextSystem, system_of_text
from trtdiag.fixdims.fix import Change, Confirmation, ConflictSet, Fix, Outcome, Reason
from trtdiag.symbolic import BoundsCache, Proof, ProofKind, Range, free_symbols

LIMIT_S = 20.0
"""For solving everything that one text states."""

_SEVERAL = 2
_NO_MODEL = "a text has no model to export with"
_NOT_ALL = (
    "a text does not have every guard: torch names none on several symbols, and none that it used up to replace one "
    "size by another; the model itself has them"
)
_ONE_SIZE = "torch's solver left one size only, perhaps because of guards that it does not name"
_ZERO_ONE = (
    "torch.export takes sizes 0 and 1 for constants, so the text has no conditions about them: what is said here is "
    "about sizes of 2 and more"
)
_POSITIONAL = (
    "the text numbers the inputs: args[0] is the first positional one, flat_args[0] the first tensor of all; put the "
    "names of the parameters there"
)
_HINT = "torch refuses a plain Dim there, as it cannot see that its guards always hold; the hint has the same bounds"
_NOTHING_READ = "what the text says could not be read, so nothing is suggested"
_OF_DATA = "sizes that data decides are no input dims: no Dim helps, a torch._check in the model does"
_SUGGESTED = "part of this is torch's own suggestion, for dims of which the text states no guard"


# What torch raises in place of the guards: torch 2.4.1, 2.13.
_SOLVER_FAILURE = re.compile(
    r"Node arity mismatch; expected \d{1,9}, but got \d{1,9}"
    r"|Cannot create Dim with inconsistent min=-?\d{1,40}, max=-?\d{1,40}"
    r"|cannot be solved using\s+solve_univariate_inequality"
    r"|Expected op to be '==', got \S{1,3}"
)


def fix_text(text: str, label: str = "the given text", *, limit_s: float = LIMIT_S) -> Fix:
    """Corrected dims from an export error, a traceback or a log.

    A text with several errors gets an answer to the first, with those to the ``others`` in it: what one export needs
    says nothing of another.

    Args:
        text: Anything; limits are those of ``read_export_error``.
        label: What to call it.
        limit_s: Seconds for solving; what is not decided then is said to be open.

    Raises:
        DimsError: The text states no condition on sizes.
    """
    reads = [read_export_error(part) for part in errors_apart(text)]
    distinct = [read for i, read in enumerate(reads) if _states(read) and not any(map(read.repeats, reads[:i]))]
    if len(distinct) < _SEVERAL:
        return _fix(read_export_error(text) if len(reads) > 1 else reads[0], text, label, limit_s)
    fixes = [
        _fix(read, text, label if not i else f"error {i + 1} of {len(distinct)}", limit_s / len(distinct))
        for i, read in enumerate(distinct)
    ]
    first = fixes[0]
    note = f"the text has {len(fixes)} different errors: this is the answer to the first, the others follow it"
    return replace(first, notes=(*first.notes, note), others=tuple(fixes[1:]))


def _states(read: ExportErrorText) -> bool:
    """Whether the text says anything to answer."""
    return bool(read.guards or read.unread or read.outside or read.suggestions or read.solved)


def _fix(read: ExportErrorText, text: str, label: str, limit_s: float) -> Fix:
    """The answer to one error."""
    if not _states(read):
        raise _no_conditions(text, label)
    system = system_of_text(read)
    asked = system.plan()
    box = {
        symbol: _box(system, symbol, asked_range(asked.leaves[sites[0]], asked))
        for symbol, sites in system.sites.items()
    }
    examples = solved_examples(system, box)
    chosen = choose(tuple(system.conditions), box, examples, limit_s=limit_s)
    if chosen.conflict is not None:
        return _contradictory(label, system, box, asked, chosen)
    final = declared(chosen, system.inputs(), asked, asked)
    held = _held(system, asked, final)
    final = (respelled(final, held) or final) if held else final
    final = _as_written(replace(final, sizes=example_sizes(system, final)), asked)
    return _answer(label, read, system, box, asked, final, chosen, held)


def _no_conditions(text: str, label: str) -> DimsError:
    """The error for a text that states nothing, with torch's own failure where it hid the guards."""
    failed = _SOLVER_FAILURE.search(text)
    because = (
        "none of the sentences was found with which torch.export names one ('Not all values of h = ... satisfy the "
        "generated guard ...', 'You marked h as dynamic but ...', 'must always be equal', 'Could not guard on "
        "data-dependent expression ...', '... [guard added]', '64 not in range [135, 2160]')"
    )
    fix = "paste the whole message of the failing torch.export.export, from 'Constraints violated' to its end"
    if failed is not None:
        because = f"torch's own solver failed ({failed[0]!r}) before it could name the guards"
        fix = "nothing more is in this message"
    return DimsError(
        f"{label!r} states no condition on sizes",
        because=because,
        fix=f'{fix}; run again with TORCH_LOGS="+dynamic" and give that log, or give the model as '
        "package.module:factory",
        reference="no-conditions-in-text",
    )


def _box(system: TextSystem, symbol: str, range_: Range) -> Range:
    """The range to solve in: down to 0 or 1 where that is the size that torch took."""
    taken = [system.constants[symbol]] if symbol in system.constants else []
    low = min([*taken, range_.min or 0])
    return Range(low if low < LOWEST_HINTED else range_.min, range_.max)


def _as_written(final: Plan, asked: Plan) -> Plan:
    """``final`` without the lower ends that were only filled in: an open end stays open."""
    written = {definition.name: definition.range for definition in asked.defs}
    defs = []
    for definition in final.defs:
        was = written.get(definition.name)
        filled = was is not None and was.min is None and definition.range.min == LOWEST_NAMED
        defs.append(replace(definition, range=Range(None, definition.range.max)) if filled else definition)
    hints = {
        site: replace(leaf, range=Range(None, leaf.range.max))
        for site, leaf in final.leaves.items()
        if leaf.kind is LeafKind.DYNAMIC and leaf.range.min in (LOWEST_NAMED, LOWEST_HINTED)
    }
    return replace(final, defs=tuple(defs), leaves={**final.leaves, **hints})


def _held(system: TextSystem, asked: Plan, final: Plan) -> list[str]:
    """Plain Dims that torch would refuse though their guards always hold, as it cannot see that.

    It refused those that stay as they were.  For others it compares the ends of the range alone (torch 2.13), which
    is what bounds by intervals do.
    """
    found = []
    for symbol, sites in system.sites.items():
        leaf = final.leaves[sites[0]]
        if leaf.kind is not LeafKind.DIM or (leaf.scale, leaf.offset) != (1, 0):
            continue
        own = [c for c, guard in system.conditions.items() if free_symbols(c) == {symbol} and guard.kind == "guard"]
        stays = all(same(asked.leaves[site], asked, final.leaves[site], final) for site in sites)
        ends = BoundsCache({symbol: asked_range(leaf, final).intersect(Range(LOWEST_HINTED, None))})
        unseen = any(ends.intervals.decide(condition) is not True for condition in own)
        if (stays and (own or symbol in system.always)) or unseen:
            found.append(leaf.root)
    return found


def _answer(
    label: str,
    read: ExportErrorText,
    system: TextSystem,
    box: dict[str, Range],
    asked: Plan,
    final: Plan,
    chosen: Chosen,
    held: list[str],
) -> Fix:
    proof = _proof(system, chosen)
    notes = noted(system, box, chosen, final)
    changed = [_honest(c, asked, final) for c in changes_between(asked, final, notes, proof) if c.after != c.before]
    advised = with_model_changes(changed, asked, final)
    changes = (*advised, *outside_changes(read, system, asked, proof))
    final = inside(read, system, asked, final)
    spelled = spelled_text(final)
    solved = bool(system.conditions or system.pinned or read.outside)
    outcome = Outcome.CHANGED if changes else Outcome.UNCHANGED if solved and not system.checks else Outcome.IMPOSSIBLE
    return Fix(
        label=label,
        source="text",
        outcome=outcome,
        plan=final,
        dynamic_shapes=spelled.dynamic_shapes,
        code=spelled.code if final.leaves else outside_code(read.outside) if read.outside else "",
        asked_code="" if same_plan(asked, final) or not system.named else asked_text(asked),
        changes=changes,
        proof=proof,
        confirmation=Confirmation(None, note=_NO_MODEL),
        unread=tuple(system.unread),
        checks=tuple(check for guard in system.checks for check in data_checks(guard)),
        notes=_notes(read, system, changes, chosen, held, final),
    )


def _honest(change: Change, asked: Plan, final: Plan) -> Change:
    """``change`` without a loss where a hint has the bounds that the Dim had."""
    before, after = asked.leaves.get(change.sites[0]), final.leaves.get(change.sites[0])
    if change.kind != "hint" or before is None or after is None:
        return change
    was, now = (
        asked_range(leaf, plan).intersect(Range(LOWEST_HINTED, None))
        for leaf, plan in ((before, asked), (after, final))
    )
    return replace(change, lost="", kept=change.kept and (change.kept[1], change.kept[1])) if was == now else change


def _proof(system: TextSystem, chosen: Chosen) -> Proof:
    if system.unread:
        count = len(system.unread)
        return Proof(ProofKind.NONE, 0, f"{count} statement{'' if count == 1 else 's'} of the text could not be read")
    if system.hinted:
        return Proof(ProofKind.NONE, 0, "torch's suggestion stands in for guards that the text does not state")
    if not system.conditions:
        return Proof(ProofKind.NONE, 0, "the text states no condition on sizes that can be declared")
    return chosen.proof


def _reaches_one(site: str, final: Plan) -> bool:
    """Whether sizes 0 or 1 are admitted there."""
    leaf = final.leaves.get(site)
    if leaf is None or leaf.kind is not LeafKind.DIM:
        return False
    low = asked_range(leaf, final).min
    return low is not None and low < LOWEST_HINTED


def _notes(
    read: ExportErrorText,
    system: TextSystem,
    changes: tuple[Change, ...],
    chosen: Chosen,
    held: list[str],
    final: Plan,
) -> tuple[str, ...]:
    used = [site for sites in system.sites.values() for site in sites]
    notes: tuple[tuple[object, str], ...] = (
        (system.conditions and final.leaves, _NOT_ALL),
        (any(solved.value > 1 for solved in read.solved), _ONE_SIZE),
        (any(_reaches_one(site, final) for change in changes for site in change.sites), _ZERO_ONE),
        (any(site.startswith(("args[", "flat_args[")) for site in used), _POSITIONAL),
        (held, f"{', '.join(held)}: {_HINT}"),
        (system.hinted, _SUGGESTED),
        (chosen.open, f"{len(chosen.open)} conditions could be neither shown to hold nor mended"),
        (not changes and system.unread and not system.conditions, _NOTHING_READ),
        (system.checks, _OF_DATA),
    )
    return tuple(note for holds, note in notes if holds)


def _contradictory(label: str, system: TextSystem, box: dict[str, Range], asked: Plan, chosen: Chosen) -> Fix:
    """Why no sizes satisfy the conditions."""
    assert chosen.conflict is not None
    every = tuple(system.conditions)
    members = [every[index] for index in chosen.conflict.members or ()]
    symbols = sorted({symbol for member in members for symbol in free_symbols(member)} or box)
    reasons: tuple[Reason, ...] = tuple(reason_of(member, system, box) for member in members)
    ranges = tuple(f"{symbol}: {box[symbol]}" for symbol in symbols if symbol in box)
    return Fix(
        label=label,
        source="text",
        outcome=Outcome.IMPOSSIBLE,
        plan=asked,
        dynamic_shapes=None,
        code="",
        asked_code=asked_text(asked),
        changes=(),
        proof=Proof(ProofKind.NONE, 0, "there is no suggestion"),
        confirmation=Confirmation(None, note=_NO_MODEL),
        unread=tuple(system.unread),
        conflicts=(ConflictSet(reasons, ranges, chosen.conflict.proof),),
        checks=tuple(check for guard in system.checks for check in data_checks(guard)),
        notes=(),
    )
