"""OPS501."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.fallback_hits import calls, fallback_hits, stays
from trtdiag.analysis.fallbacks import FallbackGroup, PartitionFacts, Why
from trtdiag.analysis.rules import Evidence, Hit, Severity, rule
from trtdiag.wording import amount

_OF_TORCH = "write it with ops that have a converter (`trtdiag ops` lists them), or move it to the rim"
_OF_PACKAGE = (
    "write a converter for it (trtdiag.converters; the tutorial `Ops of your own` has one), or move it to the rim; its"
    " kernel runs in PyTorch until then"
)


@rule("OPS501", "op-without-converter", Severity.WARNING)
def op_without_converter(facts: PartitionFacts) -> Iterator[Hit]:
    """An op has no converter: it stays in PyTorch.

    Why:
        An op goes into an engine through its converter.  One without runs in PyTorch between engines, with
        its tensors handed over at both ends.  Results are the same.  It is a warning where that splits
        engines, keeps ops around it out of engines, or moves 64 MiB and more at usual sizes; otherwise INFO
        (an op at the rim of the program costs little); an error under require_full.

        One finding per op, whatever the number of calls.

        An op of another package (torch.library.custom_op, torch.library.triton_op, C++ and CUDA) runs its
        own kernel there.  Whoever has such an op can write a converter for it, in that package or beside
        it: a function of a few lines (trtdiag.converters).

    Example:
        values, vectors = torch.linalg.eigh(x)      # no layer of TensorRT does it
        y = self.encoder(x)                         # what comes before and after it are two engines

    Fix safety:
        Manual: another op in its place may round differently.  `trtdiag ops` lists what has a converter.

    Source:
        The registry of converters, and the partition of this program with and without the op.
    """
    for group in facts.groups:
        if group.why is Why.NO_CONVERTER:
            yield from fallback_hits(
                facts,
                group,
                f"{calls(group)} {'have' if len(group.left) > 1 else 'has'} no converter and {stays(group)}",
                _OF_PACKAGE if group.of_package else _OF_TORCH,
                evidence=[_kernel(group)] if group.of_package else [],
            )


def _kernel(group: FallbackGroup) -> Evidence:
    namespace = group.op.partition(".")[0]
    crossings = f"{amount(group.crossings, 'tensor')} between it and engines in each run"
    return Evidence(
        f"it is an op of {namespace} with a kernel of its own; {crossings}", "the name of the op; the partition"
    )
