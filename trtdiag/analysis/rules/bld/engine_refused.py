"""BLD701."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.places import at_origin
from trtdiag.analysis.rule import rule
from trtdiag.analysis.tried_builds import TriedBuilds, TriedEngine
from trtdiag.frontend.program import Program


@rule("BLD701", "engine-refused", Severity.ERROR)
def engine_refused(program: Program, tried: TriedBuilds | None, partition: PartitionFacts | None) -> Iterator[Hit]:
    """The real builder refuses an engine that was planned.

    Why:
        `--try-build` hands each planned engine to TensorRT's own builder.  What it refuses cannot be compiled
        as planned, whatever the documents say: a fusion that has no kernel, a type that a GPU generation
        lacks, a shape that cannot be at the ends of a range.  The message has the builder's words, and the op
        that it names; where it names a whole stretch, ever less of the network was built until the op at
        fault was found.

        Where another way was found to build the engine (an output that ends the fusion, an op left to
        PyTorch) `compile` takes it by itself, and this is a warning.  Building and searching end together with
        `--build-limit`; the layers that were not searched by then are named.

    Example:
        trtdiag analyze model.pt2 --try-build --gpu sm75   # float32 products have no kernels on Turing
        trtdiag analyze model.pt2 --try-build --gpu sm89   # they have on Ada

    Fix safety:
        Manual: leaving an op to PyTorch changes no result, and costs engines; another type changes numbers.

    Source:
        What the installed builder said; its release stands in the evidence.
    """
    del program  # the builder is asked about engines, which come from the partition
    if tried is None or partition is None:
        return
    for engine in tried.engines:
        refusal = engine.refusal
        if refusal is None:
            continue
        yield Hit(
            f"{tried.builder} refuses engine {engine.index} for {', '.join(refusal.gpus)}: {refusal.message}",
            tuple(_evidence(tried, engine)),
            _place(partition, refusal.node),
            Fix(refusal.fix),
            severity=Severity.WARNING if tried.remedied else None,
        )


def _evidence(tried: TriedBuilds, engine: TriedEngine) -> Iterator[Evidence]:
    assert engine.refusal is not None
    yield Evidence(engine.refusal.because, tried.builder)
    if engine.gpus:
        yield Evidence(f"it is built for {', '.join(engine.gpus)}", tried.builder)
    if tried.unsearched:
        yield Evidence(tried.unsearched, tried.builder)
    if tried.remedied:
        yield from (Evidence(note, tried.builder) for note in tried.remedies)


def _place(partition: PartitionFacts, node: str | None) -> Place:
    if node is None:
        return Place()
    return at_origin(node, partition.plan.lowered.origins.get(node))
