"""PRT602."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, rule
from trtdiag.wording import amount


@rule("PRT602", "segment-too-small", Severity.INFO)
def segment_too_small(facts: PartitionFacts) -> Iterator[Hit]:
    """Ops that could be in an engine stay in PyTorch, because their segment would be too small.

    Why:
        Going into an engine and back costs a call and the edges of fusion; an engine of two or three ops does
        not win that back.  min_segment_ops (5 unless you say otherwise; views are not counted) is the least
        number of ops for which an engine is made.  It is a convention, not a measurement.  INFO, unless
        nothing at all is left in engines for it: then it is a warning.

    Example:
        x = torch.nonzero(m)         # stays in PyTorch
        y = (x * 2).relu()           # two ops between two such: not worth an engine
        z = torch.unique(y)          # stays in PyTorch

    Fix safety:
        Safe: results are the same, only what runs where changes.

    Source:
        PartitionOptions.min_segment_ops, and the partition made again without it.
    """
    free = facts.without_minimum
    if free is None or facts.require_full:
        return
    least = facts.plan.options.partition.min_segment_ops
    told = amount(len(facts.small), "op")
    none_left = not facts.partitioned.segments
    more = free.segments_after - free.segments_before
    gain = f"{amount(more, 'engine')} more" if more > 0 else f"{amount(free.segments_after, 'engine')}"
    for left in facts.small:
        yield Hit(
            f"{told} in segments of fewer than {least} ops that compute stay{'s' * (len(facts.small) == 1)} in PyTorch"
            + ("; nothing of the program goes into an engine" if none_left else ""),
            (
                Evidence(
                    f"with min_segment_ops=1: {gain}, {amount(free.ops_after, 'op')} in engines; "
                    f"now {amount(free.segments_before, 'engine')} with {amount(free.ops_before, 'op')}",
                    "partitioned again without a least number",
                ),
            ),
            left.place,
            Fix(
                "support the ops around them (see OPS501 to OPS505), or make smaller engines",
                Applicability.SAFE,
                "--min-segment-ops 1",
            ),
            cause="small",
            identity="small",
            severity=Severity.WARNING if none_left else Severity.INFO,
        )
