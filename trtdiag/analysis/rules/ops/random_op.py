"""OPS505."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.fallback_hits import calls, fallback_hits, stays
from trtdiag.analysis.fallbacks import PartitionFacts, Why
from trtdiag.analysis.rules import Hit, Severity, rule


@rule("OPS505", "random-op", Severity.WARNING)
def random_op(facts: PartitionFacts) -> Iterator[Hit]:
    """An op draws random numbers: it stays in PyTorch, so that every call draws anew.

    Why:
        A random op inside an engine would be drawn once, when the engine is built, and give the same numbers
        for ever after.  So it is never put into one.  PyTorch draws between engines; within one run the
        order of two random ops may change, so numbers under a fixed seed may be others than before.

        It is a warning where that splits engines, keeps ops around it out of engines, or moves 64 MiB and
        more at usual sizes; otherwise INFO; an error under require_full.

    Example:
        z = torch.randn_like(mean)             # drawn in the middle of the model
        def forward(self, x, noise): ...       # drawn outside and handed in

    Fix safety:
        Manual: with random="engine" PyTorch draws all numbers before the engine, those of the original with the same
        seed; handing them in changes the model's signature.

    Source:
        torch.Tag.nondeterministic_seeded of the op; dropout that drops nothing does not count.
    """
    for group in facts.groups:
        if group.why is Why.RANDOM:
            draws = "draw" if len(group.left) > 1 else "draws"
            yield from fallback_hits(
                facts,
                group,
                f"{calls(group)} {draws} random numbers and {stays(group)}",
                "pass random='engine' (--random engine) to have PyTorch draw first, or hand the numbers in",
            )
