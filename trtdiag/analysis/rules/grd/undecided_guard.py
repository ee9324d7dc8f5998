"""GRD306."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.accepted_sizes import working_sizes
from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.guard_groups import groups, guard_evidence, proof_text
from trtdiag.analysis.rule import rule
from trtdiag.dims.facts import DimSystem, Verdict
from trtdiag.frontend.program import Program
from trtdiag.wording import shortened


@rule("GRD306", "undecided-guard", Severity.WARNING)
def undecided_guard(program: Program, dims: DimSystem) -> Iterator[Hit]:
    """A guard was read, but it is neither proved nor refuted over the declared ranges.

    Why:
        Guards of several large or unbounded dims can be beyond what is tried in full or solved.  Then no
        breaking size is known and none is excluded.  A narrower range makes most of them decidable:
        every range that is small enough is tried value by value.

        Guards over sizes that are computed from data are not reported here; they are checked when the
        program runs.

    Example:
        b = Dim("b"); t = Dim("t")                                  # b * t % 16 == 0 over all sizes
        b = Dim("b", min=1, max=32); t = Dim("t", min=1, max=512)   # 16,384 pairs: tried

    Fix safety:
        Manual: narrower ranges take inputs away.

    Source:
        The proof that was attempted is in the evidence.
    """
    for group in groups(dims, Verdict.UNKNOWN):
        if group.by_data or group.branch:  # a branch has GRD303, with the same evidence
            continue
        lead = group.lead
        yield Hit(
            f"guard {shortened(lead.text)} is neither proved nor refuted over the declared ranges",
            (
                *guard_evidence(group, working_sizes(program, dims, lead)),
                Evidence("not decided", proof_text(lead.proof)),
            ),
            Place(node=lead.origin.node, frame=group.frame, op=lead.origin.op),
            Fix("declare narrower ranges for the dims in it"),
            cause=group.cause,
        )
