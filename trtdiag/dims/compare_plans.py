"""Two declarations compared: what each admits, what one keeps of the other, and how to say it in one line."""

from __future__ import annotations

from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.dims.solver_input import asked_range
from trtdiag.frontend.dim_names import bounds_text
from trtdiag.grouping import grouped
from trtdiag.symbolic import Progression, Range, ValueSet

MOST_STEP = 1 << 20
"""A set of multiples of more is not counted: it takes a mask of that length."""
LEAST_SHARE = 4  # an alternative that keeps less than a quarter of the suggestion is no choice


def same(before: Leaf, asked: Plan, after: Leaf, final: Plan) -> bool:
    """Whether two declarations of one dim say the same, whatever their Dims are called."""
    if before.kind is not after.kind:
        return False
    if before.kind is not LeafKind.DIM:
        return before == after
    pairs = ((before, asked), (after, final))
    one, other = ((leaf.scale, leaf.offset, asked_range(leaf, plan)) for leaf, plan in pairs)
    return one == other


def same_plan(one: Plan, other: Plan) -> bool:
    """Whether two plans declare the same sizes in the same words, names aside."""
    if one.leaves.keys() != other.leaves.keys() or dict(one.sizes) != dict(other.sizes):
        return False
    if not all(same(leaf, one, other.leaves[site], other) for site, leaf in one.leaves.items()):
        return False
    return sharing(one) == sharing(other)


def sharing(plan: Plan) -> set[frozenset[str]]:
    """The sites that each Dim is used at."""
    roots = grouped((leaf.root, site) for site, leaf in plan.leaves.items() if leaf.kind is LeafKind.DIM)
    return {frozenset(sites) for sites in roots.values()}


def sharing_with(site: str, plan: Plan) -> frozenset[str]:
    """The sites of the Dim that is used at ``site``, itself among them; empty where none is."""
    return next((sites for sites in sharing(plan) if site in sites), frozenset())


def changed(site: str, asked: Plan, final: Plan) -> bool:
    """Whether one dim is declared otherwise, or together with others."""
    before = asked.leaves[site]
    after = final.leaves.get(site, before)
    return not same(before, asked, after, final) or sharing_with(site, final) != sharing_with(site, asked)


def values_of(leaf: Leaf, plan: Plan) -> ValueSet | None:
    """The sizes that a leaf admits; ``None`` where others determine them, or where its step is beyond all sizes."""
    range_ = asked_range(leaf, plan)
    if (leaf.kind is LeafKind.AUTO and leaf.range == Range()) or leaf.scale > MOST_STEP:
        return None
    if leaf.kind is LeafKind.DIM and leaf.scale > 1:
        return ValueSet.residues(leaf.scale, [leaf.offset], range_)
    return ValueSet.full(range_)


def kept_of(requested: ValueSet | None, admitted: ValueSet | None) -> tuple[int, int] | None:
    """How many of the requested sizes are admitted, and how many were requested; ``None`` where not counted."""
    if requested is None or admitted is None or requested.count is None:
        return None
    return (requested.intersect(admitted).count or 0, requested.count)


def lost_words(requested: ValueSet | None, admitted: ValueSet | None, name: str) -> str:
    """The requested sizes that are not admitted, in words with their number; empty where all are."""
    if requested is None or admitted is None:
        return ""
    stays = ValueSet(requested.range, admitted.stretches)
    gone = requested.intersect(stays.complement())
    if gone.is_empty:
        return ""
    said, rest = gone.describe(name), f"all but {stays.describe(name)}"
    words = said if len(gone.stretches) == 1 or len(said) <= len(rest) else rest
    return words if gone.count is None else f"{words}: {gone.count:,} values"


def counted_words(values: ValueSet, name: str) -> str:
    """The sizes in words, with how many of the asked ones they are where both are counted."""
    count, asked = values.count, values.range.count
    words = values.describe(name)
    return words if count is None or asked is None else f"{words}: {count:,} of {asked:,} values"


def spelled(leaf: Leaf, plan: Plan) -> str:
    """A leaf in one line: ``8*_h, _h: 17..270``, ``h: 2..64``, ``16``, ``Dim.DYNAMIC(min=9, max=64)``."""
    match leaf.kind:
        case LeafKind.STATIC:
            return str(leaf.value)
        case LeafKind.DIM:
            ends = _ends(plan.range_of(leaf.root))
            line = line_text(leaf)
            if line == leaf.root:
                return f"{leaf.root}{ends}"
            return f"{line}{', ' + leaf.root + ends if ends else ''}"
        case _:
            bounds = bounds_text(leaf.range)
            return f"Dim.{leaf.kind.name}" + (f"({bounds})" if bounds else "")


def line_text(leaf: Leaf) -> str:
    """A DIM leaf over its root: ``h``, ``8*_h``, ``2*_n + 1``."""
    text = leaf.root if leaf.scale == 1 else f"{leaf.scale}*{leaf.root}"
    return text if leaf.offset == 0 else f"{text} {'+' if leaf.offset > 0 else '-'} {abs(leaf.offset)}"


def _ends(range_: Range) -> str:
    if range_ == Range():
        return ""
    if range_.max is None:
        return f" >= {range_.min}"
    return f" <= {range_.max}" if range_.min is None else f": {range_.min}..{range_.max}"


def worth_naming(other: Progression, best: Progression) -> bool:
    """Whether someone could prefer ``other``: it keeps more, or is simpler and keeps nearly as much.

    The same step at another residue is no choice: it only needs another example.
    """
    if other.kept is None or best.kept is None:
        return other.step < best.step
    return other.kept > best.kept or (other.step < best.step and other.kept * LEAST_SHARE >= best.kept)
