"""Sizes to declare, with one Dim for two sizes that an op asks to be in order and that the example has equal.

A mask of as many rows as there are sequences is read at each sequence's number, so that its rows may be more.  The box
around the example that has most combinations then leaves one of the two hardly a value (``b: 1..2, b2: 2..64`` of
``b <= b2`` at 2 and 2); what people mean is that both are one, and then each keeps all of its values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trtdiag.dims.facts import GuardOrigin
from trtdiag.dims.solver.choose import Chosen, choose
from trtdiag.symbolic import Range, Relation, compare
from trtdiag.symbolic.expr import Compare, Condition, Sym


def chosen_sizes(
    given: Sequence[Condition],
    origins: Mapping[Condition, GuardOrigin],
    box: Mapping[str, Range],
    example: Mapping[str, int],
    **options: Any,
) -> Chosen:
    """`choose`, with one Dim for what `origins` asks to be in order, where that is possible.

    Args:
        given: As of `choose`.
        origins: Where conditions come from.
        box: As of `choose`.
        example: As of `choose`.
        options: As of `choose`.
    """
    because = _meant_equal(given, origins, box, example)
    if because:
        chosen = choose([*given, *because], box, example, **options)
        if chosen.conflict is None and not chosen.open:
            return replace(
                chosen,
                narrowed_by={
                    name: tuple(dict.fromkeys(because.get(cause, cause) for cause in causes))
                    for name, causes in chosen.narrowed_by.items()
                },
            )
    return choose(given, box, example, **options)


def _meant_equal(
    given: Sequence[Condition],
    origins: Mapping[Condition, GuardOrigin],
    box: Mapping[str, Range],
    example: Mapping[str, int],
) -> dict[Condition, Condition]:
    """Equation -> the condition that it stands for: a condition of an op, not one that the model's author wrote."""
    found: dict[Condition, Condition] = {}
    for condition in given:
        origin = origins.get(condition)
        if origin is None or origin.asked is None or not isinstance(condition, Compare):
            continue
        left, right = condition.left, condition.right
        if condition.relation not in (Relation.LE, Relation.GE) or not (
            isinstance(left, Sym) and isinstance(right, Sym)
        ):
            continue
        one, other = left.name, right.name
        if {one, other} <= box.keys() & example.keys() and box[one] == box[other] and example[one] == example[other]:
            found[compare(Relation.EQ, left, right)] = condition
    return found
