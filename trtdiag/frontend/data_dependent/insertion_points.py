"""Where in a source file a statement can be put so that it runs just before another line."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from trtdiag.graph.source import Frame, Stack


@dataclass(frozen=True)
class Statement:
    """The statement that a line belongs to.

    Attributes:
        line: Its first line: what is put before it runs before every part of it.
        test: Where it is an ``if``, ``while`` or ``assert`` on one tensor: Python that takes the truth value out of the
            tensor; empty otherwise.
        asserted: Whether it is an ``assert``.
    """

    line: int
    test: str
    asserted: bool


def statement_at(file: str, line: int) -> Statement | None:
    """The innermost statement around ``line``; ``None`` where the source cannot be read.

    An ``elif`` belongs to its ``if``: nothing can stand between them.
    """
    lines = linecache.getlines(file)
    if not lines:
        return None
    return _innermost("".join(lines), line)


def before(frame: Frame) -> Frame:
    """The frame at the first line of its statement."""
    statement = statement_at(frame.file, frame.line)
    line = frame.line if statement is None else statement.line
    return Frame(frame.file, line, frame.function, linecache.getline(frame.file, line).strip())


def naming_line(made: Stack | None) -> Frame | None:
    """The line at which a value that was made there can be given a name."""
    best = made.best if made is not None else None
    return best if best is None or best.inside is None else best.inside


@lru_cache(maxsize=256)
def _innermost(source: str, line: int) -> Statement | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    found: Statement | None = None
    for node, first in _statements(tree):
        if node.lineno <= line <= _head_end(node):
            found = Statement(first, _test(node, source), isinstance(node, ast.Assert))
    return found


def _statements(tree: ast.Module) -> Iterator[tuple[ast.stmt, int]]:
    """Statements, outer before inner, each with the line before which something can be put."""
    waiting: list[tuple[ast.AST, int | None]] = [(tree, None)]
    while waiting:
        node, elif_of = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node, node.lineno if elif_of is None else elif_of
        for child in ast.iter_child_nodes(node):
            chained = isinstance(node, ast.If) and isinstance(child, ast.If) and _is_elif(node, child)
            first = (elif_of or node.lineno) if chained and isinstance(node, ast.If) else None
            waiting.append((child, first))


def _is_elif(parent: ast.If, child: ast.If) -> bool:
    return parent.orelse == [child] and child.col_offset == parent.col_offset


def _head_end(node: ast.stmt) -> int:
    """The last line of the statement without the blocks in it."""
    end = node.end_lineno or node.lineno
    blocks = [part for name in ("body", "orelse", "finalbody", "handlers") for part in getattr(node, name, [])]
    first = min((part.lineno for part in blocks), default=end + 1)
    return max(node.lineno, min(end, first - 1)) if blocks else end


def _test(node: ast.stmt, source: str) -> str:
    """The condition as an expression that torch gives a symbolic truth value for; empty where it is not that simple."""
    if not isinstance(node, (ast.If, ast.While, ast.Assert)):
        return ""
    test = node.test
    if (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id == "bool"
        and len(test.args) == 1
    ):
        test = test.args[0]
    if isinstance(test, (ast.BoolOp, ast.UnaryOp, ast.NamedExpr, ast.IfExp)):
        return ""
    text = " ".join((ast.get_source_segment(source, test) or "").split())
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.func.attr == "item":
        return text
    return f"{text}.item()" if isinstance(test, (ast.Name, ast.Call, ast.Attribute)) else f"({text}).item()"
