"""Guards that break for the same reason: the same sizes, asked for by the same source line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass

from trtdiag.analysis.finding import Evidence
from trtdiag.analysis.places import line_evidence
from trtdiag.dims.facts import Conflict, Constraint, DimSystem, Verdict
from trtdiag.graph.source import Frame, Stack
from trtdiag.symbolic import Compare, Proof, Relation
from trtdiag.wording import amount, shortened, values_text

_UNBACKED = re.compile(r"z?u[0-9]+")
ASSERTION = re.compile(r"\s*(assert\b|torch\._check)")
_MOST_SHOWN = 6
# The function of torch, the innermost frame of the guard's stack -> which torch asks there, and its source.
_NEEDLESS = {
    "div_rtn": "torch before 2.13 asks whether a pooling's windows divide its input, and the op does not need it"
    " (pytorch pull request 183774)",
}


@dataclass(frozen=True)
class GuardGroup:
    """Constraints with the same symbols and the same source line, the narrowest first.

    Attributes:
        constraints: Never empty; the first one keeps the fewest values.
        symbols: The graph symbols of all of them.
        frame: Their source line, where known.
        by_data: Whether a size that is born from data takes part, so that no declaration can satisfy them.
        following: How many more break only where one of these breaks.
    """

    constraints: tuple[Constraint, ...]
    symbols: tuple[str, ...]
    frame: Frame | None
    by_data: bool
    following: int = 0

    @property
    def only_at_zero(self) -> bool:
        """Whether they break at size 0 only, in a range whose start nobody asked for."""
        return all(c.only_at_zero for c in self.constraints)

    @property
    def cause(self) -> str:
        """The key under which the findings about this group refer to each other."""
        return f"{','.join(self.symbols)} @ {self.frame or 'no line'}"

    @property
    def lead(self) -> Constraint:
        """The constraint that says the most about the group."""
        return self.constraints[0]

    @property
    def branch(self) -> bool:
        """Whether a Python condition with two sides caused it; an assertion has one."""
        asserted = self.frame is not None and ASSERTION.match(self.frame.code)
        return not asserted and any(c.origin.branch for c in self.constraints)


def groups(dims: DimSystem, verdict: Verdict) -> tuple[GuardGroup, ...]:
    """The constraints of a verdict, grouped; groups that refuse the most sizes first, else in torch's order.

    Equalities that have a finding of their own (``DimSystem.tied``, ``DimSystem.pinned``) are left out.  Constraints
    that break only where others break are counted with those, unless a Python condition of their own made them.
    """
    pinned = {pin.origin.stack.best for pin in dims.pinned} - {None}
    tied = [tie.constraint for tie in dims.tied if tie.constraint is not None]
    # torch 2.14 and later name an input's sizes u0 and so on, too, where a ShapesSpec declares them.
    of_inputs = {row.symbol for row in dims.rows}
    found: dict[tuple[tuple[str, ...], Frame | None], list[Constraint]] = {}
    following: Counter[tuple[str, ...]] = Counter()
    for constraint in dims.constraints:
        asked = constraint.origin.asked is not None  # GRD308 reports it
        if constraint.verdict is not verdict or asked or constraint in tied or _pins(constraint, pinned):
            continue
        if constraint.follows and not constraint.origin.branch:
            following[constraint.symbols] += 1
        else:
            frame = constraint.origin.stack.best
            found.setdefault((constraint.symbols, frame), []).append(constraint)
    grouped = [
        GuardGroup(
            constraints=tuple(sorted(constraints, key=_share_kept)),
            symbols=symbols,
            frame=frame,
            by_data=any(_UNBACKED.fullmatch(symbol) for symbol in symbols if symbol not in of_inputs),
            following=following[symbols],
        )
        for (symbols, frame), constraints in found.items()
    ]
    return tuple(sorted(grouped, key=lambda group: (group.by_data, *_share_kept(group.lead))))


def _pins(constraint: Constraint, pinned: AbstractSet[Frame | None]) -> bool:
    """Whether it is the equation, at the same line, that turned a dim into a number: SYM202 reports that dim."""
    condition = constraint.condition
    equation = isinstance(condition, Compare) and condition.relation is Relation.EQ and len(constraint.symbols) == 1
    return equation and constraint.origin.stack.best in pinned


def conflict_cause(conflict: Conflict) -> str:
    """The key under which the findings about a contradiction refer to it."""
    return " and ".join(constraint.text for constraint in conflict.constraints)


def _share_kept(constraint: Constraint) -> tuple[bool, bool, float]:
    kept = constraint.kept
    share = constraint.share if kept is None or kept[1] == 0 else kept[0] / kept[1]
    return constraint.follows, constraint.only_at_zero, share


def guard_evidence(group: GuardGroup, working: Mapping[str, int]) -> tuple[Evidence, ...]:
    """The guards, sizes that break the first, sizes that work, the allowed set, its proof, the line, torch's part."""
    shown = group.constraints[:_MOST_SHOWN]
    facts = [Evidence(f"guard {c.text}", ", ".join(c.origin.found_in) or "export") for c in shown]
    if len(group.constraints) > len(shown):
        more = len(group.constraints) - len(shown)
        facts.append(Evidence(f"{amount(more, 'more guard')} on the same sizes", "the guards table"))
    if group.following:
        facts.append(Evidence(f"{amount(group.following, 'more guard')} broken only where these are", "compared"))
    lead = group.lead
    if lead.counterexample:
        facts.append(Evidence(f"{values_text(lead.counterexample)} breaks it", proof_text(lead.proof)))
    if working:
        facts.append(Evidence(f"{values_text(working)} satisfies every guard", "tried"))
    if lead.allowed:
        alone = f" by {shortened(lead.text)} alone" if len(group.constraints) > 1 else ""
        facts.append(Evidence(f"allowed{alone}: {lead.allowed}", proof_text(lead.proof)))
    facts += line_evidence(group.frame)
    if group.frame is None and lead.origin.op:
        facts.append(Evidence(f"asked for by {lead.origin.op}", f"node {lead.origin.node or 'unknown'}"))
    of_torch = {needless(constraint.origin.stack) for constraint in group.constraints}
    facts += [Evidence(fault, "known of torch") for fault in sorted(of_torch - {""})]
    return tuple(facts)


def proof_text(proof: Proof) -> str:
    """How a statement was established, in words."""
    checked = f", {amount(proof.checked, 'value')}" if proof.checked else ""
    return f"{proof.kind.value}{checked}{': ' + proof.detail if proof.detail else ''}"


def needless(stack: Stack) -> str:
    """Why a guard with this stack is none of the model's; empty where nothing is known to that effect."""
    inner = stack.frames[-1] if stack.frames else None
    return "" if inner is None or inner.package != "torch" else _NEEDLESS.get(inner.function, "")
