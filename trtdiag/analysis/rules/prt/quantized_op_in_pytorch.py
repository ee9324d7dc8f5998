"""PRT605."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, place_of, rule
from trtdiag.dtypes.facts import DtypeFacts
from trtdiag.frontend.program import Program
from trtdiag.lower.lowered_facts import whole_of


@rule("PRT605", "quantized-op-in-pytorch", Severity.WARNING)
def quantized_op_in_pytorch(program: Program, dtypes: DtypeFacts, facts: PartitionFacts) -> Iterator[Hit]:
    """An op takes quantized numbers and stays in PyTorch.

    Why:
        PyTorch runs quantize and dequantize as ops of their own and the product between them in floats: a
        quantized op outside of engines is slower than one that was never quantized, and rounds for nothing.

    Example:
        found: aten.conv2d.default takes quantized numbers and stays in PyTorch: keep_in_torch names head

    Fix safety:
        Manual: the reason why it stays tells what to do; else leave the op without quantizers (keep_float).

    Source:
        The partition, beside the quantizers of the program.
    """
    left = {whole_of(each.node, program.origins): each for each in facts.partitioned.fallback if each.computes}
    told: set[str] = set()
    for each in dtypes.quantized:
        for reader in each.readers:
            found = left.get(reader.node)
            if found is None or each.weight or reader.floats or reader.node in told:
                continue
            told.add(reader.node)
            yield Hit(
                f"{reader.op} takes quantized numbers and stays in PyTorch: {found.limit.why}",
                (
                    Evidence(f"{each.op} gives its operand", each.node),
                    Evidence(f"it stays with PyTorch: {found.limit.code}", found.node),
                ),
                place_of(program, reader.node, reader.op),
                Fix(found.limit.fix or "leave the op without quantizers (keep_float)", Applicability.MANUAL),
                cause=f"{reader.op} {found.limit.why}",
                identity=f"{reader.op} {found.limit.code}",
            )
