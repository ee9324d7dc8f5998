"""TYP407."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, line_evidence, place_of, rule
from trtdiag.dtypes.facts import DtypeFacts, QuantizedReader, QuantizedTensor
from trtdiag.frontend.program import Program
from trtdiag.wording import listed

_MOST = 3


@rule("TYP407", "quantizer-without-gain", Severity.WARNING)
def quantizer_without_gain(program: Program, dtypes: DtypeFacts) -> Iterator[Hit]:
    """A tensor is quantized and dequantized, and nothing behind it computes in INT8.

    Why:
        A quantizer pays where a convolution or a product takes what it gives, with weights that are
        quantized as well.  Elsewhere it is a pass over the tensor that rounds it.  Between a product and
        its activation or norm it does more harm: TensorRT would have made one kernel of the two.

        Weights that are quantized alone are not named: they are smaller, which is what they are for.

    Example:
        x = dequantize(quantize(conv(x))); x = relu(x)              # between a convolution and its activation
        x = relu(conv(dequantize(quantize(x))))                     # at the input of the convolution

    Fix safety:
        Unsafe: without the quantizer the numbers are others, and closer to the original's.

    Source:
        TensorRT's guide, "Q/DQ Layer-Placement Recommendations".
    """
    for each in dtypes.quantized:
        if each.weight or not each.readers or not all(reader.floats or reader.beside for reader in each.readers):
            continue
        yield Hit(
            f"{each.node} ({each.op}) wins nothing: {_why(each)}",
            (
                *(_evidence(reader) for reader in each.readers[:_MOST]),
                *line_evidence(each.frame),
            ),
            place_of(program, each.node, each.op, each.frame),
            Fix(_advice(each), Applicability.UNSAFE),
            cause=_why(each),
            identity=f"{each.made_by} {_why(each)}",
        )


def _why(each: QuantizedTensor) -> str:
    ops = listed(list(dict.fromkeys(reader.op for reader in each.readers)), _MOST)
    if all(reader.beside for reader in each.readers):
        return f"the other operand of {ops} is not quantized"
    told = f"{ops} computes in floats"
    return f"{told}, and one kernel with {each.made_by} no more" if _ends_fusion(each) else told


def _ends_fusion(each: QuantizedTensor) -> bool:
    return each.by_product and any(reader.floats for reader in each.readers)


def _evidence(reader: QuantizedReader) -> Evidence:
    if reader.beside:
        return Evidence(f"{reader.op} reads it beside {reader.beside}, which is not quantized", reader.node)
    return Evidence(f"{reader.op} reads it, which no kernel computes in INT8", reader.node)


def _advice(each: QuantizedTensor) -> str:
    if all(reader.beside for reader in each.readers):
        return "quantize the other operand, too, or none of them"
    if _ends_fusion(each):
        return "quantize what comes behind the activation, at the input of the next convolution or product"
    return "take the quantizer away"
