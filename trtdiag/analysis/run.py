"""Runs the rules over the facts of one program and turns their hits into findings."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from trtdiag.analysis.finding import Evidence, Finding, Hit, Place, Severity
from trtdiag.analysis.places import line_evidence, node_order
from trtdiag.analysis.registry import left_out, rules
from trtdiag.analysis.rule import Rule
from trtdiag.errors import InternalError
from trtdiag.frontend.program import Program
from trtdiag.lower.facts import Checked
from trtdiag.symbolic.text import in_words

_MOST_LIBRARY_LINES = 3


@dataclass(frozen=True)
class NotRun:
    """A rule that did not run, and why."""

    rule: str
    reason: str


@dataclass(frozen=True)
class RuleRun:
    """The findings in report order (severity, id, graph order), and the rules that did not run."""

    findings: tuple[Finding, ...]
    not_run: tuple[NotRun, ...]


@dataclass
class _Cause:
    rule: Rule
    severity: Severity
    key: str
    hits: list[Hit]


def run(
    facts: Mapping[type, object],
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    among: tuple[Rule, ...] | None = None,
) -> RuleRun:
    """Run every selected rule whose facts are all there.

    Args:
        facts: Each fact under its type; a rule that needs an absent (or ``None``) one does not run.
        select: Ids, beginnings of ids or names; empty selects all.
        ignore: The same, taken away from the selection; where both name a rule, the longer beginning of its id counts,
            as for ruff, and ``ignore`` where they are alike.
        among: The rules to choose from; all registered ones by default.

    Raises:
        UserError: A selector names no rule.
        InternalError: A rule raised.
    """
    every = rules() if among is None else among
    why_not = left_out(every, select, ignore)
    program = facts.get(Program)
    order = node_order(program, facts.get(Checked))
    names = program.words if isinstance(program, Program) else {}

    causes: list[_Cause] = []
    not_run: list[NotRun] = []
    for rule in every:
        reason = why_not.get(rule.id) or _facts_missing(rule, facts)
        if reason:
            not_run.append(NotRun(rule.id, reason))
        else:
            causes += _group(rule, [_named(hit, names) for hit in _hits(rule, facts)], order)
    return RuleRun(_findings(causes, order), tuple(not_run))


def _facts_missing(rule: Rule, facts: Mapping[type, object]) -> str:
    absent = [need.__name__ for need in rule.needs if facts.get(need) is None and need not in rule.does_without]
    return f"needs {' and '.join(absent)}, which could not be computed for this program" if absent else ""


def _hits(rule: Rule, facts: Mapping[type, object]) -> list[Hit]:
    try:
        return list(rule.check(*(facts.get(need) for need in rule.needs)))
    except Exception as fault:
        raise InternalError(
            f"rule {rule.id} ({rule.name}) stopped with {type(fault).__name__}: {fault}",
            because="a rule must not raise, whatever the model is",
            fix=f"report this with the program; until then run with --ignore {rule.id}",
            reference="rule-raised",
        ) from fault


def _named(hit: Hit, names: Mapping[str, str]) -> Hit:
    """The hit with sizes by the user's names, whatever stage made the words."""
    fix = hit.fix
    return replace(
        hit,
        message=in_words(hit.message, names),
        evidence=tuple(Evidence(in_words(e.fact, names), in_words(e.source, names)) for e in hit.evidence),
        fix=None if fix is None else replace(fix, title=in_words(fix.title, names), code=in_words(fix.code, names)),
    )


def _group(rule: Rule, hits: list[Hit], order: Mapping[str, int]) -> list[_Cause]:
    groups: dict[tuple[Severity, str], _Cause] = {}
    for hit in sorted(hits, key=lambda hit: _position(hit.place, order)):
        key = hit.cause or hit.message
        severity = hit.severity or rule.severity
        groups.setdefault((severity, key), _Cause(rule, severity, key, [])).hits.append(hit)
    return list(groups.values())


def _position(place: Place, order: Mapping[str, int]) -> int:
    """Where a place stands in the graph; whatever has no node stands before all nodes."""
    return -1 if place.node is None else order.get(place.node, len(order))


def _told_at(cause: _Cause, order: Mapping[str, int]) -> tuple[int, str, float, int]:
    """Where a finding stands in the report: severity, rule, what the rule puts first, then its place in the graph."""
    first = min(hit.order for hit in cause.hits)
    return cause.severity.rank, cause.rule.id, first, _position(cause.hits[0].place, order)


def _findings(causes: list[_Cause], order: Mapping[str, int]) -> tuple[Finding, ...]:
    causes = sorted(causes, key=lambda c: _told_at(c, order))
    numbers: Counter[str] = Counter()
    repeats: Counter[str] = Counter()
    ids: dict[str, str] = {}
    findings: list[Finding] = []
    for cause in causes:
        numbers[cause.rule.id] += 1
        finding_id = f"{cause.rule.id}-{numbers[cause.rule.id]}"
        ids.setdefault(f"{cause.rule.id}:{cause.key}", finding_id)
        first = cause.hits[0]
        told = first.identity or first.message
        plain = fingerprint(cause.rule.id, first.place, told, 0)
        findings.append(
            Finding(
                id=finding_id,
                rule=cause.rule.id,
                name=cause.rule.name,
                title=cause.rule.title,
                severity=cause.severity,
                message=first.message,
                evidence=_evidence(cause.hits),
                places=_places(cause.hits),
                fix=next((hit.fix for hit in cause.hits if hit.fix), None),
                root=None,
                fingerprint=fingerprint(cause.rule.id, first.place, told, repeats[plain]),
                impact=first.impact,
            )
        )
        repeats[plain] += 1
    # Roots are linked last: a finding may come before its root cause in report order.
    return tuple(replace(f, root=_root(f, c.hits, ids)) for f, c in zip(findings, causes, strict=True))


def _root(finding: Finding, hits: list[Hit], ids: Mapping[str, str]) -> str | None:
    roots = (ids.get(hit.because_of) for hit in hits if hit.because_of)
    return next((root for root in roots if root and root != finding.id), None)


def _evidence(hits: list[Hit]) -> tuple[Evidence, ...]:
    """What the hits tell, and the lines of a model library that the user's lines lead to."""
    told = dict.fromkeys(evidence for hit in hits for evidence in hit.evidence)
    inside = dict.fromkeys(hit.place.frame.inside for hit in hits if hit.place.frame is not None)
    lines = [evidence for frame in inside for evidence in line_evidence(frame)]
    return (*told, *lines[:_MOST_LIBRARY_LINES])


def _places(hits: list[Hit]) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(hit.place for hit in hits if hit.place != Place()))


# Digests that name a finding across exports of the same model.


# ``add_12`` and ``add`` are one op under two numberings; ``s77`` and ``s12`` one symbol.
_NODE_NUMBER = re.compile(r"(?<=[A-Za-z])(_[0-9]+)+\b")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def fingerprint(rule_id: str, place: Place, told: str, repeat: int) -> str:
    """The digest of a finding, 32 hex digits, without line numbers, node numbers and folders.

    Args:
        rule_id: Of the rule.
        place: The finding's first place.
        told: Its message, or what the rule tells it by.
        repeat: How many findings before this one have all else equal.
    """
    frame = place.frame
    parts = (
        rule_id,
        "" if place.module_path is None else _NUMBER.sub("*", place.module_path),
        place.op or "",
        "" if frame is None else PurePath(frame.file.replace("\\", "/")).name,
        "" if frame is None else frame.function,
        _NUMBER.sub("#", _NODE_NUMBER.sub("", told)),
        str(repeat),
    )
    return hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()[:32]
