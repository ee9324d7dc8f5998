"""What the ops of a graph ask of its sizes, and neither guards nor ranges ensure.

torch records most of it as guards when it traces on tensors without content.  Some kernels for those do not look: the
lengths of keys and values, the values of index_put, what slice_scatter writes (torch 2.13); and files of older
versions hold no guards at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch.fx import Node

from trtdiag.capture.program import Program
from trtdiag.dims.facts import AskedByOp, GuardOrigin
from trtdiag.dims.solved import Solved
from trtdiag.dims.tried_op import NotTriedError, OpTrial
from trtdiag.graph.operators import target_name
from trtdiag.graph.source import NO_STACK
from trtdiag.graph.values import NodeReader
from trtdiag.graph.walk import LocatedNode, walk
from trtdiag.shapes.demand import Ask, Demand
from trtdiag.shapes.op_call import OpCall, callee
from trtdiag.shapes.op_demands import demands_of
from trtdiag.shapes.op_demands.registry import rule_for
from trtdiag.shapes.symbols import is_backed
from trtdiag.symbolic import CheckResult, Relation, check, compare, free_symbols, holds
from trtdiag.symbolic.expr import Condition, Truth
from trtdiag.symbolic.ranges import Range

FOUND_IN = "an op's sizes"
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
    asked: dict[Condition, tuple[Demand, LocatedNode]] = {}
    for located, demand in _demands(walk(program.exported.graph_module)):
        condition = demand.condition
        if not isinstance(condition, Truth) and free_symbols(condition) <= box.keys():
            asked.setdefault(condition, (demand, located))
    given = [condition for condition in known if free_symbols(condition) <= box.keys()]
    solved, trial = Solved(box), OpTrial()
    found: dict[Condition, GuardOrigin] = {}
    for condition, (demand, located) in asked.items():
        if condition in given:
            continue
        related = _related(condition, [*given, *found])
        if demand.guarded and related:
            continue  # products of sizes take the solver long
        symbols = free_symbols(condition).union(*map(free_symbols, related))
        here = {symbol: box[symbol] for symbol in symbols}
        result = check(condition, here, program.hints, given=related, limit_s=solved.limit_s)
        if result.verdict != "breaks":
            continue
        broken = _broken(program, demand, located.node, result, trial)
        if broken is not None:
            found[_stated(demand, program.hints)] = _origin(program, located, broken)
    return found


def _traced(range_: Range) -> Range:
    above = range_.intersect(Range(LOWEST_TRACED, None))
    return range_ if above.empty else above


def _demands(nodes: Iterable[LocatedNode]) -> Iterator[tuple[LocatedNode, Demand]]:
    """What each call asks, calls of one op on equal sizes once."""
    reader = NodeReader()
    seen: set[Any] = set()
    for located in nodes:
        op = callee(located.node)
        if op is None or rule_for(op) is None:
            continue
        read = [reader.node(source) for source in located.node.all_input_nodes]
        if not any(values.symbols for values in read):
            continue
        key = (op, _frozen(located.node.args, reader), _frozen(tuple(located.node.kwargs.items()), reader))
        if key not in seen:
            seen.add(key)
            for demand in demands_of(OpCall(located.node, op, reader)):
                yield located, demand


def _frozen(value: Any, reader: NodeReader) -> Any:
    if isinstance(value, Node):
        return reader.node(value).values
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item, reader) for item in value)
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _related(condition: Condition, given: Sequence[Condition]) -> list[Condition]:
    """The conditions that share a symbol with it, directly or through others."""
    names, kept = free_symbols(condition), list[Condition]()
    while True:
        more = [other for other in given if other not in kept and free_symbols(other) & names]
        if not more:
            return kept
        kept += more
        names = names.union(*map(free_symbols, more))


def _broken(program: Program, demand: Demand, node: Node, result: CheckResult, trial: OpTrial) -> AskedByOp | None:
    """How the op refuses sizes that the program admits; ``None`` where it takes them."""
    refused = {**program.hints, **(result.counterexample or {})}
    fitting = {**program.hints, **(result.witness or {})}
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
    origin = program.origins.get(located.name)
    stack = NO_STACK if origin is None else origin.stack
    op = target_name(located.node.target)
    return GuardOrigin((FOUND_IN,), stack, branch=False, op=op, node=located.name, asked=asked)
