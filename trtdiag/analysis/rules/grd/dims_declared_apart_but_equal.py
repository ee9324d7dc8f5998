"""GRD302."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.corrected_dims import one_dim
from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.guard_groups import proof_text
from trtdiag.analysis.rules import line_evidence, rule
from trtdiag.dims.facts import DimSystem, Tied
from trtdiag.frontend.program import Program
from trtdiag.graph.source import Frame
from trtdiag.symbolic.ranges import Range
from trtdiag.wording import identifier


@rule("GRD302", "dims-declared-apart-but-equal", Severity.ERROR)
def dims_declared_apart_but_equal(program: Program, dims: DimSystem) -> Iterator[Hit]:
    """Two dims have separate names, but the model forces them to be equal.

    Why:
        torch.export stops with a constraint violation.  Where it does not, an optimization profile gives
        the two dims independent ranges, and every combination of unequal sizes in it fails.

    Example:
        dynamic_shapes={"x": {0: Dim("a")}, "y": {0: Dim("b")}}     # and the model computes x + y

        batch = Dim("batch", min=2, max=64)
        dynamic_shapes={"x": {0: batch}, "y": {0: batch}}

    Fix safety:
        Safe when both ranges begin at 2 or more.  Otherwise unsafe: eager mode broadcasts a size of 1
        against any other, and one shared Dim takes that input away.

    Source:
        torch.export, "Constraints violated ... are always equal"; seen on torch 2.13.
    """
    declared = {dim.site: dim.declared_range for tensor in program.inputs for dim in tensor.dims}
    for tie in dims.tied:
        origin = tie.constraint.origin if tie.constraint else tie.origin
        frame = origin.stack.best if origin else None
        yield Hit(
            f"{' and '.join(_spoken(tie))} are declared apart but must always be equal",
            _evidence(tie, frame),
            Place(node=origin.node if origin else None, frame=frame, op=origin.op if origin else None),
            _fix(tie, dims, [ranges for site in tie.sites if (ranges := declared.get(site)) is not None]),
            cause=" == ".join(tie.sites),
        )


def _spoken(tie: Tied) -> list[str]:
    return [f"{site} ({name})" if name else site for site, name in zip(tie.sites, tie.declared, strict=True)]


def _evidence(tie: Tied, frame: Frame | None) -> tuple[Evidence, ...]:
    facts = [
        Evidence(f"{site} is declared as {name}", "dynamic_shapes")
        for site, name in zip(tie.sites, tie.declared, strict=True)
    ]
    if tie.constraint is None:
        facts.append(Evidence(" == ".join(tie.sites), "one symbol in the graph"))
    else:
        facts.append(Evidence(f"guard {tie.constraint.text}", ", ".join(tie.constraint.origin.found_in) or "export"))
        facts.append(Evidence("the sizes are equal in every allowed input", proof_text(tie.constraint.proof)))
    facts += line_evidence(frame)
    return tuple(facts)


def _fix(tie: Tied, dims: DimSystem, declared: list[Range]) -> Fix:
    """One Dim over what all of them allow; safe where a size of 1 cannot be meant to broadcast."""
    name = identifier(tie.declared[0] or "shared")
    shared = Range()
    for ranges in declared:
        shared = shared.intersect(ranges)
    code, kept = one_dim(dims, name, shared, dict.fromkeys(tie.sites, name))
    safe = tie.smallest >= 2 and kept == shared  # else other guards take sizes away, too
    return Fix(
        f"declare one Dim for {' and '.join(tie.sites)}", Applicability.SAFE if safe else Applicability.UNSAFE, code
    )
