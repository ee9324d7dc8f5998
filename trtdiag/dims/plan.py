"""A declaration of input dims as plain values: what can be solved, compared, sent to another process and spelled.

Also that of a program which is exported already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from trtdiag.frontend.dim_names import free_name, identifier
from trtdiag.frontend.program import Program
from trtdiag.grouping import grouped
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.expr import Num, Sym
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

    def with_examples_of_static(self, examples: Mapping[str, int]) -> Plan:
        """The plan with an example of the size of each number that it declares, where the given one has another."""
        values = {site: leaf.value for site, leaf in self.leaves.items() if leaf.kind is LeafKind.STATIC}
        other = {site: value for site, value in values.items() if value is not None and examples.get(site) != value}
        missing = {site: value for site, value in other.items() if site in examples and site not in self.sizes}
        return Plan(self.defs, self.leaves, {**self.sizes, **missing}) if missing else self

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


def program_plan(program: Program) -> Plan:
    """The dims that a program was exported with, named after the inputs they size: a file keeps no names of Dims."""
    definitions: dict[str, DimDef] = {}
    leaves: dict[str, Leaf] = {}
    for tensor in program.inputs:
        for dim in tensor.dims:
            line = affine(dim.expr)
            if isinstance(dim.expr, Num):
                continue
            if line is None or line[1] < 1:
                leaves[dim.site] = Leaf(LeafKind.AUTO)
                continue
            symbol, scale, offset = line
            if symbol not in definitions:
                name = identifier(program.names.get(symbol, dim.site))
                name = name if isinstance(dim.expr, Sym) or name.startswith("_") else f"_{name}"
                name = free_name(name, {definition.name for definition in definitions.values()})
                definitions[symbol] = DimDef(name, _said(program.ranges.get(symbol, Range())))
            whole = (scale, offset) == (1, 0)
            name = "" if whole else identifier(dim.site)
            leaves[dim.site] = Leaf(LeafKind.DIM, definitions[symbol].name, scale, offset, name=name)
    return Plan(tuple(definitions.values()), leaves)


def _said(range_: Range) -> Range:
    """The range without the 0 that torch writes where no minimum was given."""
    return Range(None if range_.min == 0 else range_.min, range_.max)
