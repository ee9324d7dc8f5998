"""OPS503."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.fallback_hits import calls, fallback_hits, stays
from trtdiag.analysis.fallbacks import PartitionFacts, Why
from trtdiag.analysis.rules import Hit, Severity, rule


@rule("OPS503", "data-dependent-shape", Severity.WARNING)
def data_dependent_shape(facts: PartitionFacts) -> Iterator[Hit]:
    """The values of a tensor decide a size or a number: that op stays in PyTorch.

    Why:
        An engine of TensorRT 10 or 11 can hold ops that choose elements (nonzero, a boolean mask, masked_select);
        8.6 does not build what comes behind them.  None has a layer for others whose size only the data decides
        (unique, bincount), and none gives numbers (.item()).  Such an op runs in PyTorch, and what depends on it
        is another engine.

        It is a warning where that splits engines, keeps ops around it out of engines, or moves 64 MiB and
        more at usual sizes; otherwise INFO; an error under require_full.

    Example:
        seen = torch.unique(labels)                              # as many as the data says
        seen = torch.zeros(10).index_fill(0, labels, 1)          # which of ten: always the same size

    Fix safety:
        Manual: a fixed size with a mask is another contract with what comes after.

    Source:
        The symbols of the exported program that no input gives (u0, u1, ...).
    """
    for group in facts.groups:
        if group.why is Why.DATA:
            yield from fallback_hits(
                facts,
                group,
                f"{calls(group)} {stays(group)}: only the data decides the size of the result, or a number in it",
                "keep a fixed size (torch.where, topk with a number, a mask), or do it after the model",
            )
