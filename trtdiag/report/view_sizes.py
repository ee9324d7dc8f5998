"""One row for each size of the inputs: what was asked, what is allowed, what to declare, what engines are built for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trtdiag.analysis.result import Analysis
from trtdiag.dims.facts import DimRow
from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.grouping import grouped
from trtdiag.report.page import Part, shown
from trtdiag.shapes.facts import SymbolFacts
from trtdiag.shapes.profile import DimProfile, input_profile
from trtdiag.symbolic import Range, Sym, ValueSet
from trtdiag.wording import listed, one_line

STATES = {
    "breaks": "refuses declared values",
    "pinned": "one value only",
    "unbounded": "no upper bound",
    "unread": "a guard was not read",
    "undecided": "a guard is undecided",
}
DOUBTFUL = ("unread", "undecided")
"""States of sizes that may be right as they are: nothing shows that."""
MARKED = dict.fromkeys(DOUBTFUL, "breaks")
"""States that a page marks as others."""
SHOWN_SITES = 3
_MOST_RESIDUES = 4


@dataclass(frozen=True)
class Kept:
    """The sizes that the proposed declaration admits: from ``low`` in steps up to ``high`` (``None``: no end)."""

    low: int
    high: int | None
    step: int


@dataclass(frozen=True)
class Size:
    """One size of the inputs.

    Attributes:
        rows: The dims that have it, alike but for their sites.
        name: The user's name for it; empty where it has none but its site.
        kept: What the proposed declaration admits; ``None`` without one.
        profile: What engines are built for, where that is known.
    """

    rows: tuple[DimRow, ...]
    name: str
    kept: Kept | None
    profile: DimProfile | None

    @property
    def row(self) -> DimRow:
        """The first of them."""
        return self.rows[0]

    @property
    def sites(self) -> str:
        """``x.shape[0], y.shape[0] and 3 more``."""
        return one_line(listed([row.site for row in self.rows], SHOWN_SITES))


def input_sizes(analysis: Analysis) -> list[Size]:
    """The sizes of the inputs; those of equal dims once."""
    declaration = analysis.dims.declaration
    plan = None if declaration is None else declaration.plan
    profiles = _profiles(analysis)
    named = {
        dim.site: analysis.program.names.get(dim.expr.name, "")
        for tensor in analysis.program.inputs
        for dim in tensor.dims
        if isinstance(dim.expr, Sym)
    }
    sizes = []
    for alike in _alike(analysis.dims.rows):
        row = alike[0]
        name = named.get(row.site, "")
        sites = {each.site for each in alike}
        sizes.append(Size(tuple(alike), "" if name in sites else name, _kept(plan, row), profiles.get(row.site)))
    return sizes


def _alike(rows: Iterable[DimRow]) -> list[list[DimRow]]:
    """The rows by all but their site: one size in thirty inputs is one line of the table."""
    # A dim without a symbol has nothing in common with another one but its numbers.
    return list(grouped((row if row.symbol is None else replace(row, site=""), row) for row in rows).values())


def _profiles(analysis: Analysis) -> dict[str, DimProfile]:
    """What engines are built for, by site; only of sizes all of whose symbols have a profile."""
    box = {symbol: Range(each.min, each.max) for symbol, each in analysis.profiles.items()}
    usual = {symbol: each.opt for symbol, each in analysis.profiles.items()}
    dynamic = {row.site for row in analysis.dims.rows if row.symbol in box}
    dims = [dim for tensor in analysis.program.inputs for dim in tensor.dims if dim.site in dynamic]
    return {dim.site: input_profile((dim.expr,), box, usual)[0] for dim in dims}


def _kept(plan: Plan | None, row: DimRow) -> Kept | None:
    leaf = None if plan is None else plan.leaves.get(row.site)
    if plan is None or leaf is None or leaf.kind is not LeafKind.DIM:
        return None
    of_root = plan.range_of(leaf.root)
    low = leaf.scale * (of_root.min or 0) + leaf.offset
    return Kept(low, None if of_root.max is None else leaf.scale * of_root.max + leaf.offset, leaf.scale)


def size_view(size: Size) -> Part:
    """The row of the table."""
    row = size.row
    return {
        "site": size.sites,
        "name": one_line(size.name),
        **shown(row, "declared", "range"),
        **shown(row, "allowed", limit=600),
        "residues": residue_words(row.admits),
        **shown(row, "suggested", limit=600),
        "kept": "" if size.kept is None else kept_words(size.kept),
        "profile": profile_text(size.profile),
        "state": MARKED.get(row.state, row.state),
        "label": STATES.get(row.state, row.state),
    }


def data_size_view(facts: SymbolFacts, profile: DimProfile | None) -> Part:
    """The row of a size that the data decide."""
    ends = facts.range is not None and facts.range.bounded
    fine = "assumed, not proven; the data decide it" if facts.assumed else "the data decide it"
    return {
        "site": one_line(facts.born_by or facts.name),
        "name": one_line(facts.name),
        "declared": "",
        "range": "" if facts.range is None else str(facts.range),
        **dict.fromkeys(("allowed", "residues", "suggested", "kept"), ""),
        "profile": profile_text(profile),
        "state": "ok" if ends else "unbounded",
        "label": fine if ends else STATES["unbounded"],
    }


def profile_text(profile: DimProfile | None) -> str:
    """``1 / 4 / 9``: least, usual, greatest size."""
    if profile is None:
        return ""
    return f"{profile.min:,} / {profile.opt:,} / {'no maximum' if profile.max is None else f'{profile.max:,}'}"


def kept_words(kept: Kept) -> str:
    """``200..400 in steps of 2``."""
    steps = f" in steps of {kept.step:,}" if kept.step > 1 else ""
    return f"{Range(kept.low, kept.high)}{steps}"


def residue_words(values: ValueSet | None) -> str:
    """``multiples of 8``, ``1 or 3 more than multiples of 4``; empty where the set has no pattern of this kind."""
    pattern = residues(values)
    if pattern is None:
        return ""
    period, found = pattern
    if found == [0]:
        return f"multiples of {period:,}"
    over = " or ".join(f"{each:,}" for each in found if each)
    more = f"{over} more than multiples of {period:,}"
    return f"multiples of {period:,}, or {more}" if 0 in found else more


def residues(values: ValueSet | None) -> tuple[int, Sequence[int]] | None:
    """The period of a set and the few remainders that it has; ``None`` where it is no such set."""
    masks = {stretch.mask.tobytes(): stretch.mask for stretch in values.stretches} if values is not None else {}
    if len(masks) != 1:
        return None
    (mask,) = masks.values()
    found = [at for at, member in enumerate(mask) if member]
    return (len(mask), found) if len(mask) > 1 and len(found) <= _MOST_RESIDUES else None
