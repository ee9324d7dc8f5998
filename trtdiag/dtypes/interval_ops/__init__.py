"""Interval rules by op family; ``RULES`` maps an op's short name to its rule."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.dtypes.call import Rule
from trtdiag.dtypes.interval_ops import (
    arithmetic,
    creation,
    functions,
    indices,
    rearranging,
    reducing,
    rounding,
    selecting,
)

_FAMILIES = (arithmetic, creation, functions, indices, rearranging, reducing, rounding, selecting)

RULES: Mapping[str, Rule] = {name: rule for family in _FAMILIES for name, rule in family.RULES.items()}

__all__ = ["RULES"]
