"""The condition that a symbol lies in a ``ValueSet``."""

from __future__ import annotations

import numpy as np

from trtdiag.symbolic import patterns
from trtdiag.symbolic.build import mod
from trtdiag.symbolic.conditions import all_of, any_of, compare, within
from trtdiag.symbolic.expr import Condition, Relation, Sym
from trtdiag.symbolic.patterns import PatternError
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.valueset import ValueSet

MOST_PARTS = 1 << 10


def membership(values: ValueSet, symbol: str) -> Condition:
    """A condition on ``symbol`` that holds exactly for the members of ``values``.

    Raises:
        PatternError: It would have more than about a thousand parts.
    """
    target = Sym(symbol)
    parts: list[Condition] = []
    size = 0
    for stretch in values.stretches:
        here = within(target, Range(stretch.low, stretch.high))
        if stretch.mask is not patterns.ALL and not stretch.mask.all():
            period = len(stretch.mask)
            residues = np.flatnonzero(stretch.mask).tolist()
            size += len(residues)
            if size > MOST_PARTS:
                raise PatternError(f"the set has more than {MOST_PARTS} residues")
            rest = mod(target, period)
            here.append(any_of(compare(Relation.EQ, rest, residue) for residue in residues))
        parts.append(all_of(here))
    return any_of(parts)
