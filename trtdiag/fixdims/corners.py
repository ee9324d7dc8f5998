"""Sizes at which an exported program refuses to run although every recorded condition holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.dims.solver_input import asked_range, dims_in, system_of
from trtdiag.fixdims.export_result import Corner, Tried
from trtdiag.fixdims.fix import Reason
from trtdiag.fixdims.notes import Notebook
from trtdiag.frontend.dim_names import Names, identifier
from trtdiag.symbolic import BoundsCache, free_symbols
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.expr import Num
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.text import in_words

HINTS = (LeafKind.AUTO, LeafKind.DYNAMIC)


def low_hints(plan: Plan) -> bool:
    """Whether a hint asks for sizes of 0 or 1, which torch leaves out of the program's ranges."""
    return any(leaf.kind in HINTS and leaf.range.min in (0, 1) for leaf in plan.leaves.values())


def raised_minimum(plan: Plan, tried: Tried, notebook: Notebook) -> Plan | None:
    """The plan without the smallest value of the symbols that are 0 or 1 where the program was refused.

    torch traces as if no symbol were 0 or 1 (torch 2.13, ``StrictMinMaxConstraint``), so nothing guards what happens
    there: running it on shapes is the only way to see it.
    """
    refused = [corner for corner in tried.corners if corner.refusal]
    if not refused:
        return None
    low = {symbol for corner in refused for symbol, value in corner.point.items() if value in (0, 1)}
    alone = {
        symbol
        for symbol in low
        for corner in refused
        if corner.point[symbol] in (0, 1) and all(v > 1 for s, v in corner.point.items() if s != symbol)
    }
    blamed = alone or _named(refused, low, tried) or low
    if not blamed:
        return None
    leaves, definitions = dict(plan.leaves), {definition.name: definition for definition in plan.defs}
    changed = False
    for dim, leaf in dims_in(tried.inputs, plan):
        line = affine(dim.expr)
        if line is None or line[0] not in blamed:
            continue
        value = next(corner.point[line[0]] for corner in refused if corner.point.get(line[0]) in (0, 1))
        notebook.of(dim.site).because([_why(in_words(refused[0].refusal, tried.names), dict(refused[0].sizes))])
        if leaf.kind is LeafKind.DIM:
            old = definitions[leaf.root].range
            root = (line[1] * value + line[2] - leaf.offset) // leaf.scale
            definitions[leaf.root] = DimDef(leaf.root, _above(old, root))
        else:
            leaves[dim.site] = replace(leaf, range=_above(leaf.range, value))
        changed = True
    return _without_single(Plan(tuple(definitions.values()), leaves, plan.sizes)) if changed else None


def _without_single(plan: Plan) -> Plan:
    """The plan with a number in the place of each range of one size: torch takes no such Dim."""
    ranges = {site: asked_range(leaf, plan) for site, leaf in plan.leaves.items()}
    return plan.with_static({site: range_.single for site, range_ in ranges.items() if range_.single is not None})


def named_instead(plan: Plan, asked: Plan, tried: Tried) -> Plan | None:
    """``plan`` with named Dims in place of hints that cost sizes below 2; ``None`` where there are none.

    torch (2.13) bounds a size under a hint as if it, or those that it is made of, began at 2, and one under a named Dim
    as the Dim says, although it ties both to the others in the same way.
    """
    box = system_of(tried.inputs, plan).box
    dims = {dim.site: dim for dim, _leaf in dims_in(tried.inputs, plan)}
    hinted = [
        site
        for site, leaf in plan.leaves.items()
        if site in dims
        and (
            (leaf.kind is LeafKind.AUTO and affine(dims[site].expr) is None and not isinstance(dims[site].expr, Num))
            or (leaf.kind in HINTS and leaf.range.min in (0, 1))
        )
    ]
    taken, leaves = {definition.name for definition in plan.defs}, dict(plan.leaves)
    definitions = {definition.name: definition for definition in plan.defs}
    for site in hinted:
        was = asked.leaves.get(site)
        if was is not None and was.kind is LeafKind.DIM and was.root not in taken:
            definitions[was.root] = next(d for d in asked.defs if d.name == was.root)
            leaves[site] = was
            continue
        range_ = plan.leaves[site].range
        if plan.leaves[site].kind is LeafKind.AUTO:
            range_ = BoundsCache(box).of(dims[site].expr).range.intersect(range_)
        if range_.min is None or range_.empty:
            return None
        name = Names(definitions).take(identifier(site), derived=True)
        definitions[name] = DimDef(name, range_)
        leaves[site] = Leaf(LeafKind.DIM, name)
    return Plan(tuple(definitions.values()), leaves, plan.sizes) if hinted else None


def note_named(named: Plan, hinted: Plan, asked: Plan, notebook: Notebook) -> None:
    """Say why a hint that the user gave became a named Dim."""
    for site, leaf in named.leaves.items():
        if leaf != hinted.leaves[site] and asked.leaves.get(site) == hinted.leaves[site]:
            text = "torch.export bounds a size under a hint as if it, or those that it is made of, began at 2"
            notebook.of(site).because([Reason(text, by="torch.export")])


def _named(refused: Sequence[Corner], low: set[str], tried: Tried) -> set[str]:
    """Those symbols that size an input dim which a refusal names (``Guard failed: c.size()[1] >= 4``)."""
    return {
        symbol
        for tensor in tried.inputs
        for dim in tensor.dims
        if any(f"{dim.input}.size()[{dim.index}]" in corner.refusal for corner in refused)
        for symbol in free_symbols(dim.expr) & low
    }


def _above(range_: Range, value: int) -> Range:
    return Range(max(value + 1, range_.min or 0), range_.max)


def _why(refusal: str, sizes: Mapping[str, int]) -> Reason:
    at = ", ".join(f"{site} = {size}" for site, size in sizes.items())
    return Reason(
        f"the exported program refuses its smallest sizes: {refusal}", by="a run on shapes", counterexample=at
    )
