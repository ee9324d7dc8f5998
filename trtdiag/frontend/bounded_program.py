"""A program with narrower ranges than it was exported with, which its graph and torch hold calls to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from trtdiag.frontend.node_origins import op_origins
from trtdiag.frontend.program import Bound, Program
from trtdiag.frontend.rebuilt_program import copied_graph, rebuilt_program
from trtdiag.frontend.sizes_of_data import shown_at
from trtdiag.graph.operators import ATEN
from trtdiag.graph.size_check import CHECK_SIZE
from trtdiag.symbolic import Range


def with_bounds(program: Program, bounds: Sequence[Bound]) -> Program:
    """The program with these bounds; ``program`` stays as it is.

    Of an input's dim the range is narrower, which torch asks of each call; behind what makes a size from data stands a
    check of it.

    Args:
        program: It has a graph; of a size from data ``shown_at`` has a node.
        bounds: One for each symbol.
    """
    exported = program.exported
    if exported is None or not bounds:
        return program
    narrowed = {bound.symbol: bound.range for bound in bounds}
    made = _rebuilt(exported, bounds)
    inputs = tuple(
        replace(tensor, dims=tuple(_declared(dim, narrowed) for dim in tensor.dims)) for tensor in program.inputs
    )
    return replace(
        program,
        exported=made,
        inputs=inputs,
        ranges={**program.ranges, **narrowed},
        origins={**op_origins(made.graph_module), **program.origins},
        bounds=(*program.bounds, *bounds),
    )


def _rebuilt(exported: ExportedProgram, bounds: Sequence[Bound]) -> ExportedProgram:
    narrowed = {bound.symbol: bound.range for bound in bounds}
    ranges = {
        symbol: _of_torch(narrowed[str(symbol)]) if str(symbol) in narrowed else known
        for symbol, known in exported.range_constraints.items()
    }
    graph, _ = copied_graph(exported.graph)
    shown = shown_at(graph)
    for bound in bounds:
        if bound.assumed and not bound.unneeded:
            _check(graph, bound, *shown[bound.symbol])
    return rebuilt_program(exported, exported.graph_module, graph, ranges=ranges, same_modules=True)


def _declared(dim: Any, narrowed: dict[str, Range]) -> Any:
    """An input's dim whose declaration has the bound, too."""
    symbol = getattr(dim.expr, "name", None)
    if symbol in narrowed and dim.declared_range is not None:
        return replace(dim, declared_range=narrowed[symbol])
    return dim


def _of_torch(range_: Range) -> ValueRanges[Any]:
    low = -int_oo if range_.min is None else sympy.Integer(range_.min)
    high = int_oo if range_.max is None else sympy.Integer(range_.max)
    return ValueRanges(low, high)


def _check(graph: Graph, bound: Bound, node: Node, dim: int | None) -> None:
    """Put a check of a size behind the node that shows it first."""
    own = {key: kept for key, kept in node.meta.items() if key in ("stack_trace", "nn_module_stack", "source_fn_stack")}
    size = node
    if dim is not None:
        with graph.inserting_after(node):
            size = graph.call_function(ATEN.sym_size.int, (node, dim))
        size.meta = {**own, "val": node.meta["val"].shape[dim]}
    with graph.inserting_after(size):
        check = graph.call_function(CHECK_SIZE, (size, *bound.said, bound.name, bound.place))
    check.meta = {**own, "val": None}
