"""The sizes of a program that only the data decides: what a user may call each, and what makes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

import torch
from torch.fx import Graph, Node

from trtdiag.frontend.node_origins import stack_of
from trtdiag.frontend.program import Program
from trtdiag.graph.operators import target_name
from trtdiag.graph.unbacked_symbols import BINDINGS
from trtdiag.grouping import grouped


@dataclass(frozen=True)
class SizeOfData:
    """A size that only the data decides.

    Attributes:
        symbol: Its symbol.
        name: The user's name for it: the value that has it (``item``, ``nonzero.shape[0]``).
        node: The node that makes it.
        place: What makes it: the op, and its source line where that is known (``aten.item.default at net.py:25``).
        lines: That line in the user's file, and in a library that it leads to (``net.py:25``).
    """

    symbol: str
    name: str
    node: str
    place: str
    lines: tuple[str, ...]


def sizes_of_data(program: Program) -> dict[str, SizeOfData]:
    """Each such size by its symbol, in the order of the graph.

    Sizes in nested graphs, and what no tensor and no number shows, are left out: nothing of them goes into engines.
    """
    if program.exported is None:
        return {}
    graph, found = program.exported.graph, {}
    shown = shown_at(graph)
    for symbol, node in _bearers(graph):
        if symbol in shown:
            lines = tuple(_lines(program, node.name))
            place = f"{target_name(node.target)}{f' at {lines[0]}' if lines else ''}"
            found[symbol] = SizeOfData(symbol, program.names.get(symbol, symbol), node.name, place, lines)
    return found


def names_of_data(program: Program) -> dict[str, tuple[str, ...]]:
    """The symbols of such sizes by what they may be called: symbol, value, node, source line; several of one line."""
    sizes = sizes_of_data(program).values()
    spelled = ((size, dict.fromkeys((size.symbol, size.name, size.node, *size.lines))) for size in sizes)
    found = grouped((name, size.symbol) for size, names in spelled for name in names)
    return {name: tuple(symbols) for name, symbols in found.items()}


def shown_at(graph: Graph) -> dict[str, tuple[Node, int | None]]:
    """The first node whose value is such a size, or which has it as a dim of a tensor, and that dim; by symbol.

    Cost: linear in nodes up to the last size that is looked for.
    """
    missing = {symbol for symbol, _ in _bearers(graph)}
    found: dict[str, tuple[Node, int | None]] = {}
    begun = False
    for node in graph.nodes:
        begun = begun or bool(node.meta.get(BINDINGS))
        if not missing or not begun:
            continue
        value = node.meta.get("val")
        dims: list[tuple[int | None, object]] = []
        if isinstance(value, torch.SymInt):
            dims = [(None, value)]
        elif isinstance(value, torch.Tensor) and value.layout is torch.strided:
            dims = list(enumerate(value.shape))
        for dim, size in dims:
            symbol = str(size.node.expr) if isinstance(size, torch.SymInt) else ""
            if symbol in missing:
                missing.remove(symbol)
                found[symbol] = node, dim
    return found


def _bearers(graph: Graph) -> Iterator[tuple[str, Node]]:
    for node in graph.nodes:
        for symbol in node.meta.get(BINDINGS) or ():
            yield str(symbol), node


def _lines(program: Program, node: str) -> Iterator[str]:
    frame = stack_of(program.origins, node).best
    if frame is not None:
        frames = (frame,) if frame.inside is None else (frame.inside, frame)
        yield from dict.fromkeys(f"{PurePath(each.file).name}:{each.line}" for each in frames)
