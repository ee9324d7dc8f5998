"""From a program and batches of its inputs to quantizers, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trtdiag.calibration.accuracy import Measured
from trtdiag.calibration.facts import QuantizationFacts, QuantizedInput, QuantizedOp, Quantizers
from trtdiag.calibration.insert import Folded, quantized
from trtdiag.calibration.observe import Batch, observed_scales
from trtdiag.calibration.placement import places_of
from trtdiag.errors import UserError
from trtdiag.frontend.program import Program
from trtdiag.graph.user_entries import Entries


def calibrated(
    source: Folded, batches: Sequence[Batch], keep: Sequence[str], step: Callable[[str], None]
) -> tuple[Program, Quantizers, QuantizationFacts]:
    """The quantized program, its quantizers and what they cost.

    Args:
        source: The program, its batch norms folded; of it nothing is left as it was.
        batches: Calls that the program takes; one at least.
        keep: Ops and module paths to keep in floats.
        step: Called with each longer step.

    Raises:
        PlatformError: ``torchao-missing``.
        UserError: ``nothing-to-quantize``, ``calibration-failed``.
    """
    entries = Entries(keep)
    places = places_of(source.draft.graph, source.constants, entries)
    if not places.ops:
        named = f", and the {places.kept} that have one are kept in floats" if places.kept else ""
        raise UserError(
            "the program has nothing to quantize",
            because=f"no convolution and no product has a constant weight{named}",
            fix="compile it with precision fp16" + (", or keep fewer ops in floats" if places.kept else ""),
            reference="nothing-to-quantize",
        )
    exported = source.exported()
    scales = observed_scales(exported, places, batches, lambda done: step(f"calibrate {done} of {len(batches)}"))
    quantizers = Quantizers(
        tuple(
            QuantizedOp(
                place.node.name,
                place.op,
                place.module,
                tuple(QuantizedInput(at, scales[place.node.name, at]) for at in place.inputs),
                place.weight,
                place.axis,
            )
            for place in places.ops
        )
    )
    measured = Measured(exported, quantizers, batches, step)
    error, losses = measured.losses()
    facts = QuantizationFacts(len(batches), measured.batches, losses, error, places.kept, entries.unused)
    return quantized(source, quantizers), quantizers, facts
