"""PRT601."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtdiag.analysis.fallback_hits import calls
from trtdiag.analysis.fallbacks import FallbackGroup, PartitionFacts
from trtdiag.analysis.rules import Evidence, Fix, Hit, Severity, rule
from trtdiag.wording import amount

MANY = 5
MOST_NAMED = 5


@rule("PRT601", "many-segments", Severity.WARNING)
def many_segments(facts: PartitionFacts) -> Iterator[Hit]:
    """The program falls apart into many engines.

    Why:
        Every engine is built, loaded and called by itself: build time, memory for its workspace, some ten
        microseconds per call, and nothing is fused across the edge between two.  Five engines and more are
        reported; that number is a convention.

    Example:
        for layer in self.layers:
            x = layer(x)
            x = torch.ops.mylib.mix(x)       # one op between the layers: as many engines as layers

    Fix safety:
        Manual: see the findings of the ops that stand between the engines.

    Source:
        The partition: the fewest segments that hold every op which can be in one.
    """
    count = len(facts.partitioned.segments)
    if count < MANY:
        return
    ranked = facts.ranked
    kept = sorted((group for group in facts.kept if group.engines_saved > 0), key=lambda group: -group.engines_saved)
    sizes = sorted((segment.work_ops for segment in facts.partitioned.segments), reverse=True)
    evidence = [
        Evidence(f"largest {sizes[0]}, smallest {sizes[-1]} ops that compute", "the segments"),
        *(
            Evidence(
                f"{calls(group)}: without it {amount(count - group.engines_saved, 'engine')}",
                "PRT604" if group in ranked else "partitioned again with it in engines",
            )
            for group in (*ranked, *kept)[:MOST_NAMED]
        ),
    ]
    yield Hit(
        f"the program is split into {count} engines",
        tuple(evidence),
        fix=Fix(_first_step(ranked, kept)),
        cause="many",
        identity="many",
        because_of=f"{ranked[0].why.value}:{ranked[0].key}" if ranked else "",
    )


def _first_step(ranked: Sequence[FallbackGroup], kept: Sequence[FallbackGroup]) -> str:
    if ranked:
        return f"begin with {ranked[0].op}: it costs most"
    if kept:
        return f"let {kept[0].op} into engines: that you keep it in PyTorch costs most"
    return "see which ops stay in PyTorch, and why"
