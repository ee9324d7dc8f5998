"""What splits the engines, and what would be without it, as the page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from trtdiag.analysis.fallbacks import FallbackGroup, LeftOp, PartitionFacts
from trtdiag.analysis.finding import Finding, Place
from trtdiag.options import PartitionOptions
from trtdiag.partition.facts import Bytes
from trtdiag.partition.what_if import WhatIf
from trtdiag.report.engine_words import op_counts
from trtdiag.report.page import Part, cells, fold_label, table
from trtdiag.report.source_context import short_place
from trtdiag.wording import LONG_CHARS, amount, bytes_text, listed, one_line, starred

_MOST_ROWS = 40
_MOST_OUTCOMES = 3
_SHOWN_MODULES = 2
_KEPT, _KEPT_CODE = "kept by you", "kept-in-torch"
_DEFAULT = PartitionOptions().min_segment_ops

_Key: TypeAlias = tuple[str, str | None, str | None]  # rule, node, op


def splits_view(facts: PartitionFacts, findings: Sequence[Finding]) -> Part:
    """The section of the page: causes that cost engines in full, the others folded."""
    ids = _finding_ids(findings)
    ranked = _ranked(facts)
    costly = [group for group in ranked if group.engines_saved or group.drawn_along]
    rest = [group for group in ranked if group not in costly]
    folded = [*(_row(group, ids) for group in rest), *_small(facts, ids)]
    more = amount(len(folded), "other reason" if costly else "reason") if folded else ""
    return {
        "summary": _summary(facts),
        "outcomes": _outcomes(facts),
        "rows": [_row(group, ids) for group in costly],
        "folded": folded[:_MOST_ROWS],
        "more": fold_label(more, len(folded), _MOST_ROWS),
        "minimum": _minimum(facts),
    }


def _small(facts: PartitionFacts, ids: Mapping[_Key, str]) -> Iterator[Part]:
    """One row for the ops whose segment is too small."""
    if facts.small:
        least = amount(facts.plan.options.partition.min_segment_ops, "op")
        yield {
            "op": f"segments of fewer than {least}",
            "reason": "crossing to an engine and back costs more than it wins",
            "code": "segment-too-small",
            **_places(facts.small, facts.without_minimum, ""),
            "crossing": "",
            "finding": _finding(ids, "PRT602", facts.small),
        }


def _places(left: Sequence[LeftOp], answer: WhatIf | None, unknown: str) -> Part:
    """Calls and where they are, and engines and ops without them, ``unknown`` where that was not worked out."""
    return {
        "calls": f"{len(left):,}",
        "where": _where([each.place for each in left]),
        "engines": unknown if answer is None else _arrow(answer.segments_before, answer.segments_after),
        "ops": "" if answer is None else _arrow(answer.ops_before, answer.ops_after),
    }


def _ranked(facts: PartitionFacts) -> list[FallbackGroup]:
    def cost(group: FallbackGroup) -> tuple[int, int, int, str]:
        return -group.engines_saved, -group.drawn_along, -(group.crossing.opt or 0), group.key

    return sorted((*facts.groups, *facts.kept), key=cost)


def _summary(facts: PartitionFacts) -> str:
    inside, every = op_counts(facts)
    engines = len(facts.partitioned.segments)
    stretches = sum(step.segment is None for step in facts.partitioned.steps)
    if not every:
        return "The program computes nothing."
    if not engines:
        stay = f"all {every:,} ops stay" if every > 1 else "its one op stays"
        return f"Nothing goes into an engine: {stay} in PyTorch."
    text = f"{inside:,} of {amount(every, 'op')} in {amount(engines, 'engine')}"
    if inside == every and engines == 1:
        return f"Nothing splits the program: {text}."
    return f"{text}, the rest in {amount(stretches, 'stretch', 'stretches')} of PyTorch."


def _outcomes(facts: PartitionFacts) -> tuple[str, ...]:
    told = [
        f"With {one_line(group.op)}{_others(group)} in engines, {_becomes(group.cost)}."
        for group in facts.ranked[:_MOST_OUTCOMES]
        if group.cost is not None
    ]
    together = facts.together
    if together is not None and len(facts.groups) + len(facts.kept) > 1:
        now, then = (together.segments_before, together.ops_before), (together.segments_after, together.ops_after)
        told += [f"With everything that stays in PyTorch in engines, {_becomes(together)}."] if now != then else []
    return tuple(told)


def _becomes(answer: WhatIf) -> str:
    before, after = answer.segments_before, answer.segments_after
    held = f"{amount(answer.ops_after, 'op')} instead of {answer.ops_before:,}"
    if before == after:
        return f"the {amount(before, 'engine')} would hold {held}"
    return f"{amount(before, 'engine')} would become {after:,}, with {held}"


def _others(group: FallbackGroup) -> str:
    return f" and {amount(group.other_ops, 'other op')}" if group.other_ops else ""


def _row(group: FallbackGroup, ids: Mapping[_Key, str]) -> Part:
    return {
        "op": one_line(group.op) + _others(group),
        "reason": _KEPT if group.code == _KEPT_CODE else one_line(group.left[0].limit.why, LONG_CHARS),
        "code": one_line(group.code),
        **_places(group.left, group.cost, "not worked out"),
        "crossing": crossing_text(group.crossing),
        "finding": _finding(ids, group.why.value, group.left),
    }


def _where(places: Sequence[Place]) -> str:
    """``layers.*.attn (32 times) at model.py:41``; the finding has the whole path."""
    modules = starred([place.module_path for place in places if place.module_path])
    lines = list(dict.fromkeys(short_place(place.frame) for place in places if place.frame is not None))
    told = listed(modules, _SHOWN_MODULES)
    at = listed(lines, 1)
    return one_line(f"{told} at {at}" if told and at else told or at, LONG_CHARS)


def _finding(ids: Mapping[_Key, str], rule: str, left: Sequence[LeftOp]) -> str:
    """The id of the finding of a rule at one of these ops; empty where there is none."""
    return next((ids[key] for each in left if (key := (rule, each.place.node, each.place.op)) in ids), "")


def _arrow(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} → {after:,}"


def crossing_text(count: Bytes) -> str:
    """``1.6 KiB, at most 42.0 KiB``: at usual sizes and at the maximum."""
    usual = bytes_text(count.opt, "unknown")
    if count.opt == count.max:
        return usual
    return f"{usual}, {'no maximum' if count.max is None else f'at most {bytes_text(count.max)}'}"


def _finding_ids(findings: Sequence[Finding]) -> Mapping[_Key, str]:
    found: dict[_Key, str] = {}
    for finding in findings:
        for place in finding.places:
            found.setdefault((finding.rule, place.node, place.op), finding.id)
    return found


def _minimum(facts: PartitionFacts) -> Part | None:
    """The partition with other least numbers of ops; ``None`` where the number makes no difference."""
    asked = facts.plan.options.partition.min_segment_ops
    seen = {(answer.segments_after, answer.ops_after) for _, answer in facts.minimums}
    if len(seen) < 2:
        return None
    rows = []
    for least, answer in facts.minimums:
        notes = [word for word, holds in (("as now", least == asked), ("default", least == _DEFAULT)) if holds]
        left = max(0, op_counts(facts)[1] - answer.ops_after)
        rows.append((f"{least}", *cells(answer.segments_after, answer.ops_after, left), ", ".join(notes)))
    heads = ("--min-segment-ops", "engines", "ops in engines", "ops in PyTorch", "")
    return table(heads, rows, kinds=("number",) * 4)
