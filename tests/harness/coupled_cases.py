"""Random systems of the conditions that models put on coupled sizes, over ranges that can be tried whole."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from random import Random

import numpy as np

from tests.harness.brute_force import allowed_points, best_box
from trtdiag.dims.solver.choose import choose
from trtdiag.symbolic import Range, evaluate_array, holds_array, parse_condition
from trtdiag.symbolic.expr import Condition

MOST_POINTS = {2: 48 * 48, 3: 18**3, 4: 9**4}
FEWEST_ALLOWED = 4


@dataclass(frozen=True)
class Case:
    """One system.

    Attributes:
        texts: The conditions.
        box: Symbol -> asked range.
        example: A point at which all hold.
    """

    texts: tuple[str, ...]
    box: dict[str, Range]
    example: dict[str, int]

    @property
    def conditions(self) -> list[Condition]:
        """The conditions, parsed."""
        return [parse_condition(text) for text in self.texts]


def coupled_case(seed: int) -> Case:
    """A system of two to four symbols with at least one condition on several of them; the same for the same seed."""
    chooser = Random(seed)
    while True:
        case = _drawn(chooser)
        if case is not None:
            return case


def _drawn(chooser: Random) -> Case | None:
    names = tuple("hwtb"[: chooser.choice((2, 2, 2, 3, 3, 4))])
    side = {2: 48, 3: 18, 4: 9}[len(names)]
    box = {}
    for name in names:
        low = chooser.choice((1, 1, 1, 2, 2, 3, 4, 5))
        box[name] = Range(low, low + chooser.randint(max(3, side // 2), side - 1))
    texts = [_joint(chooser, names, side) for _ in range(chooser.choice((1, 1, 1, 2, 2, 3)))]
    texts += [_alone(chooser, chooser.choice(names)) for _ in range(chooser.choice((0, 0, 1, 2)))]
    texts = list(dict.fromkeys(texts))
    mask = allowed_points([parse_condition(text) for text in texts], box)
    points = np.argwhere(mask)
    if len(points) < FEWEST_ALLOWED:
        return None
    place = points[chooser.randrange(len(points))]
    example = {name: (box[name].min or 0) + int(at) for name, at in zip(names, place, strict=True)}
    return Case(tuple(texts), box, example)


def _alone(chooser: Random, name: str) -> str:
    k = chooser.choice((2, 3, 4, 5, 8))
    r, v = chooser.randrange(k), chooser.randint(2, 12)
    return chooser.choice(
        (
            f"{name} % {k} == 0",
            f"{name} % {k} != {r}",
            f"{name} % {k} == 0 or {name} % {k} >= {min(k - 1, r + 1)}",
            f"{name} != {v}",
            f"(({name} - 1)//{k}) + 1 != 1",
            f"(({name} - 1)//2)//2 != {chooser.randint(0, 3)}",
            f"{name} >= {min(4, v)}",
            f"(({name} + {k - 1})//{k})*{k} - {name} < {max(1, k - 1)}",
        )
    )


def _joint(chooser: Random, names: tuple[str, ...], side: int) -> str:
    a, b, *others = chooser.sample(names, len(names))
    c = others[0] if others else a
    k = chooser.choice((2, 3, 4, 6, 8, 12, 16))
    j = chooser.choice((2, 3, 4, 5, 8))
    area = chooser.randint(side, side * side // 2)
    total = chooser.randint(side // 2 + 1, 2 * side)
    few = chooser.randint(1, max(2, side // 3))
    every = [
        f"({a}*{b}) % {k} == 0",
        f"({a}*{b}) % {k} != {chooser.randrange(k)}",
        f"{a}*{b} <= {area}",
        f"{a}*{b} >= {max(2, area // 3)}",
        f"{a}*{b} != {area}",
        f"{a} + {b} <= {total}",
        f"{a} + {b} >= {total // 2}",
        f"({a} + {b}) % {j} == 0",
        f"({a} + {b}) % {j} != 0",
        f"{a} < {b}",
        f"{a} <= {b}",
        f"{a} != {b}",
        f"{a} - {b} <= {few}",
        f"{a} == {chooser.choice((2, 3))}*{b}",
        f"{a} == {b} + {few}",
        f"{a} == {b}",
        f"({a} + 1)//2 == {b}",
        f"({a}//{j})*({b}//{j}) <= {max(4, area // (j * j))}",
        f"({a}//{j})*({b}//{j}) != {max(1, chooser.randint(1, max(2, side * side // (j * j))))}",
        f"(({a} - 1)//{j} + 1)*(({b} - 1)//{j} + 1) >= {few}",
        f"{a}//{j} != {b}//{j}",
        f"{a}//{j} <= {b}",
        f"(({a}*{b})//{j}) % 2 == 0",
        f"(({a} - 1)//2 + ({b} - 1)//2) % {j} == 0",
        f"max({a}, {b}) <= {max(3, total // 2)}",
        f"min({a}, {b}) >= {min(few, 4)}",
        f"max({a}, {few}) <= {b}",
        f"{a} % {j} == {b} % {j}",
        f"({a} % {j}) * ({b} % {j}) == 0",
        f"{a}*{b} % {j} == 0 or {a} <= {few}",
    ]
    if len(names) > 2:
        every += [
            f"({a}*{b}*{c}) % {k} == 0",
            f"{a}*{b}*{c} <= {area * 2}",
            f"{a} + {b} + {c} <= {total + side // 2}",
            f"{a} + {b} == {c}",
            f"{a} + {b} >= {c}",
            f"{a}*{b} >= {c}",
            f"({a} + {b}*{c}) % {j} == 0",
        ]
    return chooser.choice(every)


def kept_share(case: Case) -> float:
    """The share of the best, after a look at every combination that was chosen."""
    found = choose(case.conditions, case.box, case.example)
    assert found.conflict is None
    assert found.open == ()
    assert found.proof.proven
    roots = [list(run.values.members(1 << 12)) for run in found.sets.values()]
    assert all(case.example[name] in run for name, run in found.sets.items() if name in case.example)
    grids = dict(zip(found.sets, np.meshgrid(*map(np.array, roots), indexing="ij"), strict=True))
    grids |= {name: evaluate_array(size, grids) for name, size in found.determined.items()}
    for name, range_ in case.box.items():
        assert grids[name].min() >= (range_.min or 0)
        assert grids[name].max() <= (range_.max or 0)
    assert all(np.all(holds_array(condition, grids)) for condition in case.conditions)
    # Lines of derived Dims are not among the products that are tried, and may keep more than the best of those.
    return min(1.0, prod(map(len, roots)) / best_box(case.conditions, case.box, case.example))
