"""SYM205."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Severity
from trtdiag.analysis.placing import place_of
from trtdiag.analysis.rule import rule
from trtdiag.analysis.wording import counted
from trtdiag.capture.program import Program
from trtdiag.shapes.facts import ShapeFacts, TensorSizes
from trtdiag.targets.target import Target


@rule("SYM205", "volume-beyond-limit", Severity.ERROR)
def volume_beyond_limit(program: Program, shapes: ShapeFacts, target: Target) -> Iterator[Hit]:
    """A tensor has more elements at the maximum of its ranges than TensorRT can index.

    Why:
        A TensorRT tensor holds at most 2^31 - 1 elements.  An optimization profile includes the shape in
        which every dim is at its maximum at once, so the ranges together decide, not each alone: 64
        images of 2160 x 4096 with 32 channels are 18 billion elements.  The build fails for that shape
        even if you never run it.

        Where only an upper estimate of the size is known (it is then said so), the finding is a warning.

    Example:
        Dim("batch", max=64), Dim("h", max=2160), Dim("w", max=4096)    # 64*32*h*w: 18,119,393,280
        Dim("batch", max=4), Dim("h", max=2160), Dim("w", max=1920)     # 4*32*h*w:     530,841,600
    Fix safety:
        Unsafe: lower maxima take inputs away.  Several programs for several ranges (large batches of small
        images, small batches of large ones) keep them.
    Source:
        Target.max_volume, with the page it was read from in Target.sources.
    """
    beyond = [
        sizes
        for tensors in shapes.tensors.values()
        for sizes in tensors
        if sizes.volume.range.max is not None and sizes.volume.range.max > target.max_volume
    ]
    for exact in (True, False):
        tensors = [sizes for sizes in beyond if sizes.volume.exact is exact]
        for sizes in tensors:
            yield Hit(
                _message(tensors, target),
                _evidence(tensors, target),
                place_of(program, sizes.node),
                Fix(
                    "lower the maxima of the dims in these sizes, or compile one program per range",
                    Applicability.UNSAFE,
                ),
                cause=f"exact {exact}",
                severity=Severity.ERROR if exact else Severity.WARNING,
            )


def _message(tensors: list[TensorSizes], target: Target) -> str:
    first = tensors[0]
    verb = "has" if first.volume.exact else "may have up to"
    rest = f" (and {counted(len(tensors) - 1, 'more tensor')})" if len(tensors) > 1 else ""
    return (
        f"{first.node} {verb} {first.volume.range.max:,} elements at the maximum of its ranges,"
        f" TensorRT {target.version} takes {target.max_volume:,}{rest}"
    )


def _evidence(tensors: list[TensorSizes], target: Target) -> tuple[Evidence, ...]:
    largest = max(tensors, key=lambda sizes: sizes.volume.range.max or 0)
    chosen = [tensors[0], largest] if largest is not tensors[0] else [largest]
    facts = []
    for sizes in chosen:
        shape = " x ".join(str(size.range.max) for size in sizes.dims)
        facts.append(
            Evidence(f"{sizes.node} is {shape} = {sizes.volume.range.max:,} elements", f"maxima, {sizes.volume.method}")
        )
    facts.append(Evidence(f"at most {target.max_volume:,} elements", dict(target.sources).get("max_volume", "Target")))
    return tuple(facts)
