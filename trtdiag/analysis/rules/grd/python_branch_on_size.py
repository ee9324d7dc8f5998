"""GRD303."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.accepted_sizes import working_sizes
from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.guard_groups import GuardGroup, groups, guard_evidence
from trtdiag.analysis.places import at_line
from trtdiag.analysis.rule import rule
from trtdiag.dims.facts import Constraint, DimSystem, Verdict
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import Program
from trtdiag.symbolic.expr import Compare, Relation
from trtdiag.wording import shortened


@rule("GRD303", "python-branch-on-size", Severity.WARNING)
def python_branch_on_size(program: Program, dims: DimSystem) -> Iterator[Hit]:
    """A Python condition on a size was decided once, and the other side is not in the program.

    Why:
        `if`, `while`, min() and max() over a size run in Python, while torch.export traces.  The program
        keeps the side that the example took, and a guard that says when that side is right.  Sizes that
        would take the other side are refused, or, in an engine, computed by the wrong side.  int(), len() and
        calls like torch.linspace make a number of a size in the same way, and loops as many steps.

        Branches that go the same way for every declared size are not reported, nor are assert and
        torch._check, which have one side only: GRD301 tells where they fail.

    Example:
        if x.shape[2] % 32: x = F.pad(...)              # decided once
        x = F.pad(x, (0, 0, 0, -x.shape[2] % 32))       # no branch: pads by 0 where nothing is needed

    Fix safety:
        Manual: the model has to be written without the branch, with torch.cond, or exported once per side.

    Source:
        The guard and the Python line that torch recorded for it; pytorch issue 136216.
    """
    for verdict in (Verdict.BREAKS, Verdict.UNKNOWN):
        for group in groups(dims, verdict):
            if group.branch:
                yield _hit(group, program, dims)


def _hit(group: GuardGroup, program: Program, dims: DimSystem) -> Hit:
    lead = group.lead
    where = at_line(group.frame)
    names = " and ".join(lead.counterexample) or " and ".join(map(Sites(program).name_of, lead.symbols))
    side = shortened(lead.text)
    instead = _made_number(lead)
    asked, other = (
        (f"the Python condition on {names}{where} was decided once: only the side of", "take the other side")
        if instead is None
        else (f"the Python line{where} makes a plain number of {names}: only", "give another number")
    )
    facts = list(guard_evidence(group, working_sizes(program, dims, lead)))
    if lead.kept is not None:
        kept, declared = lead.kept
        facts.append(Evidence(f"{declared - kept:,} of {declared:,} declared values {other}", "counted"))
    return Hit(
        f"{asked} {side} is in the program",
        tuple(facts),
        Place(node=lead.origin.node, frame=group.frame, op=lead.origin.op),
        Fix(instead or "write the line without the branch, use torch.cond, or export one program per side"),
        cause=group.cause,
    )


def _made_number(lead: Constraint) -> str | None:
    """What to write where no condition but a call or a loop took a size for a number; ``None`` for conditions."""
    if not (isinstance(lead.condition, Compare) and lead.condition.relation is Relation.EQ):
        return None
    from trtdiag.fixdims.plain_numbers import made_number  # few programs need it

    return made_number(lead.text, lead.origin)
