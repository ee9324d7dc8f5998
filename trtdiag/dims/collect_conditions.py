"""All conditions of a program, recorded or asked by its ops, as one list of distinct ones over graph symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import Node

from trtdiag.dims.facts import AskedByOp, GuardOrigin, UnparsedGuard
from trtdiag.dims.op_trial import NotTriedError, OpTrial
from trtdiag.dims.solved_sets import Solved
from trtdiag.frontend.node_origins import stack_of
from trtdiag.frontend.program import Program, RawGuard
from trtdiag.frontend.read_guards import read_guards
from trtdiag.graph.node_kinds import LocatedNode, walk
from trtdiag.graph.operators import target_name
from trtdiag.graph.source import Stack
from trtdiag.graph.values import NodeReader
from trtdiag.shapes.op_call import OpCall, callee
from trtdiag.shapes.op_demands import demands_of
from trtdiag.shapes.op_demands.registry import rule_for
from trtdiag.shapes.shape_constraints import Ask, Demand
from trtdiag.shapes.size_values import ends_of
from trtdiag.shapes.symbols import is_backed
from trtdiag.symbolic import CheckResult, Relation, check, compare, conjuncts, free_symbols, holds
from trtdiag.symbolic.expr import Condition, Truth
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.shared_symbols import related


@dataclass
class Gathered:
    """Distinct conditions in order of first appearance with where they were found, and texts that were not read."""

    conditions: dict[Condition, GuardOrigin] = field(default_factory=dict)
    unparsed: list[UnparsedGuard] = field(default_factory=list)


def gather(program: Program) -> Gathered:
    """Read every guard of ``program``; the same condition found twice keeps the better stack and both places.

    After the guards stand conditions that ops ask for and no guard ensures (``GuardOrigin.asked``).
    """
    gathered = Gathered()
    for read in read_guards(program):
        guard = read.guard
        if read.condition is None:
            unread = UnparsedGuard(str(guard.condition), read.why, guard.found_in, guard.stack, read.about)
            if unread not in gathered.unparsed:
                gathered.unparsed.append(unread)
            continue
        for part in conjuncts(read.condition):
            if not isinstance(part, Truth) or not part.value:
                known = gathered.conditions.get(part)
                origin = origin_of_guard(guard)
                gathered.conditions[part] = origin if known is None else merged(known, origin)
    gathered.conditions.update(asked_by_ops(program, tuple(gathered.conditions)))
    return gathered


def origin_of_guard(guard: RawGuard) -> GuardOrigin:
    """Where a guard comes from; an assertion node does not tell whether from a Python branch, a squeeze is none."""
    origin = GuardOrigin.traced(guard.found_in, guard.stack, guard.op, guard.node)
    if guard.found_in == "squeeze":
        return replace(origin, branch=False)
    return replace(origin, branch=None) if guard.found_in == "_assert_scalar" else origin


def merged(one: GuardOrigin, other: GuardOrigin) -> GuardOrigin:
    """Both places, and the stack that knows more of the user's code.

    The frames of an assertion node point to where torch put the node, not to what asked for it: they come last.
    """
    found_in = tuple(dict.fromkeys(one.found_in + other.found_in))
    best = max((one, other), key=lambda o: (_worth(o.stack), "_assert_scalar" not in o.found_in))
    if one.found_in != ("_assert_scalar",) and one.stack.user is not None:
        best = one
    branch = one.branch if one.branch is not None else other.branch
    return replace(best, found_in=found_in, branch=branch, op=one.op or other.op, node=one.node or other.node)


def _worth(stack: Stack) -> int:
    return 2 if stack.user is not None else 1 if stack.best is not None else 0


# What the ops of a graph ask of its sizes, and neither guards nor ranges ensure.
#
# torch records most of it as guards when it traces on tensors without content.  Some kernels for those do not look: the
# lengths of keys and values, the values of index_put, what slice_scatter writes (torch 2.13); and files of older
# versions hold no guards at all.


FOUND_IN = "an op's sizes"
MOST_CALLS = 4
"""Own choice: calls of different ops that ask for one condition, run until one refuses."""
LOWEST_TRACED = 2
"""torch traces as if no dynamic size were 0 or 1; what happens there, runs at the smallest sizes show."""


def asked_by_ops(program: Program, known: Iterable[Condition]) -> dict[Condition, GuardOrigin]:
    """Every condition that an op of ``program`` asks for and that can break, with the op that asks.

    A size that only data decides is left out: which values it takes together with others is not known here.

    Args:
        program: The program; one without a graph asks for nothing.
        known: The conditions of its guards.
    """
    if program.exported is None:
        return {}
    box = {symbol: _traced(range_) for symbol, range_ in program.ranges.items() if is_backed(symbol)}
    given = [condition for condition in known if free_symbols(condition) <= box.keys()]
    solved, trial = Solved(box), OpTrial()  # the solver has one budget for all questions
    found: dict[Condition, GuardOrigin] = {}

    def broken_at(condition: Condition, beside: Sequence[Condition]) -> CheckResult | None:
        """Values in the box at which those beside it hold and ``condition`` does not; ``None``: none are known."""
        here = {symbol: box[symbol] for symbol in free_symbols(condition).union(*map(free_symbols, beside))}
        result = check(condition, here, program.hints, given=beside, limit_s=solved.limit_s)
        return result if result.verdict == "breaks" else None

    for condition, calls in _asked(walk(program.exported.graph_module), box.keys()).items():
        if condition in given:
            continue
        beside = related([*given, *found], free_symbols(condition))
        if beside and all(call.demand.guarded for call in calls):
            continue  # products of sizes take the solver long
        broken = broken_at(condition, beside)
        for call in calls if broken is not None else ():
            # Where the op asks for more than this, the rest is to hold: else its refusal says nothing about this.
            result = broken_at(condition, [*beside, *call.beside]) or broken
            refused = None if result is None else _refused(program, call, result, trial)
            if refused is not None:
                found[_stated(call.demand, program.hints)] = _origin(program, call.located, refused)
                break
    return found


@dataclass(frozen=True)
class _Asked:
    """What a call asks: where, one demand, and the conditions of its others."""

    located: LocatedNode
    demand: Demand
    beside: tuple[Condition, ...]


def _asked(nodes: Iterable[LocatedNode], known: AbstractSet[str]) -> dict[Condition, list[_Asked]]:
    """The conditions over ``known`` symbols that calls ask for, each with calls of different ops."""
    found: dict[Condition, list[_Asked]] = {}
    for located, demands in _demands(nodes):
        mine: dict[Condition, Demand] = {}
        for demand in demands:
            condition = demand.condition
            if not isinstance(condition, Truth) and free_symbols(condition) <= known:
                mine.setdefault(condition, demand)
        for one, demand in mine.items():
            calls = found.setdefault(one, [])
            if len(calls) < MOST_CALLS and all(call.located.node.target != located.node.target for call in calls):
                calls.append(_Asked(located, demand, tuple(other for other in mine if other != one)))
    return found


def _traced(range_: Range) -> Range:
    above = range_.intersect(Range(LOWEST_TRACED, None))
    return range_ if above.empty else above


def _demands(nodes: Iterable[LocatedNode]) -> Iterator[tuple[LocatedNode, tuple[Demand, ...]]]:
    """What each call asks, calls of one op on equal sizes once."""
    reader = NodeReader()
    sized: dict[Node, Any] = {}
    seen: set[Any] = set()
    for located in nodes:
        op = callee(located.node)
        if op is None or rule_for(op) is None:
            continue
        key = (op, *(_frozen(given, sized, reader) for given in (located.node.args, (*located.node.kwargs.items(),))))
        if key in seen:
            continue
        seen.add(key)
        if any(reader.node(source).symbols or _counts(source, sized) for source in located.node.all_input_nodes):
            yield located, demands_of(OpCall(located.node, op, reader))


def _counts(source: Node, sized: Mapping[Node, Any]) -> bool:
    """Whether sizes decide the values of a tensor whose own sizes are numbers: the one position behind a cache."""
    _, ends = sized[source]
    return ends is not None and any(free_symbols(end) for end in ends)


def _frozen(value: Any, sized: dict[Node, Any], reader: NodeReader) -> Any:
    """An argument as it tells calls apart; of a node, sizes as torch has them: reading thousands would take long."""
    if isinstance(value, Node):
        if value not in sized:
            sized[value] = _sizes(value.meta.get("val")), ends_of(value, reader)
        return sized[value]
    if isinstance(value, (list, tuple)):
        return tuple([_frozen(item, sized, reader) for item in value])
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _sizes(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple([_sizes(size) for size in value.shape])
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raw = getattr(value.node, "_expr", None)  # without replacements: to tell calls apart it does
        return str(value) if raw is None else raw
    return tuple([_sizes(item) for item in value]) if isinstance(value, (list, tuple)) else value


def _refused(program: Program, asked: _Asked, result: CheckResult, trial: OpTrial) -> AskedByOp | None:
    """How the op refuses sizes that the program admits; ``None`` where it takes them."""
    demand, node, hints = asked.demand, asked.located.node, program.hints
    refused = {**hints, **(result.counterexample or {})}
    fitting = {**hints, **(result.witness or {})}
    wanted = (demand.condition, *asked.beside)
    if not all(free_symbols(condition) <= fitting.keys() and holds(condition, fitting) for condition in wanted):
        fitting = dict(hints)
    sizes = {symbol: refused[symbol] for symbol in sorted(free_symbols(demand.condition))}
    try:
        refusal = trial.refusal(node, refused, fitting)
    except NotTriedError as why:
        return AskedByOp(demand.what, demand.ask.value, sizes, "", str(why))
    return AskedByOp(demand.what, demand.ask.value, sizes, refusal) if refusal else None


def _stated(demand: Demand, hints: Mapping[str, int]) -> Condition:
    """The condition that the program is to satisfy.

    Where the example has equal sizes, that they are equal: a graph is traced on one side of "equal, or one is 1", as
    torch's own guards are.
    """
    equality = compare(Relation.EQ, demand.left, demand.right)
    alike = demand.ask in (Ask.ALIKE, Ask.REPEATS) and free_symbols(equality) <= hints.keys()
    return equality if alike and holds(equality, hints) else demand.condition


def _origin(program: Program, located: LocatedNode, asked: AskedByOp) -> GuardOrigin:
    stack = stack_of(program.origins, located.name)
    op = target_name(located.node.target)
    return GuardOrigin((FOUND_IN,), stack, branch=False, op=op, node=located.name, asked=asked)
