"""OPS502."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.fallback_hits import calls, fallback_hits, reasons, stays
from trtdiag.analysis.fallbacks import OUR_FAULT, FallbackGroup, PartitionFacts, Why, asked_at
from trtdiag.analysis.rules import Hit, Severity, rule
from trtdiag.analysis.unsupported_dtypes import by_origin
from trtdiag.dims.facts import DimSystem
from trtdiag.dtypes.facts import DtypeFacts


@rule("OPS502", "op-over-limit", Severity.WARNING)
def op_over_limit(facts: PartitionFacts, dtypes: DtypeFacts, dims: DimSystem) -> Iterator[Hit]:
    """An op has a converter, but not for this call: it stays in PyTorch.

    Why:
        A converter states what it cannot take: an argument that must be a number, a rank, a dtype that the
        target lacks, a size that nothing bounds.  The reason is the converter's own, asked with the types
        and sizes of this program.  Such an op runs in PyTorch between engines.  It is a warning where that
        splits engines, keeps ops around it out of engines, or moves 64 MiB and more at usual sizes;
        otherwise INFO; an error under require_full.

        Where the reason is converter-failed, the fault is trtdiag's: the converter wrote a network that does
        not do what the op does, and the check of every converted op caught it.

    Example:
        y = torch.cumsum(x.double(), 0)      # float64: no target computes in it
        y = torch.cumsum(x, 0)

    Fix safety:
        Manual: the reason names what to change; a change of dtype changes rounding.

    Source:
        The limits of the converters, the type plan and the partitioner.
    """
    for group in facts.groups:
        if group.why is Why.LIMIT:
            yield from fallback_hits(facts, group, _message(group), _advice(group), _root(group, dtypes, dims))


def _message(group: FallbackGroup) -> str:
    if group.code == OUR_FAULT:
        return f"the converter of {calls(group)} is wrong, a fault of trtdiag: {reasons(group)}; it {stays(group)}"
    return f"{calls(group)} {stays(group)}: {reasons(group)}"


def _advice(group: FallbackGroup) -> str:
    if group.code == OUR_FAULT:
        return "report it with the model: nothing is wrong with the model"
    return "write this line in another way, or leave it: results stay right"


def _root(group: FallbackGroup, dtypes: DtypeFacts, dims: DimSystem) -> str:
    """The finding about the tensor that brought the dtype in, where there is only one, or about the sizes."""
    if group.about:
        return f"SYM204:{group.about}"
    of_code = {"double-precision": ("TYP402", dtypes.float64), "no-counterpart": ("TYP403", dtypes.unsupported)}
    if group.code not in of_code:
        asked = asked_at(dims, [left.place.node for left in group.left])
        return "" if asked is None else f"GRD308:{asked.text}"
    rule_id, tensors = of_code[group.code]
    origins = by_origin(tensors)
    return f"{rule_id}:{origins[0].key}" if len(origins) == 1 else ""
