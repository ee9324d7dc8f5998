"""TYP406."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, line_evidence, place_of, rule
from trtdiag.dtypes.facts import DtypeFacts
from trtdiag.frontend.program import Program


@rule("TYP406", "scales-along-another-dim", Severity.WARNING)
def scales_along_another_dim(program: Program, dtypes: DtypeFacts) -> Iterator[Hit]:
    """A tensor has a scale for each element of a dim along which TensorRT takes none.

    Why:
        A product in INT8 is multiplied by its scales at the end, so they may differ by output channel and
        by nothing else: weights have a scale for each output channel, what a program computes has one for
        the whole tensor.  Scales along another dim have to be applied before the product, which is then
        computed in floats.

    Example:
        quantize_per_channel(weight, scales, zeros, 1, -127, 127, torch.int8)    # input channels of linear
        quantize_per_channel(weight, scales, zeros, 0, -127, 127, torch.int8)    # output channels

    Fix safety:
        Unsafe: other scales give other numbers.

    Source:
        TensorRT's guide, "Working with Quantized Types": per-tensor for activations, per-channel for weights.
    """
    for each in dtypes.quantized:
        if each.odd_axis and not each.from_data:  # of those TYP404 tells
            yield Hit(
                f"{each.node} ({each.op}) has scales along a dim that TensorRT does not fuse: {each.odd_axis}",
                (Evidence("the axis of the quantizer", f"{each.node}, its axis"), *line_evidence(each.frame)),
                place_of(program, each.node, each.op, each.frame),
                Fix(
                    "quantize weights by output channel" if each.weight else "quantize with one scale for the tensor",
                    Applicability.UNSAFE,
                ),
                cause=each.odd_axis,
                identity=f"{each.op} {each.odd_axis}",
            )
