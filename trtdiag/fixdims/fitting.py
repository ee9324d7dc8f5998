"""Runs for the parameters of one layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trtdiag.fixdims.clock import Clock
from trtdiag.fixdims.joint import Parameters, joint_runs, steps_of
from trtdiag.fixdims.layout import Claim, Layout
from trtdiag.fixdims.runs import best_runs
from trtdiag.fixdims.sizes import Volume, volume, words
from trtdiag.symbolic import Progression, ValueSet, allowed, free_symbols, is_integer
from trtdiag.symbolic.build import linear_terms
from trtdiag.symbolic.expr import Expr, Sym

SET_LIMIT_S = 2.0


@dataclass(frozen=True)
class Fitted:
    """A layout with runs for its parameters.

    Attributes:
        layout: The layout.
        runs: Parameter -> its values.
        values: Parameter -> what the conditions on it alone allow.
        open: Claims that could not be decided.
    """

    layout: Layout
    runs: Mapping[str, Progression]
    values: Mapping[str, ValueSet]
    open: tuple[Claim, ...]

    @property
    def rank(self) -> tuple[int, Volume, int, tuple[int, int, int]]:
        """What is left open, what is kept, and how hard it is to say: the least is the best."""
        hard = sum(affine(size) is None for size in self.layout.sizes.values())
        return len(self.open), volume(self.runs), hard, words(self.runs)


def fitted(layout: Layout, kept: frozenset[str], clock: Clock) -> Fitted | None:
    """The best runs for ``layout``; ``None`` where it allows nothing, or nothing is known that it allows.

    Args:
        layout: Its claims on single parameters are solved exactly, the others over the runs.
        kept: Parameters whose value at the point must stay.
        clock: What is not decided when it runs out is left open.
    """
    values: dict[str, ValueSet] = {}
    joint = [claim for claim in layout.claims if len(claim.names) > 1]
    unsure: list[Claim] = []
    for name, range_ in layout.ranges.items():
        here = ValueSet.full(range_)
        for claim in layout.claims:
            if claim.names == {name}:
                solution = allowed((claim.condition,), name, range_, SET_LIMIT_S)
                if solution.proof.proven:
                    here = here.intersect(solution.values)
                else:
                    unsure.append(claim)
        if here.is_empty:
            return None
        values[name] = here
    runs: dict[str, Progression] = {}
    for group, claims in groups(layout.ranges, [*joint, *unsure]):
        if not claims:
            anchor = layout.point.get(group[0]) if group[0] in kept else None
            steps = steps_of([claim for claim in layout.claims if claim.names == set(group)])
            runs[group[0]] = best_runs(values[group[0]], anchor, steps)[0]
            continue
        point = {name: layout.point[name] for name in group if name in layout.point}
        found = joint_runs(Parameters({name: values[name] for name in group}, point, kept), claims, clock)
        if found is None:
            return None
        runs.update(found)
    return Fitted(layout, runs, values, ())


def groups(names: Iterable[str], claims: Sequence[Claim]) -> list[tuple[tuple[str, ...], list[Claim]]]:
    """Names that claims connect, directly or through others, and the claims on each group."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for claim in claims:
        first, *others = sorted(claim.names)
        for other in others:
            leader[find(other)] = find(first)
    members: dict[str, list[str]] = {}
    for name in leader:
        members.setdefault(find(name), []).append(name)
    return [
        (tuple(inside), [claim for claim in claims if find(min(claim.names)) == top]) for top, inside in members.items()
    ]


def affine(size: Expr) -> tuple[int, str, int] | None:
    """``(a, name, b)`` where ``size`` is ``a*name + b`` with ``a >= 1``, or ``(0, "", b)`` for a number."""
    terms, constant = linear_terms(size)
    if not isinstance(constant, int) or not is_integer(size):
        return None
    if not terms:
        return 0, "", constant
    (factor, part) = terms[0]
    if len(terms) != 1 or not isinstance(part, Sym) or factor < 1 or free_symbols(size) != {part.name}:
        return None
    return int(factor), part.name, constant
