"""The answer of ``fix-dims`` in sentences: verdict, proof, what was not checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.fixdims.fix import Change, DataCheck, Fix, Outcome, UnreadCondition
from trtdiag.report.shown_paths import place
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.wording import LONG_CHARS, amount, joined, listed, one_line, share_text

"""How the verdict begins where no other dims are known, and the program is not right as it is."""
_MOST_NAMED = 4
_BOTH_ENDS = 2
_MOST_SIZES = 6
# torch 2.11 to 2.15: AssertionError "expected sympy.Symbol"; the live program works.
_DERIVED = (
    "a program with derived Dims (8*_h) that was saved and loaded cannot run_decompositions() in torch 2.11 to 2.15: "
    "do that before saving, or export loaded.module() again"
)
_COUNTED = re.compile(r": ([\d,]+) of [\d,]+ values$")
_EXACT = {
    ProofKind.PERIODIC: "exact, by algebra over residue classes",
    ProofKind.MONOTONE: "exact, by bounds over the ranges",
    ProofKind.SMT: "exact, by z3: no size breaks it",
}
_WHAT = {  # where every change is of this kind
    "example": "the example needs another size in {}",
    "hint": "{} must be declared in other words",
    "bound": "{} {have} no largest size",
}


@dataclass(frozen=True)
class FixVerdict:
    """One line about a fix: ``status`` is ``good``, ``changed`` or ``impossible``."""

    status: str
    text: str


def fix_verdict(fix: Fix) -> FixVerdict:
    """How it ended, in one line."""
    if fix.outcome is Outcome.IMPOSSIBLE:
        return FixVerdict("impossible", _impossible(fix))
    if fix.outcome is Outcome.UNCHANGED:
        told = "nothing found to change" if fix.confirmation.exported is False else "nothing to change"
        return FixVerdict("good" if fix.proven else "changed", f"{told}: {_certainty(fix)}")
    return FixVerdict("changed", f"{_what_changes(fix)}: {_certainty(fix)}")


def proof_words(proof: Proof) -> str:
    """How a statement was shown: ``all 254 values tried``, ``not proven: ...``."""
    if proof.kind is ProofKind.EXHAUSTIVE:
        # Values of what is left of the conditions, not of the dim: 8*_h % 8 == 0 leaves none to try.
        return f"exact, every case tried{f' ({proof.checked:,})' if proof.checked > 1 else ''}"
    tried = f", {amount(proof.checked, 'value')} tried" if proof.kind is ProofKind.SAMPLED else ""
    detail = f": {one_line(proof.detail, LONG_CHARS)}" if proof.detail else ""
    return _EXACT.get(proof.kind, f"not proven{tried}{detail}")


def not_checked(fix: Fix) -> list[str]:
    """What the answer does not cover, one sentence each."""
    found = []
    if fix.confirmation.exported is None and not fix.confirmation.note:
        found.append("the export with this declaration: there is no model at hand")
    elif fix.confirmation.exported and not (fix.confirmation.ran or fix.confirmation.ran_on_data):
        found.append("the exported program was not run at the ends of its ranges")
    if fix.confirmation.note:
        found.append(fix.confirmation.note)
    found += [f"on real data: {why}" for why in fix.confirmation.not_on_data]
    shapes = [sizes for sizes in fix.confirmation.ran if sizes not in fix.confirmation.ran_on_data]
    if shapes:
        others = len(shapes) - _BOTH_ENDS
        more = f"; and at {amount(others, 'more set of sizes', 'more sets of sizes')}" if others > 0 else ""
        told = (one_line(listed(sizes.split(", "), _MOST_SIZES), LONG_CHARS) for sizes in shapes[:_BOTH_ENDS])
        found.append(f"run on shapes alone at {'; '.join(told)}{more}")
    if fix.outcome is not Outcome.IMPOSSIBLE:
        some = "outputs were compared with the model's at most where the program was run on tensors"
        found.append(f"numerics: {some if fix.confirmation.ran_on_data else 'no outputs were compared'}")
    return found


def all_notes(fix: Fix) -> list[str]:
    """The notes of the answer, and what torch cannot do with what it declares."""
    derived = any(
        leaf.kind is LeafKind.DIM and (leaf.scale, leaf.offset) != (1, 0) for leaf in fix.plan.leaves.values()
    )
    said = fix.outcome is Outcome.CHANGED and derived
    return [*fix.notes, *([_DERIVED] if said else [])]


def extent_words(change: Change, plan: Plan) -> str:
    """The sizes of a derived dim, ``136..2160 in steps of 8``; empty for any other."""
    leaf = plan.leaves.get(change.sites[0]) if change.sites else None
    if leaf is None or leaf.kind is not LeafKind.DIM or (leaf.scale, leaf.offset) == (1, 0):
        return ""
    sizes = plan.range_of(leaf.root).scaled(leaf.scale, leaf.offset)
    steps = [f"in steps of {leaf.scale}"] if leaf.scale > 1 else []
    return " ".join([str(sizes), *steps] if sizes.bounded else steps)


def allowed_words(change: Change, plan: Plan) -> str:
    """What the guards allow, where that is more than the change admits; else empty."""
    counted = _COUNTED.search(change.allowed)
    if not change.allowed or change.allowed in change.after:
        return ""
    if counted is None or change.kept is None:
        return f"allow {change.allowed}"
    more = int(counted[1].replace(",", "")) > change.kept[0]
    return f"allow {change.allowed}{' (no one Dim says that)' if extent_words(change, plan) else ''}" if more else ""


def joined_words(change: Change, plan: Plan) -> str:
    """`` (mask.shape[1] is made of it now)`` where other dims share this one's Dim."""
    root = plan.leaves[change.sites[0]].root if change.sites and change.sites[0] in plan.leaves else ""
    others = [site for site, leaf in plan.leaves.items() if root and leaf.root == root and site not in change.sites]
    shown = joined([one_line(site) for site in others[:_MOST_NAMED]]) if others else ""
    return f" ({shown} {'is' if len(others) == 1 else 'are'} made of it now)" if shown else ""


