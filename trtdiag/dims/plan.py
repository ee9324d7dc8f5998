"""A declaration of input dims as plain values: what can be solved, compared, sent to another process and spelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from trtdiag.grouping import grouped
from trtdiag.symbolic.ranges import Range


class LeafKind(Enum):
    """How one input dim is declared in the words of ``torch.export``."""

    DIM = "dim"  # scale*root + offset; a plain Dim where scale is 1 and offset 0
    STATIC = "static"  # one size, written as an int
    AUTO = "auto"  # Dim.AUTO: torch works the size out from others
    DYNAMIC = "dynamic"  # Dim.DYNAMIC: dynamic, its guards not compared with the range by torch


@dataclass(frozen=True)
class DimDef:
    """One ``Dim`` to define: a Python identifier that is also its name, and its range (open ends are not written)."""

    name: str
    range: Range


@dataclass(frozen=True)
class Leaf:
    """What is declared at one input dim.

    Attributes:
        kind: Which of the fields below count.
        root: DIM: the name of the ``DimDef`` that it is made of.
        scale: DIM: 1 or more.
        offset: DIM: added to ``scale * root``.
        value: STATIC: the size.
        range: AUTO and DYNAMIC: bounds to write into the hint; an open end is not written.
        name: DIM: the name of the variable that holds ``scale*root + offset`` in the code; empty writes it inline.
    """

    kind: LeafKind
    root: str = ""
    scale: int = 1
    offset: int = 0
    value: int | None = None
    range: Range = field(default=Range())
    name: str = ""


@dataclass(frozen=True)
class Plan:
    """A whole declaration.

    Attributes:
        defs: The Dims to define, in the order of first use.
        leaves: By site (``x.shape[2]``, ``batch['image'][0].shape[3]``); dims that are not in it are left as they
            are in the user's structure (``None``, static).
        sizes: Other sizes for the example inputs, by site, where the export needs them; else empty.
    """

    defs: tuple[DimDef, ...]
    leaves: Mapping[str, Leaf]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def range_of(self, name: str) -> Range:
        """The range of the defined ``Dim`` of this name.

        Raises:
            KeyError: None has it.
        """
        for definition in self.defs:
            if definition.name == name:
                return definition.range
        raise KeyError(name)

    def groups(self) -> dict[str, list[str]]:
        """The sites that are not static, by the Dim that they are made of; one made of none stands by itself."""
        moving = ((site, leaf) for site, leaf in self.leaves.items() if leaf.kind is not LeafKind.STATIC)
        return grouped((leaf.root or site, site) for site, leaf in moving)

    def with_static(self, sizes: Mapping[str, int]) -> Plan:
        """The plan with a number at each of these sites, and without the Dims that are then used nowhere."""
        leaves = {
            site: Leaf(LeafKind.STATIC, value=sizes[site]) if site in sizes else leaf
            for site, leaf in self.leaves.items()
        }
        used = {leaf.root for leaf in leaves.values()}
        return Plan(tuple(d for d in self.defs if d.name in used), leaves, self.sizes)

    def sizes_with(self, sites: Sequence[str], size: int) -> dict[str, int]:
        """Sizes for all that is made of the Dim at ``sites``, such that the first of them has this size."""
        first = self.leaves[sites[0]]
        if first.kind is not LeafKind.DIM:
            return dict.fromkeys(sites, size)
        root = (size - first.offset) // first.scale
        return {
            site: leaf.scale * root + leaf.offset
            for site, leaf in self.leaves.items()
            if leaf.kind is LeafKind.DIM and leaf.root == first.root
        }
