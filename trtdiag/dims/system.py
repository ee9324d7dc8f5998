"""Everything about the dims of a program, in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trtdiag.dims.collect_conditions import Gathered, gather
from trtdiag.dims.corrections import corrections
from trtdiag.dims.dims_table import dim_rows
from trtdiag.dims.dynamic_shapes.code_text import with_missing_maxima
from trtdiag.dims.facts import Conflict, Constraint, Declaration, DimSystem, Verdict
from trtdiag.dims.solved_sets import Solved
from trtdiag.dims.solver_input import ONLY_SIZES, on_integers, tied_symbols
from trtdiag.dims.specialized_dims import narrowed, pinned, tied, tied_by_guard
from trtdiag.dims.suggestion import Binding, asked_of, binding_of
from trtdiag.dims.suggestion_run import run_binding
from trtdiag.dims.verdicts import Judge
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import Program
from trtdiag.lower.guard_replay import replay_guards
from trtdiag.symbolic import conflict, evaluate, free_symbols
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.shared_symbols import tied_groups


def dim_system(program: Program) -> DimSystem:
    """Read, judge and attribute every guard of ``program``, and say what to declare instead."""
    sites = Sites(program)
    gathered = gather(program)
    box = program.ranges
    solved = Solved(box)
    asked = asked_of(program)
    tied_dims = {**tied_by_guard(gathered.conditions, sites, box), **tied_symbols(program.inputs, asked.plan)}
    judged = Judge(solved, program.hints, sites).judged(gathered.conditions, tied_dims)
    constraints = _attributed(judged, program)
    pins = pinned(program, sites)
    # The symbols of which some condition may refuse a declared size.
    doubtful = {s for c in constraints if c.verdict is not Verdict.HOLDS and not c.only_at_zero for s in c.symbols}
    binding = binding_of(program, asked, gathered.conditions, doubtful)
    declaration = None if binding is None or not binding.code else _declaration(program, binding, gathered)
    suggested = (
        () if binding is None or declaration is None else corrections(binding, program.inputs, declaration.proof)
    )
    return DimSystem(
        rows=dim_rows(sites, solved, constraints, gathered.unparsed, suggested, pins),
        constraints=tuple(constraints),
        unparsed=tuple(gathered.unparsed),
        suggestions=suggested,
        pinned=pins,
        tied=tied(constraints, sites, tied_dims, program.joins),
        narrowed=narrowed(program, constraints, sites),
        conflicts=_conflicts(constraints, box, program.hints, sites) or _contradiction(binding, constraints, sites),
        declaration=declaration,
    )


def _declaration(program: Program, binding: Binding, gathered: Gathered) -> Declaration:
    points, refused, unrun = run_binding(program, binding)
    proof = _proof(program, binding, gathered, refused)
    return Declaration(binding.plan, with_missing_maxima(binding.code), proof, points, refused, unrun)


def _proof(program: Program, binding: Binding, gathered: Gathered, refused: str) -> Proof:
    """The solver's proof, where the conditions are complete and the program takes the sizes it was run at."""
    proof = binding.chosen.proof
    why = ""
    if refused:
        why = f"every guard holds, and the program refuses {refused}"
    elif program.failure is not None and program.exported is None and not program.failure.traced:
        why = "the export stopped before the whole model was traced"
    elif gathered.unparsed:
        why = "a condition was not read"
    elif integers := on_integers(gathered.conditions, program.inputs):
        why = f"a condition speaks of {next(iter(integers.values()))}, an integer, and {ONLY_SIZES}"
    elif binding.by_example:
        why = f"what another example than one with size 0 or 1 at {', '.join(binding.by_example)} asks is not known"
    elif binding.left_to_torch:
        why = f"whether torch works out {', '.join(binding.left_to_torch)} by itself only an export shows"
    return Proof(ProofKind.NONE, proof.checked, why) if why else proof


def _contradiction(binding: Binding | None, constraints: Sequence[Constraint], sites: Sites) -> tuple[Conflict, ...]:
    """Why no sizes satisfy the program, where that shows only with all that was asked of several dims."""
    found = None if binding is None else binding.chosen.conflict
    if binding is None or found is None:
        return ()
    members = tuple(c for c in constraints if c.condition in binding.contradicting)
    named = dict.fromkeys(s for condition in binding.contradicting for s in sorted(free_symbols(condition)))
    ranges = tuple(sites.range_text(s, binding.box[s]) for s in named if s in binding.box)
    return (Conflict(members, ranges, found.proof),) if members else ()


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
    found = []
    for group in tied_groups(broken, lambda constraint: constraint.symbols):
        symbols = set().union(*(set(c.symbols) for c in group))
        if _satisfied({c.condition for c in group}, symbols, box, hints):
            continue
        answer = conflict(tuple(c.condition for c in group), {s: box[s] for s in symbols})
        if answer.members is not None:
            members = tuple(group[index] for index in answer.members)
            named = sorted({s for c in members for s in c.symbols})
            ranges = tuple(sites.range_text(s, box[s]) for s in named)
            found.append(Conflict(members, ranges, answer.proof))
    return tuple(found)


def _satisfied(
    conditions: set[Condition], symbols: set[str], box: Mapping[str, Range], hints: Mapping[str, int]
) -> bool:
    if any(s not in hints or s not in box or hints[s] not in box[s] for s in symbols):
        return False
    return all(evaluate(c, {s: hints[s] for s in free_symbols(c)}) for c in conditions)
