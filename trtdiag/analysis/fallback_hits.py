"""Hits for ops left to PyTorch: what all rules about them say in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trtdiag.analysis.fallbacks import FallbackGroup, LeftOp, PartitionFacts
from trtdiag.analysis.finding import Evidence, Fix, Hit, Impact, Severity
from trtdiag.wording import amount, listed, sized

HEAVY_BYTES = 64 * 2**20
"""Crossing bytes at usual sizes that are worth a warning: at 300 GB/s (NVIDIA T4) a fifth of a millisecond."""


def fallback_hits(
    facts: PartitionFacts,
    group: FallbackGroup,
    message: str,
    advice: str,
    root: str = "",
    evidence: Iterable[Evidence] = (),
) -> Iterator[Hit]:
    """One hit for each op of a group; together they are one finding.

    Args:
        facts: All of the partition.
        group: The ops.
        message: Why they stay, one sentence.
        advice: What to do where the limit names nothing.
        root: The finding that is the cause, as in ``Hit.because_of``.
        evidence: What else is known of it.
    """
    severity = severity_of(facts, group)
    ending = " (require_full leaves none to PyTorch)" if facts.require_full else f"; {_effect(facts, group)}"
    for left in group.named:
        yield Hit(
            message + ending,
            (*_evidence(group, left), *evidence),
            left.place,
            Fix(left.limit.fix or advice),
            cause=group.key,
            because_of=root,
            severity=severity,
            impact=impact_of(group),
            identity=group.identity,
        )


def impact_of(group: FallbackGroup) -> Impact:
    """What the ops of a group cost by staying in PyTorch."""
    return Impact(group.engines_saved, len(group.left) + group.drawn_along, group.crossing.opt)


def severity_of(facts: PartitionFacts, group: FallbackGroup) -> Severity:
    """ERROR where nothing may be left; WARNING where it costs engines, keeps ops out or moves much; else INFO."""
    if facts.require_full:
        return Severity.ERROR
    heavy = (group.crossing.opt or 0) >= HEAVY_BYTES
    return Severity.WARNING if group.engines_saved or group.drawn_along or heavy else Severity.INFO


def calls(group: FallbackGroup) -> str:
    """``aten.sort.default``, ``aten.sort.default (32 calls)``, ``aten.mul.Tensor and 3 other ops (9 calls)``."""
    others = f" and {amount(group.other_ops, 'other op')}" if group.other_ops else ""
    count = f" ({amount(len(group.named), 'call')})" if len(group.named) > 1 else ""
    return f"{group.op}{others}{count}"


def stays(group: FallbackGroup) -> str:
    """``stays in PyTorch`` or ``stay in PyTorch``."""
    return "stay in PyTorch" if len(group.named) > 1 else "stays in PyTorch"


def reasons(group: FallbackGroup) -> str:
    """The first reason, and how many others of its kind there are."""
    distinct = list(dict.fromkeys(left.limit.why for left in group.named))
    return distinct[0] + (f" (and {amount(len(distinct) - 1, 'more reason')} like it)" if len(distinct) > 1 else "")


def _effect(facts: PartitionFacts, group: FallbackGroup) -> str:
    cost = group.cost
    if cost is None:
        return "the rest is split around it"
    if not facts.partitioned.segments:
        return "nothing of the program goes into an engine"
    if group.engines_saved:
        return f"that splits the program: {amount(cost.segments_before, 'engine')} instead of {cost.segments_after}"
    if group.drawn_along:
        return f"{amount(group.drawn_along, 'other op')} around it cannot be in an engine for that"
    if group in facts.joint and facts.together is not None:
        split = f"{amount(facts.together.segments_before, 'engine')} instead of {facts.together.segments_after}"
        return f"with {amount(len(facts.joint) - 1, 'other reason')} it splits the program: {split}"
    return "it splits no engine"


def _evidence(group: FallbackGroup, left: LeftOp) -> tuple[Evidence, ...]:
    frame = left.place.frame
    line = f"{frame}: {frame.code}" if frame is not None and frame.code else str(frame or left.node)
    why, op = left.limit.why, left.place.op or left.node
    found = [Evidence(f"{why if why.startswith(op) else f'{op}: {why}'} [{left.limit.code}]", line)]
    modules = list(dict.fromkeys(each.place.module_path for each in group.left if each.place.module_path))
    if modules:
        found.append(Evidence(f"{amount(len(group.left), 'call')} in {listed(modules, 4)}", "the lowered graph"))
    cost = group.cost
    if cost is not None:
        inside = f"{amount(cost.segments_after, 'engine')} with {amount(cost.ops_after, 'op')}"
        now = f"now {amount(cost.segments_before, 'engine')} with {amount(cost.ops_before, 'op')}"
        found.append(Evidence(f"with it in engines: {inside}; {now}", "partitioned again without this reason"))
    if group.crossing.opt:
        most = "no maximum" if group.crossing.max is None else f"{sized(group.crossing.max)} at the maximum"
        usual = f"{sized(group.crossing.opt)} cross between engines and it at usual sizes"
        found.append(Evidence(f"{usual}, {most}", "tensors at the boundary"))
    return tuple(found)
