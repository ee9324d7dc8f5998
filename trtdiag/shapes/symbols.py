"""The symbols of a program: where each comes from, its range, and what the graph computes from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from trtdiag.frontend.node_origins import stack_of
from trtdiag.frontend.program import Program
from trtdiag.frontend.sizes_of_data import sizes_of_data
from trtdiag.graph.node_kinds import LocatedNode, NodeKind, walk
from trtdiag.graph.operators import target_name
from trtdiag.graph.values import NodeReader, NumberValue, TensorValue, Value
from trtdiag.lower.facts import Checked
from trtdiag.shapes.facts import SymbolFacts, SymbolTable
from trtdiag.symbolic import Condition, Expr, Num, Sym, free_symbols, is_condition, to_text

# A table row shows a few; the full list is every node's own size.
MOST_EXPRESSIONS = 12


@dataclass
class _Seen:
    uses: int = 0
    first: LocatedNode | None = None
    bearer: LocatedNode | None = None
    expressions: Counter[Expr] = field(default_factory=Counter)


def symbol_table(program: Program, checked: Checked, reader: NodeReader | None = None) -> SymbolTable:
    """Return every symbol that an input, a tensor's size or a SymInt mentions, in order of first appearance.

    An unbacked symbol is born by the node that says so in ``unbacked_bindings``, else by the first one to show it.
    ``reader`` reads the graph's nodes, for those who ask after it.
    """
    seen: dict[str, _Seen] = {}
    origins: dict[str, list[str]] = {}
    for tensor in program.inputs:
        for dim in tensor.dims:
            for name in sorted(free_symbols(dim.expr)):
                seen.setdefault(name, _Seen())
                origins.setdefault(name, []).append(dim.site)
    reader = NodeReader() if reader is None else reader
    for located in walk(checked.graph_module):
        for name in _bound(located):
            seen.setdefault(name, _Seen()).bearer = located
        _count(located, reader.read(located.node), seen)
    called = {size.symbol: (size.name, *size.lines) for size in sizes_of_data(program).values()}
    facts = (_facts(program, name, found, origins.get(name, [])) for name, found in seen.items())
    return SymbolTable(tuple(replace(each, called=called.get(each.symbol, ())) for each in facts))


def is_backed(symbol: str) -> bool:
    """Whether a symbol has a size in the example inputs (``s0``), rather than being born from data (``u0``)."""
    return not symbol.startswith(("u", "zuf"))


def _bound(located: LocatedNode) -> Iterator[str]:
    bindings = located.node.meta.get("unbacked_bindings")
    if isinstance(bindings, dict):
        yield from (str(symbol) for symbol in bindings)


def _count(located: LocatedNode, values: tuple[Value, ...], seen: dict[str, _Seen]) -> None:
    mentioned: dict[str, None] = {}
    for expr in dict.fromkeys(_expressions(values)):
        for name in sorted(free_symbols(expr)):
            mentioned[name] = None
            found = seen.setdefault(name, _Seen())
            if found.first is None:
                found.first = located
            if not isinstance(expr, Sym) and not is_condition(expr):
                found.expressions[expr] += 1  # type: ignore[index]
    if located.kind is not NodeKind.PLACEHOLDER:
        for name in mentioned:
            seen[name].uses += 1


def _expressions(values: tuple[Value, ...]) -> Iterator[Expr | Condition]:
    for value in values:
        if isinstance(value, TensorValue):
            yield from (dim for dim in value.dims if not isinstance(dim, Num))
        elif isinstance(value, NumberValue) and value.expr is not None and not isinstance(value.expr, Num):
            yield value.expr


def _facts(program: Program, name: str, found: _Seen, sites: list[str]) -> SymbolFacts:
    backed = is_backed(name)
    bearer = None if backed else found.bearer or found.first
    born_by = None if bearer is None else f"{bearer.name}: {target_name(bearer.node.target)}"
    return SymbolFacts(
        symbol=name,
        name=to_text(Sym(name), program.words),
        backed=backed,
        range=program.ranges.get(name),
        hint=program.hints.get(name),
        origins=tuple(dict.fromkeys(sites)) or _elsewhere(program, found.first, born_by),
        born_at=None if bearer is None else stack_of(program.origins, bearer.name).best,
        born_by=born_by,
        uses=found.uses,
        expressions=tuple(to_text(expr, program.words) for expr, _ in found.expressions.most_common(MOST_EXPRESSIONS)),
        assumed=any(b.assumed and not b.unneeded and b.symbol == name for b in program.bounds),
    )


def _elsewhere(program: Program, first: LocatedNode | None, born_by: str | None) -> tuple[str, ...]:
    """Return the origin of a symbol that is no input's dim: the node that bears it, or an input that is a number."""
    if born_by is not None:
        return (born_by,)
    if first is None or first.kind is not NodeKind.PLACEHOLDER:
        return ()
    return tuple(given.name for given in program.inputs if given.placeholder == first.name) or (first.name,)
