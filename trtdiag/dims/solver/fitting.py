"""Runs for the parameters of one layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trtdiag.dims.solver.combinations import steps_of
from trtdiag.dims.solver.joint import joint_runs
from trtdiag.dims.solver.layout import Claim, Layout
from trtdiag.dims.solver.runs import best_runs, keeps_all
from trtdiag.dims.solver.solving import Sets
from trtdiag.dims.solver.variants import affine
from trtdiag.dims.solver.volume import Volume, volume, words
from trtdiag.symbolic import Progression, ValueSet, free_symbols
from trtdiag.symbolic.shared_symbols import tied_groups


@dataclass(frozen=True)
class Fitted:
    """A layout with runs for its parameters.

    Attributes:
        layout: The layout.
        runs: Parameter -> its values.
        values: Parameter -> what the conditions on it alone allow.
        violated: Joint claims that took values away.
        undecided: How many claims were neither shown to hold over the runs nor seen to break.
    """

    layout: Layout
    runs: Mapping[str, Progression]
    values: Mapping[str, ValueSet]
    violated: tuple[Claim, ...] = ()
    undecided: int = 0

    @property
    def rank(self) -> tuple[int, Volume, int, tuple[int, int, int]]:
        """What is not decided, what is kept, and how hard it is to say: the least is the best."""
        hard = sum(affine(size) is None for size in self.layout.sizes.values())
        return self.undecided, self.volume, hard, words(self.runs)

    @property
    def volume(self) -> Volume:
        """How many combinations are kept; every symbol with one value counts as pinned."""
        return _volume(self.layout, self.runs)

    @property
    def whole(self) -> bool:
        """Whether the parameters keep all that their claims allow: no other layout can keep more."""
        return (
            not self.violated
            and not self.undecided
            and all(keeps_all(self.runs[name], values) for name, values in self.values.items())
        )


def fitted(layout: Layout, sets: Sets, best: Fitted | None = None) -> Fitted | None:
    """The best runs for ``layout``; ``None`` where it allows nothing known, or no more than ``best`` keeps.

    Args:
        layout: Its claims on single parameters are solved exactly, the others over the runs.
        sets: Solves what is asked of one parameter.
        best: What is to be bettered.
    """
    values: dict[str, ValueSet] = {}
    open_claims = [claim for claim in layout.claims if len(claim.names) > 1]
    widest: dict[str, Progression] = {}
    for name, range_ in layout.ranges.items():
        own = [claim for claim in layout.claims if claim.names == {name}]
        solution, unsure = sets.all((claim.condition for claim in own), name, range_)
        open_claims += [claim for claim in own if claim.condition in unsure]
        values[name] = solution.values
        anchor = layout.point.get(name) if name in layout.kept else None
        found = best_runs(solution.values, anchor, steps_of([claim.condition for claim in own], range_))
        if not found or (anchor is not None and anchor not in solution.values):
            return None
        widest[name] = found[0]
    if best is not None and not best.undecided and _volume(layout, widest) > best.volume:
        return None
    runs = dict(widest)
    violated: list[Claim] = []
    undecided = 0
    for group, claims in groups(layout.ranges, open_claims):
        if claims:
            point = {name: layout.point[name] for name in group if name in layout.point}
            found_jointly = joint_runs(
                {name: values[name] for name in group},
                point,
                layout.kept,
                {name: widest[name] for name in group},
                [claim.condition for claim in claims],
                sets,
            )
            if found_jointly is None:
                return None
            runs.update(found_jointly.runs)
            violated += [] if found_jointly.free else claims
            undecided += found_jointly.undecided
    return Fitted(layout, runs, values, tuple(violated), undecided)


def _volume(layout: Layout, runs: Mapping[str, Progression]) -> Volume:
    pinned = sum(all(runs[name].single is not None for name in free_symbols(size)) for size in layout.sizes.values())
    return volume(runs, pinned - sum(run.single is not None for run in runs.values()))


def groups(names: Iterable[str], claims: Sequence[Claim]) -> list[tuple[tuple[str, ...], list[Claim]]]:
    """Names that claims connect, directly or through others, and the claims on each group."""
    items: list[str | Claim] = [*names, *claims]
    tied = tied_groups(items, lambda item: {item} if isinstance(item, str) else item.names)
    return [
        (tuple(each for each in group if isinstance(each, str)), [each for each in group if isinstance(each, Claim)])
        for group in tied
    ]
