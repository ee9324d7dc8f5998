"""TYP405."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, line_evidence, place_of, rule
from trtdiag.dtypes.facts import DtypeFacts
from trtdiag.frontend.program import Program


@rule("TYP405", "zero-point-not-zero", Severity.WARNING)
def zero_point_not_zero(program: Program, dtypes: DtypeFacts) -> Iterator[Hit]:
    """A tensor is quantized with a zero point that is not 0.

    Why:
        TensorRT's Quantize and Dequantize have no zero point: it quantizes symmetrically.  Other quantizers
        are written as plain arithmetic in floats, which gives the same numbers, and the ops beside them
        compute in floats: INT8 wins nothing there.  Quantizers for CPUs (X86InductorQuantizer, activations
        of XNNPACKQuantizer) are asymmetric by default.

    Example:
        torch.per_tensor_affine                                     # the scheme of a QuantizationSpec
        torch.per_tensor_symmetric

    Fix safety:
        Unsafe: a symmetric scale has half as many steps for what is never negative.

    Source:
        IQuantizeLayer: its zero point may be left out, and must be 0 else.
    """
    for each in dtypes.quantized:
        if each.symmetric is False:
            of = "a weight" if each.weight else f"what {each.made_by} gives" if each.made_by else "an input"
            yield Hit(
                f"{each.node} ({each.op}) has a zero point that is not 0; TensorRT quantizes symmetrically",
                (Evidence(f"{of} is quantized so", f"{each.node}, its zero point"), *line_evidence(each.frame)),
                place_of(program, each.node, each.op, each.frame),
                Fix(
                    "quantize with a symmetric scheme (torch.per_tensor_symmetric), or calibrate the model of before "
                    "with trtdiag compile --precision int8 --calibrate",
                    Applicability.UNSAFE,
                ),
                cause=each.op,
                identity=each.op,
            )
