"""The sizes that a user may choose freely: one number for each Dim or hint that was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trtdiag.dims.declare import dim_names
from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.dims.solver_input import asked_range
from trtdiag.frontend.dim_names import free_name, identifier
from trtdiag.frontend.program import InputTensor
from trtdiag.symbolic import add, free_symbols, mul
from trtdiag.symbolic.expr import Expr, Sym
from trtdiag.symbolic.ranges import Range


@dataclass(frozen=True)
class Coordinate:
    """One number that sizes input dims.

    Attributes:
        name: A Python identifier, each coordinate its own.
        label: What the user calls it: the name of a Dim, else a place (``x.shape[2]``).
        lines: Site -> ``(scale, offset)``: the size there is ``scale * value + offset``.
        site: One of them, with the smallest scale: where the number is read off.
        range: The values that were asked for.
        follows: Torch works it out from the others: it is checked, and not counted.
    """

    name: str
    label: str
    lines: Mapping[str, tuple[int, int]]
    site: str
    range: Range
    follows: bool = False

    def size(self, site: str) -> Expr:
        """The size at one of its sites, over its name."""
        scale, offset = self.lines[site]
        return add(mul(scale, Sym(self.name)), offset)

    def sizes(self, value: int) -> dict[str, int]:
        """The size at each of its sites."""
        return {site: scale * value + offset for site, (scale, offset) in self.lines.items()}

    @property
    def code(self) -> str:
        """How the number follows from the size at ``site``, in Python."""
        scale, offset = self.lines[self.site]
        size = f"({self.site} {'-' if offset > 0 else '+'} {abs(offset)})" if offset else self.site
        return size if scale == 1 else f"{size} // {scale}"


def coordinates_of(asked: Plan, inputs: Iterable[InputTensor]) -> tuple[Coordinate, ...]:
    """The coordinates of what was asked, in the order of the inputs.

    Args:
        asked: The declaration; dims that it holds fixed are none.
        inputs: What an export made of it: sizes that torch ties to others are known from it.
    """
    exprs = {dim.site: dim.expr for tensor in inputs for dim in tensor.dims}
    labels = dim_names(asked)
    found: list[Coordinate] = []
    taken: set[str] = set()
    seen: set[str] = set()
    for key, sites in asked.groups().items():
        leaf = asked.leaves[sites[0]]
        hinted = leaf.kind is not LeafKind.DIM
        symbols = free_symbols(exprs[key]) if hinted and key in exprs else frozenset()
        follows = hinted and leaf.range == Range() and bool(symbols) and symbols <= seen
        seen |= symbols.union(*(free_symbols(exprs[site]) for site in sites if site in exprs))
        name = free_name(identifier(leaf.root or _short(key)).strip("_") or "size", taken)
        taken.add(name)
        found.append(_coordinate(name, sites, asked, labels, follows=follows))
    return tuple(found)


def _coordinate(name: str, sites: list[str], asked: Plan, labels: Mapping[str, str], *, follows: bool) -> Coordinate:
    leaves = {site: asked.leaves[site] for site in sites}
    best = min(sites, key=lambda site: (leaves[site].scale, abs(leaves[site].offset)))
    leaf = leaves[best]
    sizes = asked_range(leaf, asked)
    if leaf.scale > 1:  # the number is the root itself
        lines = {site: (each.scale, each.offset) for site, each in leaves.items()}
        return Coordinate(name, leaf.root, lines, best, sizes.unscaled(leaf.scale, leaf.offset))
    lines = {site: (each.scale, each.offset - each.scale * leaf.offset) for site, each in leaves.items()}
    return Coordinate(name, labels.get(best, best), lines, best, sizes, follows)


def _short(site: str) -> str:
    """``x.shape[2]`` as ``x_2``."""
    return site.replace(".shape", "")
