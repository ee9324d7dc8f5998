"""TYP404."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, line_evidence, place_of, rule
from trtdiag.dtypes.facts import DtypeFacts
from trtdiag.frontend.program import Program


@rule("TYP404", "scales-from-data", Severity.WARNING)
def scales_from_data(program: Program, dtypes: DtypeFacts) -> Iterator[Hit]:
    """A tensor is quantized with scales that are computed from it in each call.

    Why:
        TensorRT fuses quantizers with the ops beside them where their scales are constants.  Scales from
        the data (dynamic quantization) are written as plain arithmetic: the tensor is divided, rounded
        and multiplied again in floats, the product behind it computes in floats, and INT8 wins nothing.

    Example:
        quantize_(model, Int8DynamicActivationInt8WeightConfig())    # scales of each call
        quantize_(model, Int8WeightOnlyConfig())                     # weights alone: constants
        trtdiag compile model.pt2 --precision int8 --calibrate data.pt    # of the model before

    Fix safety:
        Unsafe: constant scales clip what is larger than the data that they were made of.

    Source:
        IQuantizeLayer: what ends in its scale must be a constant when the engine is built.
    """
    for each in dtypes.quantized:
        if each.from_data:
            yield Hit(
                f"{each.node} ({each.op}) has scales that the data decide; TensorRT fuses constant ones alone",
                (
                    Evidence(
                        "scale or zero point is computed from the program's inputs", f"{each.node}, its arguments"
                    ),
                    *line_evidence(each.frame),
                ),
                place_of(program, each.node, each.op, each.frame),
                Fix(
                    "calibrate the model before it is quantized (trtdiag compile --precision int8 --calibrate), or "
                    "quantize its weights alone",
                    Applicability.UNSAFE,
                ),
                cause=each.op,
                identity=each.op,
            )
