"""The outcome of solving: which sizes to declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trtdiag.symbolic import ConflictResult, Progression, Proof, Solution
from trtdiag.symbolic.expr import Condition, Expr


@dataclass(frozen=True)
class Chosen:
    """Sizes for every symbol such that all conditions hold for every combination of the roots' values.

    Attributes:
        sets: Root symbol -> its values.  Fresh roots, where no symbol is the root of its group, are ``_root0``, ...
        determined: Symbol -> its size over the roots.
        allowed: Symbol -> the exact set that the conditions on it alone allow in its asked range.
        alternatives: Symbol -> other sayable sets in the same allowed set, best first.
        open: Conditions neither shown to hold nor mended over the chosen sizes.
        proof: That every condition but the ``open`` ones holds over the chosen sizes; its kind is NONE where one is
            open.
        conflict: Where no choice exists: a smallest set of conditions that contradict each other in the box.
            ``sets`` and ``determined`` are empty then.
        narrowed_by: Symbol -> the conditions because of which it keeps less than its asked range, those that take
            the most away first.
    """

    sets: Mapping[str, Progression]
    determined: Mapping[str, Expr]
    allowed: Mapping[str, Solution]
    alternatives: Mapping[str, tuple[Progression, ...]]
    open: tuple[Condition, ...]
    proof: Proof
    conflict: ConflictResult | None
    narrowed_by: Mapping[str, tuple[Condition, ...]]
