"""PRT604."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.fallbacks import FallbackGroup, PartitionFacts, Why
from trtdiag.analysis.rules import Evidence, Fix, Hit, Severity, rule
from trtdiag.wording import amount


@rule("PRT604", "costly-op", Severity.INFO)
def costly_op(facts: PartitionFacts) -> Iterator[Hit]:
    """How many engines an op costs that stays in PyTorch.

    Why:
        Of ten kinds of ops left to PyTorch, most cost nothing and one or two cost all the engines.  For each
        the program is partitioned again as if engines could hold it: what that saves tells where work pays.
        Each is looked at alone: two ops that only help together both rank low.

    Example:
        found: supporting aten.cummax.default (3 calls) would join 4 engines into 1

    Fix safety:
        Manual: the finding of the op says what can be done about it.

    Source:
        The partitioner, run once more for each op.
    """
    ranked = facts.ranked
    for rank, group in enumerate(ranked, 1):
        cost = group.cost
        if cost is None:
            continue
        saved = f"{group.engines_saved} of {cost.segments_before}"
        yield Hit(
            f"{_deed(group)} would join {amount(cost.segments_before, 'engine')} into {cost.segments_after}",
            (
                Evidence(f"rank {rank} of {len(ranked)}: saves {saved} engines", "partitioned again for each op"),
                Evidence(f"{cost.ops_after - cost.ops_before} more ops in engines", "itself and what it kept out"),
            ),
            group.left[0].place,
            fix=Fix(
                "do first what the finding of this op says: it wins the most engines"
                if rank == 1
                else "do what the finding of this op says"
            ),
            cause=group.key,
            because_of=f"{group.why.value}:{group.key}",
            identity=group.identity,
        )


def _deed(group: FallbackGroup) -> str:
    count = f" ({amount(len(group.left), 'call')})" if len(group.left) > 1 else ""
    others = f" and {amount(group.other_ops, 'other op')}" if group.other_ops else ""
    doing = "supporting" if group.why in (Why.NO_CONVERTER, Why.LIMIT) else "a model without"
    return f"{doing} {group.op}{others}{count}"
