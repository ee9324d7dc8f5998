"""GRD307."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.corrected_dims import left_to_torch, one_dim
from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.related_dims import Related, related_dims
from trtdiag.analysis.rules import line_evidence, rule
from trtdiag.dims.facts import DimSystem
from trtdiag.frontend.program import Program
from trtdiag.graph.source import NO_STACK


@rule("GRD307", "dims-declared-apart-but-related", Severity.ERROR)
def dims_declared_apart_but_related(program: Program, dims: DimSystem) -> Iterator[Hit]:
    """A dim has a name of its own, but the model computes it from another dim.

    Why:
        torch.export stops with "must always be related".  An optimization profile with two independent
        ranges would hold combinations of sizes of which nearly all fail.

        torch.export can say a dim that grows with another (2*d, d + 1, 4*d - 3).  It has no words for one
        that shrinks (32 - d) or is made of two others: then torch has to work it out itself (Dim.AUTO), one
        of them has to be static, or the inputs have to be joined into one.  Where it has worked that out although
        a Dim was asked for, the program refuses all other sizes itself, and this is a warning.

    Example:
        dynamic_shapes={"fine": {2: Dim("h1")}, "coarse": {2: Dim("h2")}}     # fine + upsample(coarse)

        h2 = Dim("h2", min=2, max=128)
        dynamic_shapes={"fine": {2: 2 * h2}, "coarse": {2: h2}}

    Fix safety:
        Safe when all ranges begin at 2 or more.  Otherwise unsafe: eager mode broadcasts a size of 1
        against any other, and the relation takes that input away.

    Source:
        torch.export, "must always be related to the values of"; seen on torch 2.13.
    """
    for related in related_dims(program):
        stack = next((join.stack for join in program.joins if join.sites[0] == related.dim.site), NO_STACK)
        frame = stack.best
        facts = [
            Evidence(f"{related.dim.site} is declared as {related.dim.declared}", "dynamic_shapes"),
            Evidence(f"{related.dim.site} is {related.text}", "the graph's input"),
        ]
        facts += line_evidence(frame)
        yield Hit(
            f"{related.dim.site} ({related.dim.declared}) is declared on its own but must always be {related.text}",
            tuple(facts),
            Place(frame=frame),
            _fix(related, dims),
            cause=related.dim.site,
            # torch.export has tied it by itself, no Dim says it better, and the program refuses all other sizes.
            severity=None if related.sayable or program.failure is not None else Severity.WARNING,
        )


def _fix(related: Related, dims: DimSystem) -> Fix:
    if not related.sayable:
        return left_to_torch(dims, related.dim.site, related.text) or Fix(
            f"no Dim can say {related.text}: make one of these dims static, or pass the two inputs as one"
        )
    sites = {related.root_site: related.root_name, related.dim.site: related.text}
    code, kept = one_dim(dims, related.root_name, related.root_range, sites)
    safe = related.smallest >= 2 and kept == related.root_range  # else other guards take sizes away, too
    return Fix(
        f"declare {related.dim.site} as {related.text}", Applicability.SAFE if safe else Applicability.UNSAFE, code
    )
