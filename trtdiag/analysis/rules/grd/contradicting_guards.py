"""GRD304."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.guard_groups import conflict_cause, proof_text
from trtdiag.analysis.rule import rule
from trtdiag.dims.facts import DimSystem
from trtdiag.wording import listed, shortened


@rule("GRD304", "contradicting-guards", Severity.ERROR)
def contradicting_guards(dims: DimSystem) -> Iterator[Hit]:
    """No sizes inside the declared ranges satisfy all guards together.

    Why:
        The program accepts no input at all within the declared ranges: whatever profile is chosen, every
        run is refused.  The guards of the finding are a smallest such set: take any one of them away and
        the others can be satisfied, so it is enough to change one of the lines that they come from.  Often
        the ranges were declared for other sizes than the example has.

    Example:
        h = Dim("h", min=9, max=15)     # and the model needs h % 8 == 0: no multiple of 8 lies inside

    Fix safety:
        Manual: either a range has to be widened or a line of the model changed.

    Source:
        The solver's conflict set; its proof is in the evidence.
    """
    for conflict in dims.conflicts:
        texts = [constraint.text for constraint in conflict.constraints]
        frame = next((c.origin.stack.best for c in conflict.constraints if c.origin.stack.best), None)
        first = conflict.constraints[0] if conflict.constraints else None
        facts = [
            Evidence(f"guard {c.text}", str(c.origin.stack.best or ", ".join(c.origin.found_in) or "export"))
            for c in conflict.constraints
        ]
        facts += [Evidence(line, "declared range") for line in conflict.box]
        facts.append(Evidence("no values satisfy all of these", proof_text(conflict.proof)))
        yield Hit(
            f"no value with {listed(conflict.box, 3)} satisfies {_spoken(texts)}",
            tuple(facts),
            Place(node=first.origin.node if first else None, frame=frame, op=first.origin.op if first else None),
            Fix("widen a declared range, or change one of these lines of the model"),
            cause=conflict_cause(conflict),
        )


def _spoken(texts: list[str]) -> str:
    short = [shortened(text) for text in texts]
    return f"guard {short[0]}" if len(short) == 1 else f"these {len(short)} guards together: {' and '.join(short)}"
