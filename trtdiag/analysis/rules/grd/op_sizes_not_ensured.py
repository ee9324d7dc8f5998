"""GRD308."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.accepted_sizes import named_sizes
from trtdiag.analysis.corrected_dims import corrected_dims, one_dim
from trtdiag.analysis.fallback_hits import impact_of
from trtdiag.analysis.fallbacks import PartitionFacts, asked_of_ops, group_of
from trtdiag.analysis.rules import Applicability, Evidence, Fix, Hit, Severity, line_evidence, place_of, rule
from trtdiag.dims.facts import AskedByOp, Constraint, DimSystem
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import InputDim, Program
from trtdiag.shapes.shape_constraints import Ask
from trtdiag.symbolic import Compare, Range, Relation, Sym, free_symbols
from trtdiag.wording import amount, identifier, joined, listed, shortened, values_text

_MOST_LABELS = 6


@rule("GRD308", "op-sizes-not-ensured", Severity.ERROR)
def op_sizes_not_ensured(program: Program, dims: DimSystem, partition: PartitionFacts | None) -> Iterator[Hit]:
    """An op needs sizes that fit together, and the program lets in others.

    Why:
        Every op asks something of its sizes: keys and values of attention have one length, what index_put
        writes is repeated to what the indices choose, all dims but one of cat are equal.  torch.export
        records most of it as guards, but it traces on tensors without content, and some kernels for those
        do not look (scaled_dot_product_attention, index_put, slice_scatter, select_scatter; torch 2.13);
        a file of torch before 2.9 holds no guards.  Where indices are positions that arange counts, sizes
        decide whether they lie inside a table (embedding, an index), and nothing looks at that either.
        Such a program exports, and fails on the first input whose sizes do not fit.  A converter needs the
        same: it writes no layer for sizes that are not shown to fit, so the op stays in PyTorch, or its
        engine fails at sizes that its profile promises.

        The op has been run alone, on small real tensors, at the sizes that are named and at sizes that
        fit: it refuses the first and takes the second.  Attention is run as matrix products, because the
        fused kernel for the CPU reads beyond the shorter of keys and values without a word.  Where a call
        is too large for that, the finding is a warning and says so.

    Example:
        dynamic_shapes={"past_k": {2: Dim("k")}, "past_v": {2: Dim("v")}}     # one cache in two tensors

        past = Dim("past", min=2, max=4096)
        dynamic_shapes={"past_k": {2: past}, "past_v": {2: past}}

    Fix safety:
        Safe where two ranges become one and the op has no result for other sizes.  Unsafe where it repeats
        a size of 1 and a range begins there: one shared Dim takes that input away.

    Source:
        The ops of the exported graph, the guards and ranges of the program, and the op run alone.
    """
    sites = Sites(program)
    for constraint in asked_of_ops(dims):
        asked = constraint.origin.asked
        assert asked is not None  # asked_of_ops gives no other
        pair = _pair(constraint, sites)
        text = constraint.text if pair is None else " == ".join(dict.fromkeys(map(sites.label, pair)))
        failing = values_text(_sizes(asked, sites))
        yield Hit(
            f"{constraint.origin.op} needs {shortened(text)}, and nothing ensures it: {failing} "
            + ("does not fit" if asked.untried else "fails"),
            tuple(_evidence(constraint, asked, text, failing, partition)),
            place_of(program, constraint.origin.node or "", constraint.origin.op),
            _fix(constraint, pair, dims, sites),
            cause=constraint.text,
            severity=Severity.WARNING if asked.untried else None,
            impact=None if (group := group_of(partition, constraint.origin.node)) is None else impact_of(group),
        )


def _sizes(asked: AskedByOp, sites: Sites) -> dict[str, int]:
    """The refused sizes by the user's names, in the order of the inputs."""
    order = [symbol for dim in sites.dims for symbol in free_symbols(dim.expr)]
    ordered = sorted(asked.sizes, key=lambda name: order.index(name) if name in order else len(order))
    return named_sizes(sites, {symbol: asked.sizes[symbol] for symbol in ordered})


def _evidence(
    constraint: Constraint, asked: AskedByOp, text: str, failing: str, partition: PartitionFacts | None
) -> Iterator[Evidence]:
    origin = constraint.origin
    yield Evidence(f"{asked.what}: {asked.how}", f"{origin.op}, node {origin.node}")
    yield Evidence(f"no guard and no range ensures {text}", "guards and ranges")
    if asked.untried:
        yield Evidence(f"not tried at {failing}: {asked.untried}", "derived from the op")
    else:
        yield Evidence(f"{failing}: {shortened(asked.refusal, 200)}", "the op run alone on real tensors")
    yield from line_evidence(origin.stack.best)
    group = group_of(partition, origin.node)
    if group is not None and group.cost is not None:
        now = group.cost
        yield Evidence(
            f"it stays in PyTorch for that: {amount(now.segments_before, 'engine')} with "
            f"{amount(now.ops_before, 'op')}; with it inside {amount(now.segments_after, 'engine')} with "
            f"{amount(now.ops_after, 'op')}",
            "partitioned again without this reason",
        )
    elif group is None and partition is not None and partition.partitioned.segments:
        yield Evidence("nothing of it stays in PyTorch: its engine promises sizes that the op refuses", "the partition")


def _fix(constraint: Constraint, pair: list[InputDim] | None, dims: DimSystem, sites: Sites) -> Fix:
    if pair is None:
        made = corrected_dims(dims, constraint.symbols)
        title = f"declare the dims so that {shortened(constraint.text)}, or assert it with torch._check in the model"
        return made or Fix(title)
    shared, lowest = Range(), 2
    for dim in pair:
        if dim.declared_range is not None:
            shared = shared.intersect(dim.declared_range)
            lowest = min(lowest, dim.declared_range.min or 0)
    exact = constraint.origin.asked is not None and constraint.origin.asked.how == Ask.EQUAL.value
    # Dims that share a name already are told once.
    labels = list(dict.fromkeys(sites.label(dim) for dim in pair))
    name = identifier(labels[0])
    code, kept = one_dim(dims, name, shared, {dim.site: name for dim in pair})
    # Other conditions may take sizes away, too; a range that begins at 0 was given no minimum.
    whole = shared == Range() or (max(kept.min or 0, 1), kept.max) == (max(shared.min or 0, 1), shared.max)
    return Fix(
        f"declare {joined(labels) if len(labels) <= _MOST_LABELS else listed(labels, _MOST_LABELS)} with one Dim",
        Applicability.SAFE if (exact or lowest >= 2) and whole else Applicability.UNSAFE,
        code,
    )


def _pair(constraint: Constraint, sites: Sites) -> list[InputDim] | None:
    """The input dims whose sizes have to be one; ``None`` where more than an equation of two sizes is asked."""
    condition = constraint.condition
    if not isinstance(condition, Compare) or condition.relation is not Relation.EQ:
        return None
    if not (isinstance(condition.left, Sym) and isinstance(condition.right, Sym)):
        return None
    dims = [dim for dim in sites.dims if dim.expr in (condition.left, condition.right)]
    return dims if len({dim.expr for dim in dims}) == 2 else None
