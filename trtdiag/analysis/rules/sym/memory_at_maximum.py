"""SYM206."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.rules import place_of, rule
from trtdiag.frontend.program import Program
from trtdiag.shapes.facts import MemoryEstimate
from trtdiag.wording import sized

GIB = 2**30
# The smallest Jetson that TensorRT runs on (Orin Nano 4GB) and the smallest data centre card in wide use (T4, 16 GB).
NOTICE_BYTES = 4 * GIB
WARN_BYTES = 16 * GIB


@rule("SYM206", "memory-at-maximum", Severity.WARNING)
def memory_at_maximum(program: Program, memory: MemoryEstimate) -> Iterator[Hit]:
    """At the maximum of every range, weights and live tensors need a lot of memory.

    Why:
        TensorRT plans its memory for the largest shape of the profile, whatever you run later.  Ranges
        that are wider than needed cost memory on every run, and a build whose largest shape does not fit
        into the GPU fails after many minutes.  The number here is the bytes of the weights plus the
        largest sum of tensors that are alive at one op, in the order of the graph, each dim at its
        maximum.  TensorRT fuses ops and reuses memory, so an engine may need less; its workspace and a
        second copy of the weights during the build come on top.

        Silent up to 4 GiB, INFO above it, a warning above 16 GiB.

    Example:
        Dim("batch", max=64), Dim("seq", max=8192)     # attention scores alone: 64*12*8192*8192*2 bytes

    Fix safety:
        Unsafe: lower maxima take inputs away.

    Source:
        4 GiB: Jetson Orin Nano 4GB, the smallest current board with TensorRT.  16 GiB: NVIDIA T4.  Both
        are a choice, not a limit of TensorRT.
    """
    if memory.live_bytes is None:
        return
    total = memory.weight_bytes + memory.live_bytes
    if total <= NOTICE_BYTES:
        return
    facts = [
        Evidence(f"weights {sized(memory.weight_bytes)}", "parameters, buffers and constants, each storage once"),
        Evidence(
            f"largest live set {sized(memory.live_bytes)} at {memory.live_at or 'the inputs'}",
            str(memory.live_frame or "graph order, every dim at its maximum"),
        ),
    ]
    if memory.input_bytes is not None:
        facts.append(Evidence(f"inputs {sized(memory.input_bytes)}", "every dim at its maximum"))
    facts += [Evidence(f"{node} alone {sized(size)}", "every dim at its maximum") for node, size in memory.largest[:3]]
    limit = WARN_BYTES if total > WARN_BYTES else NOTICE_BYTES
    facts.append(Evidence(f"reported above {sized(limit)}", "see the page of SYM206"))
    yield Hit(
        f"weights and live tensors need {sized(total)} at the maximum of every range",
        tuple(facts),
        place_of(program, memory.live_at, frame=memory.live_frame) if memory.live_at else Place(),
        Fix("lower the maxima of the largest tensors' dims, or compile one program per range", Applicability.UNSAFE),
        cause="memory",
        severity=Severity.WARNING if total > WARN_BYTES else Severity.INFO,
    )
