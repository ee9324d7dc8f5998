"""GRD302."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.guard_groups import proof_text
from trtdiag.analysis.rule import rule
from trtdiag.analysis.wording import identifier
from trtdiag.dims.facts import DimSystem, Tied


@rule("GRD302", "dims-declared-apart-but-equal", Severity.ERROR)
def dims_declared_apart_but_equal(dims: DimSystem) -> Iterator[Hit]:
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
    for tie in dims.tied:
        frame = tie.constraint.origin.stack.best if tie.constraint else None
        yield Hit(
            f"{' and '.join(_spoken(tie))} are declared apart but must always be equal",
            _evidence(tie),
            Place(
                node=tie.constraint.origin.node if tie.constraint else None,
                frame=frame,
                op=tie.constraint.origin.op if tie.constraint else None,
            ),
            _fix(tie),
            cause=" == ".join(tie.sites),
        )


def _spoken(tie: Tied) -> list[str]:
    return [
        f"{site} ({declared})" if declared else site for site, declared in zip(tie.sites, tie.declared, strict=True)
    ]


def _evidence(tie: Tied) -> tuple[Evidence, ...]:
    facts = [
        Evidence(f"{site} is declared as {declared}", "dynamic_shapes")
        for site, declared in zip(tie.sites, tie.declared, strict=True)
    ]
    guard = tie.constraint
    if guard is None:
        return (*facts, Evidence(" == ".join(tie.sites), "one symbol in the graph"))
    facts.append(Evidence(f"guard {guard.text}", ", ".join(guard.origin.found_in) or "export"))
    facts.append(Evidence("the sizes are equal in every allowed input", proof_text(guard)))
    frame = guard.origin.stack.best
    if frame is not None:
        facts.append(Evidence(frame.code or f"in {frame.function}", str(frame)))
    return tuple(facts)


def _fix(tie: Tied) -> Fix:
    name = identifier(tie.declared[0] or "shared")
    return Fix(
        f"declare one Dim for {' and '.join(tie.sites)}",
        Applicability.SAFE if tie.smallest >= 2 else Applicability.UNSAFE,
        "\n".join(f"# {site}: {name}" for site in tie.sites),
    )
