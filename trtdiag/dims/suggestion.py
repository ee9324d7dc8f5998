"""What to declare for a whole program: one plan for all dims, from the solver that ``fix-dims`` asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace

from trtdiag.dims.compare_plans import same_plan
from trtdiag.dims.declare import declared, refused_names, respelled, still_refused
from trtdiag.dims.dynamic_shapes.asked import Structure, asked_plan, structure_of
from trtdiag.dims.dynamic_shapes.spell import spell, spell_sites
from trtdiag.dims.facts import GuardOrigin
from trtdiag.dims.max_sizes import capped
from trtdiag.dims.plan import LeafKind, Plan, program_plan
from trtdiag.dims.shared_dim import chosen_sizes
from trtdiag.dims.solver.choose import Chosen
from trtdiag.dims.solver_input import dims_in, stated, system_of
from trtdiag.errors import TrtdiagError
from trtdiag.frontend.program import InputTensor, Program
from trtdiag.symbolic import Range, free_symbols
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.expr import Condition, Num
from trtdiag.symbolic.shared_symbols import tied_groups


@dataclass(frozen=True)
class Asked:
    """What was declared: as a plan, and the user's own structure where it is known."""

    plan: Plan
    structure: Structure | None


@dataclass(frozen=True)
class Binding:
    """The sizes that satisfy every condition of a program, and the plan that declares them.

    Attributes:
        asked: What was declared.
        chosen: The sizes; its ``conflict`` says why there are none.
        plan: What to declare; as asked where nothing has to change or no sizes can satisfy the program.
        code: The same as Python that defines ``dynamic_shapes``; empty where nothing changes.
        box: Symbol -> asked range.
        contradicting: A smallest set of conditions that no sizes satisfy; empty where there are sizes.
        by_example: Dims of one size because the example has 0 or 1 there; they stay as asked in the plan, for another
            example makes them dynamic, and what the program then asks of them is not known.
    """

    asked: Asked
    chosen: Chosen
    plan: Plan
    code: str
    box: Mapping[str, Range]
    contradicting: tuple[Condition, ...] = ()
    by_example: tuple[str, ...] = ()

    @property
    def left_to_torch(self) -> tuple[str, ...]:
        """The dims that were asked with a Dim or a range and that torch now has to work out from others."""
        was = self.asked.plan.leaves
        return tuple(s for s, leaf in self.plan.leaves.items() if leaf.kind is LeafKind.AUTO and leaf != was[s])


def asked_of(program: Program) -> Asked:
    """What was declared: as it was written, else as the program itself says."""
    if program.recipe is not None:
        try:
            structure = structure_of(program.recipe)
        except TrtdiagError:  # it does not fit the inputs: the export has failed for that, and says so
            return Asked(program_plan(program), None)
        return Asked(_with_maxima(asked_plan(structure), program), structure)
    return Asked(program_plan(program), None)


def _with_maxima(plan: Plan, program: Program) -> Plan:
    """The plan with the greatest sizes that were given beside it (``--max``)."""
    most = {bound.symbol: bound.range.max for bound in program.bounds if not bound.assumed}
    for dim, leaf in dims_in(program.inputs, plan):
        line = affine(dim.expr)
        end = None if line is None else most.get(line[0])
        if line is not None and end is not None and leaf.kind is not LeafKind.STATIC:
            plan = capped(plan, [(dim.site, line[1] * end + line[2])], {})
    return plan


