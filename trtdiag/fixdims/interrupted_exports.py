"""Exports that stop before the model is traced to its end: which dims stand in the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.dims.solver_input import asked_range
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.fix import Reason

if TYPE_CHECKING:
    from trtdiag.fixdims.loop import Search

MOST_TRIES = 6


class Unfinished:
    """A try that failed while the model was traced.

    Args:
        search: The search that it belongs to: its tries, notes and outcome.
        plan: What was tried.
        tried: How it failed.
    """

    def __init__(self, search: Search, plan: Plan, tried: Tried) -> None:
        self.search = search
        self.plan = plan
        self.tried = tried

    def opened(self) -> tuple[Plan, Tried] | None:
        """A plan with which the whole model is traced, and its try; ``None`` where there is none.

        Where there is none, ``search.found`` says why.
        """
        found = self.search.found
        found.last, found.plan = self.tried, None
        if _from_data(self.tried):
            found.from_data = found.failure = self.tried.message
            return None
        for plan, why in self._weaker():
            tried = self.search.attempt(plan, why)
            if isinstance(tried, str):
                continue
            if tried.finished:
                self._note(plan)
                return plan, tried
            if why == _ALL_STATIC:
                found.failure = tried.message
                found.notes.append("the export fails with every dim static too: dims are not the reason")
                return None
        found.failure = self.tried.message
        return None

    def _weaker(self) -> Iterator[tuple[Plan, str]]:
        """Plans that ask for less.

        Hints instead of Dims, then nothing dynamic (does it export at all?), then all but one
        of the Dims, then one of them.
        """
        hinted = {
            site: Leaf(LeafKind.DYNAMIC, range=asked_range(leaf, self.plan)) if leaf.kind is LeafKind.DIM else leaf
            for site, leaf in self.plan.leaves.items()
        }
        if hinted != dict(self.plan.leaves):
            yield Plan((), hinted, self.plan.sizes), "with hints for Dims"
        groups = self.plan.groups()
        yield self._static(groups.values()), _ALL_STATIC
        if len(groups) > 1:
            for key in list(groups)[:MOST_TRIES]:
                yield self._static([groups[key]]), f"with {key} static"
            for key in list(groups)[:MOST_TRIES]:
                others = [sites for other, sites in groups.items() if other != key]
                yield self._static(others), f"with only {key} dynamic"

    def _static(self, groups: Iterable[list[str]]) -> Plan:
        sizes = {**self.search.examples, **self.plan.sizes}
        return self.plan.with_static({site: sizes[site] for sites in groups for site in sites if site in sizes})

    def _note(self, plan: Plan) -> None:
        first = self.tried.message.strip().splitlines()
        text = f"{self.tried.error_type}: {first[0] if first else 'no message'}"
        for site, leaf in plan.leaves.items():
            if leaf.kind is LeafKind.STATIC and self.plan.leaves[site].kind is not LeafKind.STATIC:
                self.search.notebook.of(site).because([Reason(text, self.tried.stack, "tracing")])


_ALL_STATIC = "with every dim static"


def _from_data(tried: Tried) -> bool:
    return tried.error_type == "GuardOnDataDependentSymNode" or "data-dependent" in tried.message
