"""Exports that stop before the model is traced to its end: which dims stand in the way."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.dims.solver_input import asked_range
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.fix import TRACING, Reason
from trtdiag.frontend.data_dependent.replacements import open_number

if TYPE_CHECKING:
    from trtdiag.fixdims.export_loop import Search

MOST_TRIES = 8
"""Dims of their own that are tried, each beside those with which the model was traced.  Own choice: an export each."""

FAILS_ITSELF = "the model fails at these inputs without an export, too"
"""How the note begins that says so."""

INSTEAD = {
    "argument 'size' failed to unpack the object": (
        "a recurrent layer over a packed sequence is not traced: give it the padded tensor, and where it has one "
        "direction take its outputs at the last step of each sequence"
    ),
    "aten.equal.default": (
        "write (a == b).all() in place of torch.equal(a, b); torch.cov and torch.corrcoef ask the same of their "
        "weights: compute them of x - x.mean(1, keepdim=True)"
    ),
    "aten.allclose.default": "write torch.isclose(a, b).all() in place of torch.allclose(a, b)",
    ".numpy() is not supported": (
        "a tensor has no values while it is traced: write torch's functions in place of NumPy's"
    ),
    "FakeTensor.__format__": (
        "a tensor has no values while it is traced: make text of one only if not torch.compiler.is_exporting()"
    ),
    "Cannot access data pointer": (
        "a tensor has no memory while it is traced: write x.clone() in place of copy.deepcopy(x), and do without "
        "x.data_ptr()"
    ),
    "a fake tensor in the exported program constant's list": (
        "where the model takes x.data, write x.detach(), which is traced"
    ),
}
"""What to write instead, by torch's words (2.13)."""


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
        frame = tried.stack.best
        traced_as = "" if frame is None else open_number(frame, "float")
        if traced_as:
            found.notes.append(f"write {traced_as.replace('  # in', ' in')} at {frame}, which leaves it open")
        return None
    hinted = _hinted(plan)
    if hinted != plan:
        again = search.attempt(hinted, "with hints for Dims")
        if not isinstance(again, str) and again.finished:
            return hinted, again
    groups, sizes = plan.groups(), {**search.examples, **plan.sizes}

    def only(dynamic: Collection[str]) -> Plan:
        fixed = [site for key, sites in groups.items() if key not in dynamic for site in sites if site in sizes]
        return plan.with_static({site: sizes[site] for site in fixed})

    best = only(())
    traced = search.attempt(best, "with every dim static")
    if isinstance(traced, str):
        found.failure = tried.message
        return None
    if not traced.finished:
        found.last, found.failure = traced, traced.message
        found.notes.append("the export fails with every dim static too: dims are not the reason")
        if traced.without_export == "":
            found.notes.append("without an export the model runs at these inputs")
        elif traced.without_export is not None:
            found.notes.append(f"{FAILS_ITSELF}: {traced.without_export}")
        found.notes += [instead for told, instead in INSTEAD.items() if told in traced.message]
        return None
    dynamic: list[str] = []
    for key in list(groups)[:MOST_TRIES] if len(groups) > 1 else ():
        again = search.attempt(only([*dynamic, key]), f"with {' and '.join([*dynamic, key])} dynamic")
        if not isinstance(again, str) and again.finished:
            dynamic, best, traced = [*dynamic, key], only([*dynamic, key]), again
    _note(search, plan, tried, best)
    return best, traced


def _hinted(plan: Plan) -> Plan:
    leaves = {
        site: Leaf(LeafKind.DYNAMIC, range=asked_range(leaf, plan)) if leaf.kind is LeafKind.DIM else leaf
        for site, leaf in plan.leaves.items()
    }
    return plan if leaves == dict(plan.leaves) else Plan((), leaves, plan.sizes)


def _note(search: Search, asked: Plan, tried: Tried, plan: Plan) -> None:
    first = tried.message.strip().splitlines()
    text = f"{tried.error_type}: {first[0] if first else 'no message'}"
    for site, leaf in plan.leaves.items():
        if leaf.kind is LeafKind.STATIC and asked.leaves[site].kind is not LeafKind.STATIC:
            search.notebook.of(site).because([Reason(text, tried.stack, TRACING)])
