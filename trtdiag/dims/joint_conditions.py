"""Joint conditions, judged only where the conditions on single symbols hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from trtdiag.symbolic import (
    ValueSet,
    children,
    evaluate_array,
    free_symbols,
    holds_array,
    is_condition,
    is_integer,
    is_total,
)
from trtdiag.symbolic.checked_arrays import IntArray
from trtdiag.symbolic.expr import Condition, Expr, Sym
from trtdiag.symbolic.grid import Grid

MOST_POINTS = 1 << 22
"""Points tried at most: four million take about a second for a guard of ten operations."""


@dataclass(frozen=True)
class Within:
    """The outcome of trying every point: how many, and the breaking and a holding one, by symbol."""

    points: int
    counterexample: Mapping[str, int] | None
    witness: Mapping[str, int] | None


def try_all(condition: Condition, sets: Mapping[str, ValueSet]) -> Within | None:
    """Try ``condition`` at every combination of the values in ``sets``.

    ``None`` when there are too many, or it has powers that are not computed for many sizes.

    The counterexample is the first in lexicographic order of the symbols' names, the witness the holding point
    nearest to it in that order.
    """
    names = sorted(sets)
    axes: list[IntArray] = []
    total = 1
    for name in names:
        count = sets[name].count
        if count is None or count > MOST_POINTS:
            return None
        axes.append(np.fromiter(sets[name].members(MOST_POINTS), dtype=np.int64, count=count))
        total *= count
    try:
        pairs = zip(names, axes, strict=True)
        axes = [values[_first_of_each_kind(condition, name, values)] for name, values in pairs]
        if prod(map(len, axes)) > MOST_POINTS:
            return None
        flat = Grid(tuple(names), tuple(axes)).columns()
        holds = np.asarray(holds_array(condition, flat)).reshape(-1)
    except OverflowError:
        return None
    broken = np.flatnonzero(~holds)
    if len(broken) == 0:
        return Within(total, None, None)
    at = int(broken[0])
    good = np.flatnonzero(holds)
    near = int(good[np.argmin(np.abs(good - at))]) if len(good) else None
    return Within(total, point_at(flat, at), None if near is None else point_at(flat, near))


def _first_of_each_kind(condition: Condition, name: str, values: IntArray) -> npt.NDArray[np.intp]:
    """Indices of the values that the condition can tell apart, the first of each kind, in order.

    ``(h - 1)//4 * w >= 2`` sees one h in four only: where every part that mentions a symbol alone has the same value,
    so has the condition.
    """
    parts = _alone(condition, name)
    if any(isinstance(part, Sym) for part in parts):
        return np.arange(len(values))
    columns = [np.asarray(evaluate_array(part, {name: values})).reshape(-1) for part in parts]
    if any(column.dtype == object or len(column) != len(values) for column in columns):
        return np.arange(len(values))
    _, first = np.unique(np.stack(columns, axis=1), axis=0, return_index=True)
    return np.sort(first)


def _alone(node: Expr | Condition, name: str) -> set[Expr]:
    """The largest parts of ``node`` in which ``name`` is the only symbol."""
    symbols = free_symbols(node)
    if name not in symbols:
        return set()
    if symbols == {name} and not is_condition(node) and is_total(node) and is_integer(node):
        return {node}  # type: ignore[arg-type]  # no condition, as just asked
    return set().union(*(_alone(child, name) for child in children(node)))


def point_at(flat: Mapping[str, IntArray], at: int) -> dict[str, int]:
    """The point at a place of columns of values, by name."""
    return {name: int(values[at]) for name, values in flat.items()}
