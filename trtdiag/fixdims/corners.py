"""Sizes at which an exported program refuses to run although every recorded condition holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trtdiag.dims.asked_ranges import affine, dims_in
from trtdiag.dims.plan import DimDef, LeafKind, Plan
from trtdiag.fixdims.fix import Alternative, Reason
from trtdiag.fixdims.notes import Notebook
from trtdiag.fixdims.tried import Corner, Tried
from trtdiag.symbolic import free_symbols
from trtdiag.symbolic.ranges import Range


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
        notebook.of(dim.site).because([_why(refused[0].refusal, dict(refused[0].sizes))])
        if leaf.kind is LeafKind.DIM:
            old = definitions[leaf.root].range
            root = (line[1] * value + line[2] - leaf.offset) // leaf.scale
            definitions[leaf.root] = DimDef(leaf.root, _above(old, root))
        else:
            leaves[dim.site] = replace(leaf, range=_above(leaf.range, value))
        changed = True
    return Plan(tuple(definitions.values()), leaves, plan.sizes) if changed else None


def named_instead(plan: Plan, asked: Plan) -> Plan | None:
    """``plan`` with the user's own Dims in place of the ``Dim.AUTO`` that were put there; ``None`` without any.

    torch (2.13) bounds a size under a hint as if those it is made of began at 2, and one under a named Dim as the Dim
    says, although it ties both to the others in the same way.
    """
    ours = {
        site
        for site, leaf in plan.leaves.items()
        if leaf.kind is LeafKind.AUTO and site in asked.leaves and asked.leaves[site].kind is LeafKind.DIM
    }
    taken = {definition.name for definition in plan.defs}
    wanted = [definition for definition in asked.defs if definition.name in {asked.leaves[site].root for site in ours}]
    if not ours or any(definition.name in taken for definition in wanted):
        return None
    leaves = {site: asked.leaves[site] if site in ours else leaf for site, leaf in plan.leaves.items()}
    return Plan((*plan.defs, *wanted), leaves, plan.sizes)


def note_smaller(named: Plan, hinted: Plan, notebook: Notebook) -> None:
    """Note at each dim that keeps less under a hint that it need not, with the user's own Dims."""
    own = {leaf.root: "" for site, leaf in named.leaves.items() if hinted.leaves[site].kind is LeafKind.AUTO}
    names = ", ".join(own)
    for site, leaf in named.leaves.items():
        note = notebook.of(site)
        if any(reason.by == "a run on shapes" for reason in note.reasons) and leaf.kind is LeafKind.DIM:
            low = named.range_of(leaf.root).min
            text = f"{notebook.names.get(site, site)} >= {low} with the Dim {names} in place of Dim.AUTO"
            note.staying.append(Alternative(text, None, "exported and run at that size; torch ties them in silence"))


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