def binding_of(
    program: Program, asked: Asked, conditions: Mapping[Condition, GuardOrigin], doubtful: AbstractSet[str]
) -> Binding | None:
    """One plan for all dims; ``None`` where all that was declared can stay.

    Args:
        program: Its inputs, ranges and example.
        asked: What was declared for it.
        conditions: Everything that it relies on, and where it comes from.
        doubtful: Symbols that a condition may refuse a declared size of.  Only they, and what conditions connect
            with them, are solved: all else holds as it is.
    """
    system = system_of(program.inputs, asked.plan)
    every = stated(conditions, system)
    changed, pinned = _other_than_declared(program.inputs, asked.plan)
    wide = {s for s, range_ in system.box.items() if not _within(range_, program.ranges.get(s))}
    refused = _refused(program)
    concerned = (doubtful | changed | wide) & system.box.keys() if not refused else set(system.box)
    if not asked.plan.leaves or not (concerned or pinned):
        return None
    solved = [each for each, part in _parts(every) if part & concerned]
    chosen = chosen_sizes(solved, conditions, system.box, program.hints)
    plan = asked.plan
    by_example = _pinned_by_example(program.inputs, asked.plan)
    if chosen.conflict is None:
        plan = _with_asked(by_example, declared(chosen, program.inputs, asked.plan, asked.plan), asked.plan)
        if refused and not chosen.open:
            again = refused if same_plan(plan, asked.plan) else still_refused(plan, asked.plan, _message(program))
            plan = (respelled(plan, again) if again else None) or plan
    code = "" if same_plan(plan, asked.plan) else _code(plan, asked, program.inputs)
    members = () if chosen.conflict is None else chosen.conflict.members or ()
    return Binding(asked, chosen, plan, code, system.box, tuple(solved[index] for index in members), by_example)


def _refused(program: Program) -> list[str]:
    """The Dims that torch refused although it had traced the whole model: their guards may hold all the same."""
    return refused_names(_message(program)) if program.failure is not None and program.failure.traced else []


def _message(program: Program) -> str:
    return "" if program.failure is None else program.failure.message


def _within(range_: Range, known: Range | None) -> bool:
    """Whether what was asked lies inside the range over which the conditions were judged."""
    return known is None or range_.intersect(known) == range_


def _other_than_declared(inputs: Sequence[InputTensor], asked: Plan) -> tuple[set[str], bool]:
    """The symbols of dims that are not what was declared for them, and whether some dim is a number in its place."""
    changed: set[str] = set()
    pinned = False
    symbol_of: dict[str, str] = {}
    owner_of: dict[str, str] = {}
    for dim, leaf in dims_in(inputs, asked):
        line, owner = affine(dim.expr), leaf.root or dim.site
        said = (leaf.scale, leaf.offset) if leaf.kind is LeafKind.DIM else (1, 0)
        if isinstance(dim.expr, Num):
            pinned = pinned or leaf.kind is not LeafKind.STATIC
        elif line is None and leaf.kind is LeafKind.AUTO:
            continue  # torch works it out from others, and nothing else can say it
        elif line is None or line[1:] != said or leaf.kind is LeafKind.STATIC:
            changed |= free_symbols(dim.expr)
        elif symbol_of.setdefault(owner, line[0]) != line[0] or owner_of.setdefault(line[0], owner) != owner:
            changed |= {line[0], symbol_of[owner]}
    return changed, pinned


def _pinned_by_example(inputs: Sequence[InputTensor], asked: Plan) -> tuple[str, ...]:
    return tuple(
        dim.site
        for dim, leaf in dims_in(inputs, asked)
        if leaf.kind is not LeafKind.STATIC and dim.expr in (Num(0), Num(1)) and dim.hint == dim.expr.value
    )


def _with_asked(sites: Sequence[str], plan: Plan, asked: Plan) -> Plan:
    """``plan`` with these dims declared as they were asked."""
    leaves = {**plan.leaves, **{site: asked.leaves[site] for site in sites}}
    known, used = {d.name for d in plan.defs}, {asked.leaves[site].root for site in sites}
    return replace(plan, defs=(*plan.defs, *(d for d in asked.defs if d.name in used - known)), leaves=leaves)


def _parts(conditions: Sequence[Condition]) -> list[tuple[Condition, frozenset[str]]]:
    """Each condition with all symbols that it is connected with, directly or through others."""
    groups = tied_groups(conditions, free_symbols)
    found = {each: frozenset().union(*map(free_symbols, group)) for group in groups for each in group}
    return [(condition, found[condition]) for condition in conditions]


def _code(plan: Plan, asked: Asked, inputs: Sequence[InputTensor]) -> str:
    if asked.structure is not None:
        return spell(plan, asked.structure).code
    return spell_sites(plan, [(tensor.name, len(tensor.dims)) for tensor in inputs]).code
