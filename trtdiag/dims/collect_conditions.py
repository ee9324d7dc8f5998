"""All conditions of a program, recorded or asked by its ops, as one list of distinct ones over graph symbols."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from trtdiag.dims.facts import GuardOrigin, UnparsedGuard
from trtdiag.dims.op_conditions import asked_by_ops
from trtdiag.frontend.program import Program, RawGuard
from trtdiag.frontend.read_guards import read_guards
from trtdiag.graph.source import Stack
from trtdiag.symbolic import conjuncts
from trtdiag.symbolic.expr import Condition, Truth


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
            unread = UnparsedGuard(str(guard.condition), read.why, guard.found_in)
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
    """Where a guard comes from; an assertion node does not tell whether from a Python branch."""
    origin = GuardOrigin.traced(guard.found_in, guard.stack, guard.op, guard.node)
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
