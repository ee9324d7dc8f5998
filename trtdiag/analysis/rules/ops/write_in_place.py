"""OPS504."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.fallback_hits import calls, fallback_hits, reasons, stays
from trtdiag.analysis.fallbacks import PartitionFacts, Why
from trtdiag.analysis.rules import Hit, Severity, rule


@rule("OPS504", "write-in-place", Severity.WARNING)
def write_in_place(facts: PartitionFacts) -> Iterator[Hit]:
    """An op writes into memory that stays visible: it and the views of that memory stay in PyTorch.

    Why:
        An engine returns new tensors, it changes none.  Lowering rewrites most writes into ops that return
        their result (x.add_(1) as x + 1, buffers as further outputs).  What is left here could not be
        rewritten: a custom op that writes its argument, or memory that is seen under several shapes.

        It is a warning where that splits engines, keeps ops around it out of engines, or moves 64 MiB and
        more at usual sizes; otherwise INFO; an error under require_full.

    Example:
        torch.ops.mylib.scale_(x, 2.0)      # writes x
        x = torch.ops.mylib.scale(x, 2.0)   # the same as a new tensor

    Fix safety:
        Manual: who else looks at that memory is for you to know.

    Source:
        The op's schema (Tensor(a!)), and the reason that lowering gives.
    """
    lowering = {limit.node: limit.why for limit in facts.plan.lowered.limits}
    for group in facts.groups:
        if group.why is Why.MUTATION:
            why = next((lowering[left.node] for left in group.left if left.node in lowering), "")
            yield from fallback_hits(
                facts,
                group,
                f"{calls(group)} {stays(group)}: {reasons(group)}" + (f" ({why})" if why else ""),
                "use the functional op",
            )