def kept_words(kept: tuple[int, int] | None) -> str:
    """``254 of 2,026 values``, ``all 2,026 values``; empty where that is not known."""
    if kept is not None and kept[0] == kept[1] > 1:
        return f"all {kept[1]:,} values"
    return share_text(kept)


def example_words(plan: Plan) -> str:
    """``x.shape[0] = 2``: the sizes that the example inputs need."""
    return ", ".join(f"{one_line(site)} = {size}" for site, size in plan.sizes.items())


def _what_changes(fix: Fix) -> str:
    changes = [change for change in fix.changes if change.before != change.after] or fix.changes
    names = list(dict.fromkeys(one_line(change.name, 60) for change in changes))
    parts = []
    if names:
        shown = joined(names) if len(names) <= _MOST_NAMED else f"{len(names)} dims"
        kinds = {"" if change.kind == "hint" and change.lost else change.kind for change in changes}
        told = _WHAT.get(kinds.pop() if len(kinds) == 1 else "", "{} must change")
        parts.append(told.format(shown, have="has" if len(names) == 1 else "have"))
    if fix.checks:
        parts.append(f"the model needs {amount(len(fix.checks), 'check')}")
    return " and ".join(parts) or "the declaration must change"


def _certainty(fix: Fix) -> str:
    sure = fix.confirmation
    parts = ["proven" if fix.proven else f"not proven ({_why_unproven(fix)})"]
    if sure.exported is None:
        parts.append("not exported (no model at hand)")
    elif not sure.exported:
        parts.append("exported" if sure.refuted is not None else "the export with it did not pass")
    else:
        again = "exported" if fix.outcome is Outcome.UNCHANGED else "exported again"
        parts.append(again if sure.rounds <= 1 else f"{again} in {sure.rounds} rounds")
        parts.append(_run_words(fix))
    return ", ".join(parts)


def _run_words(fix: Fix) -> str:
    """At how many sizes it was run on tensors."""
    sure = fix.confirmation
    if not sure.ran_on_data:
        return "not run on real data"
    if len(sure.ran_on_data) == 1:
        return f"run at {one_line(sure.ran_on_data[0])}"
    ends = len(sure.ran) >= _BOTH_ENDS and set(sure.ran[:_BOTH_ENDS]) <= set(sure.ran_on_data)
    if ends and not _open_ended(fix.plan):
        return "run at its smallest and largest sizes"
    return f"run at {amount(len(sure.ran_on_data), 'of its sizes', 'of its sizes')}"


def _open_ended(plan: Plan) -> bool:
    """Whether some dim has no largest size that could have been run."""
    ends = (
        plan.range_of(leaf.root).max if leaf.kind is LeafKind.DIM else leaf.range.max
        for leaf in plan.leaves.values()
        if leaf.kind in (LeafKind.DIM, LeafKind.DYNAMIC)
    )
    return any(end is None for end in ends)


def doubt_words(fix: Fix) -> str:
    """Why the answer is not proven; empty where it is."""
    return "" if fix.proven else _why_unproven(fix)


def unread_conditions(fix: Fix) -> list[UnreadCondition]:
    """Those that could not be read; others were, and are not solved for."""
    return [guard for guard in fix.unread if not guard.read]


def _why_unproven(fix: Fix) -> str:
    if fix.unread:
        one = len(fix.unread) == 1
        if not unread_conditions(fix):
            return f"{len(fix.unread):,} {'condition speaks' if one else 'conditions speak'} of integers"
        return f"{len(fix.unread):,} {'condition was' if one else 'conditions were'} not read"
    if fix.proof.proven:
        return "all conditions hold, and no export has confirmed that there are no others"
    if fix.proof.kind is ProofKind.SAMPLED:
        return f"{amount(fix.proof.checked, 'value')} tried"
    return one_line(fix.proof.detail) or "nothing was shown"


def _impossible(fix: Fix) -> str:
    if fix.conflicts:
        number = len(fix.conflicts[0].reasons)
        why = "its condition has no solution" if number == 1 else f"{number} conditions contradict each other"
        return f"no dims can make this export: {why}"
    if fix.checks:
        return f"no dims alone can make this export: the model needs {amount(len(fix.checks), 'check')}"
    if fix.failure.strip():
        return f"the export fails: {one_line(fix.failure.strip().splitlines()[0], 200)}"
    return f"no answer: {one_line(fix.notes[0], LONG_CHARS) if fix.notes else 'no reason was found'}"


MOST_CHECKS = 12
"""A model that counts a size in a loop needs one check for each turn: more of them help nobody."""


def many_checks(checks: Sequence[DataCheck]) -> str:
    """What to do where a model needs more checks than anybody would write: one sentence about the line of most."""
    lines = (check.where.best for check in checks)
    frame, most = Counter(line and (line.inside or line) for line in lines).most_common(1)[0]
    where = "in torch's own code" if frame is None else f"at {place(frame)}"
    return (
        f"the export stops at {len(checks)} or more conditions on values that data decides, {most} of them "
        f"{where}: compute these numbers from shapes (x.shape[i]) and not from the values of a tensor (.item(), "
        ".tolist(), int()), or as tensors without a Python number; then no check is needed"
    )
