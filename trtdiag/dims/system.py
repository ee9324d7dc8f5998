"""Everything about the dims of a program, in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trtdiag.capture.program import Program
from trtdiag.capture.sites import Sites
from trtdiag.dims.collect import gather
from trtdiag.dims.facts import Conflict, Constraint, DimSystem, Verdict
from trtdiag.dims.narrowed import narrowed
from trtdiag.dims.pins import pinned
from trtdiag.dims.rows import dim_rows
from trtdiag.dims.solved import Solved
from trtdiag.dims.suggest import suggestions
from trtdiag.dims.ties import tied
from trtdiag.dims.verdicts import judge
from trtdiag.lower.replay import replay_guards
from trtdiag.symbolic import conflict, evaluate, free_symbols
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.ranges import Range


def dim_system(program: Program) -> DimSystem:
    """Read, judge and attribute every guard of ``program``, and say what to declare instead."""
    sites = Sites(program)
    gathered = gather(program)
    box = program.ranges
    solved = Solved(box)
    constraints = judge(gathered.conditions, solved, program.hints, sites)
    constraints = _attributed(constraints, program)
    suggested = suggestions(constraints, solved, program.hints, sites)
    pins = pinned(program, sites)
    return DimSystem(
        rows=dim_rows(sites, solved, constraints, suggested, pins),
        constraints=tuple(constraints),
        unparsed=tuple(gathered.unparsed),
        suggestions=suggested,
        pinned=pins,
        tied=tied(constraints, sites, program.joins),
        conflicts=_conflicts(constraints, box, program.hints, sites),
        narrowed=narrowed(program, constraints, sites),
    )


def _attributed(constraints: Sequence[Constraint], program: Program) -> list[Constraint]:
    """Find the op behind every broken guard whose line is lost; what no op asks for is a Python condition."""
    lost = {c.condition: c.refused for c in constraints if c.verdict is Verdict.BREAKS and _lost(c) and c.refused}
    if not lost or program.exported is None:
        return list(constraints)
    replay = replay_guards(program, lost)
    ops = {node.name: str(node.target) for node in program.exported.graph.nodes}
    result = []
    for constraint in constraints:
        if constraint.condition in lost:
            node = replay.nodes.get(constraint.condition)
            origin = constraint.origin
            if node is not None:
                stack = program.origins[node].stack if node in program.origins else origin.stack
                origin = replace(origin, stack=stack, branch=False, op=ops.get(node), node=node)
            elif replay.complete and origin.branch is None:
                origin = replace(origin, branch=True)
            constraint = replace(constraint, origin=origin)
        result.append(constraint)
    return result


def _lost(constraint: Constraint) -> bool:
    return constraint.origin.stack.best is None and constraint.origin.asked is None and not constraint.follows


def _conflicts(
    constraints: Sequence[Constraint], box: Mapping[str, Range], hints: Mapping[str, int], sites: Sites
) -> tuple[Conflict, ...]:
    """Smallest sets of guards that nothing in the declared ranges satisfies.

    The example of the export satisfies every guard: where it lies inside the ranges there is no conflict, and no
    solver needs to be asked.
    """
    broken = [c for c in constraints if c.verdict is Verdict.BREAKS]
    groups = _connected(broken)
    found = []
    for group in groups:
        symbols = set().union(*(set(c.symbols) for c in group))
        if _satisfied({c.condition for c in group}, symbols, box, hints):
            continue
        answer = conflict(tuple(c.condition for c in group), {s: box[s] for s in symbols})
        if answer.members is not None:
            members = tuple(group[index] for index in answer.members)
            named = sorted({s for c in members for s in c.symbols})
            ranges = tuple(f"{sites.name_of(s)} in {box[s]}" for s in named)
            found.append(Conflict(members, ranges, answer.proof))
    return tuple(found)


def _connected(constraints: Sequence[Constraint]) -> list[list[Constraint]]:
    """Constraints that share symbols, directly or through others."""
    groups: list[tuple[set[str], list[Constraint]]] = []
    for constraint in constraints:
        symbols, members = set(constraint.symbols), [constraint]
        rest = []
        for known, others in groups:
            if known & symbols:
                symbols |= known
                members = [*others, *members]
            else:
                rest.append((known, others))
        groups = [*rest, (symbols, members)]
    return [members for _, members in groups]


def _satisfied(
    conditions: set[Condition], symbols: set[str], box: Mapping[str, Range], hints: Mapping[str, int]
) -> bool:
    if any(s not in hints or s not in box or hints[s] not in box[s] for s in symbols):
        return False
    return all(evaluate(c, {s: hints[s] for s in free_symbols(c)}) for c in conditions)
