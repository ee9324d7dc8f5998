"""Microseconds per call of the symbolic core beside sympy (with torch's functions) doing the same, in one run.

    python benchmarks/symbolic.py [rounds]

Every round uses symbols of its own, so that neither side answers from its caches; rows marked "again" repeat a call
within a round, which is what the analysis of a graph mostly does.  The best round counts.  The peer of ``bounds`` is
torch's own interval analysis, which does not promise exact ends; the peer of ``allowed`` tries every value, too.
"""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sympy
from torch.utils._sympy.functions import FloorDiv, Mod
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from trtdiag.symbolic import BoundsCache, Range, allowed, evaluate, from_sympy, holds_array, parse_condition, parse_expr

SIZES = (
    "4*{h}",
    "{h} - 1",
    "{h} + {w}",
    "({h} - 1)//8",
    "{b}*{h}*{w}",
    "8*(({h} - 1)//8) + 8",
    "{h}//2 + ({h} - 1)//4",
    "({h} + 1)//2 * {w}",
    "{h} - 8*({h}//8)",
    "{w} % 16",
)
GUARDS = (
    "({h} % 8) == 0",
    "(1 + (((-1) + {h}) // 4)) == ({h} // 4)",
    "((({h} - 1) // 4) - 1) % 2 == 0",
    "2 <= {h} and {h} <= 512",
    "(({h} + ((8 + (-1)*({h} % 8)) % 8)) // 8) != 1",
    "({h} // ({h} // 16)) == 16",
)
RANGES = {"b": (1, 16), "h": (135, 2160), "w": (3, 4096)}
VALUES = {"b": 3, "h": 1081, "w": 77}


class _TorchNotation(ast.NodeTransformer):
    """Writes ``//`` and ``%`` as the functions that torch builds for them."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        name = {ast.FloorDiv: "FloorDiv", ast.Mod: "Mod"}.get(type(node.op))
        return node if name is None else ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])


def read_by_sympy(text: str, names: dict[str, sympy.Symbol]) -> sympy.Basic:
    """What sympy makes of a text of this file, which it evaluates."""
    tree = _TorchNotation().visit(ast.parse(text, mode="eval"))
    known = {"FloorDiv": FloorDiv, "Mod": Mod, "Eq": sympy.Eq, **names}
    return eval(compile(ast.fix_missing_locations(tree), "<benchmark>", "eval"), known)


@dataclass
class Round:
    """One set of fresh symbols, and everything written over them."""

    number: int

    def __post_init__(self) -> None:
        self.names = {name: f"{name}{self.number}" for name in RANGES}
        self.sizes = [text.format(**self.names) for text in SIZES]
        self.guards = [text.format(**self.names) for text in GUARDS]
        self.symbols = {new: sympy.Symbol(new, integer=True, positive=True) for new in self.names.values()}
        self.box = {new: Range(*RANGES[old]) for old, new in self.names.items()}
        self.torch_box = {self.symbols[new]: ValueRanges(*RANGES[old]) for old, new in self.names.items()}
        self.values = {new: VALUES[old] for old, new in self.names.items()}


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def measure(round_: Round) -> dict[str, tuple[float, float | None]]:
    """Microseconds for one operation: ours and sympy's, by row."""
    found: dict[str, tuple[float, float | None]] = {}

    def note(row: str, count: int, ours: Callable[[], object], theirs: Callable[[], object] | None = None) -> None:
        peer = None if theirs is None else seconds(theirs) / count * 1e6
        found[row] = seconds(ours) / count * 1e6, peer

    sizes, guards, symbols = round_.sizes, round_.guards, round_.symbols
    note(
        "read a size",
        len(sizes),
        lambda: [parse_expr(text) for text in sizes],
        lambda: [read_by_sympy(text, symbols) for text in sizes],
    )
    note("read a guard", len(guards), lambda: [parse_condition(text) for text in guards])
    held = [read_by_sympy(text, symbols) for text in sizes]
    note("take over a size from sympy", len(held), lambda: [from_sympy(expr) for expr in held])
    note("take over a size, again", len(held), lambda: [from_sympy(expr) for expr in held])
    exprs = [parse_expr(text) for text in sizes]
    cache = BoundsCache(round_.box)
    note(
        "bounds of a size",
        len(exprs),
        lambda: [cache.of(expr) for expr in exprs],
        lambda: [bound_sympy(expr, round_.torch_box) for expr in held],
    )
    note("bounds of a size, again", len(exprs), lambda: [cache.of(expr) for expr in exprs])
    values = round_.values
    by_symbol = {symbols[name]: sympy.Integer(value) for name, value in values.items()}
    note(
        "value at one point",
        len(exprs),
        lambda: [evaluate(expr, values) for expr in exprs],
        lambda: [expr.xreplace(by_symbol) for expr in held],
    )
    note("value at one point, again", len(exprs), lambda: [evaluate(expr, values) for expr in exprs])
    conditions = [parse_condition(text) for text in guards]
    points = {round_.names["h"]: np.arange(*RANGES["h"])}
    count = len(conditions) * len(points[round_.names["h"]])
    note("truth of a guard at a point", count, lambda: [holds_array(condition, points) for condition in conditions])
    multiple = read_by_sympy(f"Eq({round_.names['h']} % 8, 0)", symbols)
    h, tried = symbols[round_.names["h"]], range(RANGES["h"][0], RANGES["h"][1] + 1)
    note(
        "allowed set of a guard, 2,026 values",
        1,
        lambda: allowed([conditions[0]], round_.names["h"], round_.box[round_.names["h"]]),
        lambda: [value for value in tried if multiple.xreplace({h: sympy.Integer(value)})],
    )
    note(
        "allowed set of a guard, no maximum",
        len(conditions),
        lambda: [allowed([condition], round_.names["h"], Range(2, None)) for condition in conditions],
    )
    return found


def main() -> None:
    rounds = [measure(Round(number)) for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 15)]
    print(f"{'microseconds':38}{'trtdiag':>10}{'sympy':>12}{'ratio':>9}")
    for row in rounds[0]:
        ours = min(found[row][0] for found in rounds)
        peers = [peer for found in rounds if (peer := found[row][1]) is not None]
        other = f"{min(peers):12.1f}{min(peers) / ours:8.1f}x" if peers else ""
        print(f"{row:38}{ours:10.2f}{other}")


if __name__ == "__main__":
    main()
