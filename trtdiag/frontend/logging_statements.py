"""Lines of a model that only tell people something: whatever they say of a size is of no consequence."""

from __future__ import annotations

import ast
from functools import lru_cache
from types import FrameType

from trtdiag.graph.source import syntax_nodes

_TELLING = frozenset(
    ["print", "log", "debug", "info", "warn", "warning", "warning_once", "info_once", "error", "exception", "critical"]
)
"""Calls that say something to people, and to nothing in the model, beside those that check and may raise."""


def only_tells(frame: FrameType) -> bool:
    """Whether all statements in the frame's line only tell people something, or raise."""
    line = frame.f_lineno
    here = [each for each in _statements(frame.f_code.co_filename) if each.lineno <= line <= _end_of_own(each)]
    return bool(here) and all(map(_is_told, here))


def _end_of_own(statement: ast.stmt) -> int:
    """The last line of a statement, without what stands in its body."""
    body = getattr(statement, "body", None)
    return max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno or statement.lineno


def _is_told(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return all(_called(each) in _TELLING for each in (*statement.body, *statement.orelse))
    name = _called(statement)
    return isinstance(statement, ast.Raise) or name in _TELLING or name.lstrip("_").startswith(("check", "assert"))


def _called(statement: ast.stmt) -> str:
    """The name of what a statement calls, where it does nothing else."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return ""
    called = statement.value.func
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


@lru_cache(maxsize=4)
def _statements(file: str) -> tuple[ast.stmt, ...]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tuple(node for node in syntax_nodes(file) if isinstance(node, ast.stmt) and not isinstance(node, kinds))
