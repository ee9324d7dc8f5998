"""PRT603."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.fallback_hits import HEAVY_BYTES
from trtdiag.analysis.fallbacks import PartitionFacts, summed
from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.places import at_origin, place_of
from trtdiag.analysis.rule import rule
from trtdiag.frontend.node_origins import stack_of
from trtdiag.frontend.program import Program
from trtdiag.partition.facts import Boundary, Bytes
from trtdiag.wording import amount, sized

MOST_NAMED = 5


@rule("PRT603", "heavy-boundary", Severity.WARNING)
def heavy_boundary(program: Program, facts: PartitionFacts) -> Iterator[Hit]:
    """Much memory crosses between engines and PyTorch.

    Why:
        A tensor that leaves an engine is written to memory in full and read again by what comes next; inside
        an engine most tensors never exist.  Inputs and outputs of the program cross in any split and are not
        counted.  Reported from 64 MiB on at usual sizes: at the 300 GB/s of an NVIDIA T4 writing and reading
        that takes 0.4 milliseconds.

    Example:
        x = self.upsample(x)               # 64 x 1024 x 1024 floats
        x = torch.ops.mylib.filter(x)      # stays in PyTorch: 256 MiB out of one engine, and into the next

    Fix safety:
        Manual: let the op in between be one that engines can hold, or move it to where tensors are small.

    Source:
        Boundaries of the partition, bytes at the ends of the declared ranges.  300 GB/s: NVIDIA T4 data sheet.
    """
    inner = [b for b in facts.partitioned.boundaries if not b.program_input and not (b.program_output and not _read(b))]
    total = summed(boundary.bytes for boundary in inner)
    if (total.opt or 0) < HEAVY_BYTES:
        return
    heaviest = sorted(inner, key=lambda boundary: -(boundary.bytes.opt or 0))[:MOST_NAMED]
    for boundary in heaviest:
        yield Hit(
            f"{amount(len(inner), 'tensor')} with {sized(total.opt or 0)} at usual sizes cross between engines "
            f"and PyTorch ({_ends(total)})",
            (Evidence(f"{boundary.tensor}: {_ends(boundary.bytes)}, {_way(boundary)}", _line(facts, boundary)),),
            _place(program, facts, boundary),
            Fix("keep the ops between these engines out of the way of large tensors, see OPS501 to OPS505"),
            cause="traffic",
            identity="traffic",
        )


def _read(boundary: Boundary) -> bool:
    return bool(boundary.consumers) or boundary.read_by_torch


def _ends(count: Bytes) -> str:
    return f"min {sized(count.min, 'unknown')}, usual {sized(count.opt, 'unknown')}, max {sized(count.max)}"


def _way(boundary: Boundary) -> str:
    source = "PyTorch" if boundary.producer is None else f"engine {boundary.producer}"
    readers = [f"engine {index}" for index in boundary.consumers] + ["PyTorch"] * boundary.read_by_torch
    return f"{source} to {', '.join(readers)}"


def _line(facts: PartitionFacts, boundary: Boundary) -> str:
    frame = stack_of(facts.plan.lowered.origins, boundary.tensor).best
    if frame is None:
        return boundary.tensor
    return f"{frame}: {frame.code}" if frame.code else str(frame)


def _place(program: Program, facts: PartitionFacts, boundary: Boundary) -> Place:
    if boundary.tensor in program.origins:
        return place_of(program, boundary.tensor)
    return at_origin(None, facts.plan.lowered.origins.get(boundary.tensor))
