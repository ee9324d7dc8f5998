"""Exports that stop before the model is traced to its end: which dims stand in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.dims.solver_input import asked_range
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.fix import Reason

if TYPE_CHECKING:
    from trtdiag.fixdims.export_loop import Search

MOST_TRIES = 6
_ALL_STATIC = "with every dim static"


def opened(search: Search, plan: Plan, tried: Tried) -> tuple[Plan, Tried] | None:
    """A plan with which the whole model is traced, and its try; where there is none ``search.found`` says why.

    Args:
        search: Its tries, notes and outcome.
        plan: What was tried.
        tried: How it failed while the model was traced.
    """
    found = search.found
    found.last, found.plan = tried, None
    if tried.error_type == "GuardOnDataDependentSymNode" or "data-dependent" in tried.message:
        found.from_data = found.failure = tried.message
        return None
    for weaker, why in _weaker(plan, {**search.examples, **plan.sizes}):
        again = search.attempt(weaker, why)
        if isinstance(again, str):
            continue
        if again.finished:
            _note(search, plan, tried, weaker)
            return weaker, again
        if why == _ALL_STATIC:
            found.failure = again.message
            found.notes.append("the export fails with every dim static too: dims are not the reason")
            return None
    found.failure = tried.message
    return None


def _weaker(plan: Plan, sizes: Mapping[str, int]) -> Iterator[tuple[Plan, str]]:
    """Plans that ask for less.

    Hints instead of Dims, then nothing dynamic (does it export at all?), then all but one
    of the Dims, then one of them.
    """
    hinted = {
        site: Leaf(LeafKind.DYNAMIC, range=asked_range(leaf, plan)) if leaf.kind is LeafKind.DIM else leaf
        for site, leaf in plan.leaves.items()
    }
    if hinted != dict(plan.leaves):
        yield Plan((), hinted, plan.sizes), "with hints for Dims"
    groups = plan.groups()

    def static(*keys: str) -> Plan:
        return plan.with_static({site: sizes[site] for key in keys for site in groups[key] if site in sizes})

    yield static(*groups), _ALL_STATIC
    if len(groups) > 1:
        for key in list(groups)[:MOST_TRIES]:
            yield static(key), f"with {key} static"
        for key in list(groups)[:MOST_TRIES]:
            yield static(*(other for other in groups if other != key)), f"with only {key} dynamic"


def _note(search: Search, asked: Plan, tried: Tried, plan: Plan) -> None:
    first = tried.message.strip().splitlines()
    text = f"{tried.error_type}: {first[0] if first else 'no message'}"
    for site, leaf in plan.leaves.items():
        if leaf.kind is LeafKind.STATIC and asked.leaves[site].kind is not LeafKind.STATIC:
            search.notebook.of(site).because([Reason(text, tried.stack, "tracing")])
