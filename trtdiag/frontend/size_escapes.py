"""Notes where a model asks of a size, while it is exported, what torch answers without a guard.

The text of a size is that of a symbol then, and a size is no ``int``: what the model makes of such an answer shows in
no condition, at no size.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from trtdiag.frontend.guard_stacks import python_stack
from trtdiag.frontend.program import SizeEscape
from trtdiag.graph.source import Frame

TEXT = "makes text of a size"
KIND = "asks whether a size is an int"
_NUMBERS: dict[type, Any] = {torch.SymInt: 2, torch.SymFloat: 0.5, torch.SymBool: True}
"""What stands in the place of each while nothing is exported."""
_TELLING = frozenset(
    ["print", "log", "debug", "info", "warn", "warning", "warning_once", "info_once", "error", "exception", "critical"]
)
"""Calls that say something to people, and to nothing in the model."""
_INSTALLED = (str(Path(torch.__file__).parents[1]), str(Path(ast.__file__).parent))


@contextmanager
def noting_escapes() -> Iterator[list[SizeEscape]]:
    """Note each line outside torch that makes text of a size, or asks what kind of number it is.

    Text in a statement that only tells people of it, and in one that raises, does not count.  Kinds are noted of lines
    in files that belong to no installed package.
    """
    noted: dict[tuple[str, int, str], SizeEscape] = {}
    escapes: list[SizeEscape] = []

    def note(how: str) -> None:
        frame = _asking(sys._getframe(2))
        if frame is None or (how == TEXT and _tells(frame)):
            return
        key = (frame.f_code.co_filename, frame.f_lineno, how)
        if key not in noted:
            noted[key] = SizeEscape(how, python_stack(frame))

    texts = {kind: kind.__repr__ for kind in (*_NUMBERS, torch.Tensor)}
    modules = _own_modules()
    try:
        for kind, plain in texts.items():
            kind.__repr__ = _noting_text(plain, note)  # type: ignore[method-assign]  # restored below
        for names in modules:
            names["isinstance"] = _noting_kind(note)
        yield escapes
    finally:
        for kind, plain in texts.items():
            kind.__repr__ = plain  # type: ignore[method-assign]
        for names in modules:
            names.pop("isinstance", None)
        escapes.extend(noted.values())


def _noting_text(plain: Callable[..., str], note: Callable[[str], None]) -> Callable[..., str]:
    def text(self: Any, **options: Any) -> str:
        note(TEXT)
        return plain(self, **options)

    return text


def _noting_kind(note: Callable[[str], None]) -> Callable[[Any, Any], bool]:
    def asked(value: Any, kinds: Any) -> bool:
        answer = builtins.isinstance(value, kinds)
        if type(value) in _NUMBERS and builtins.isinstance(_NUMBERS[type(value)], kinds) is not answer:
            note(KIND)
        return answer

    return asked


def _own_modules() -> list[dict[str, Any]]:
    """The globals of modules that belong to no installed package."""
    files = [(vars(module), getattr(module, "__file__", None)) for module in list(sys.modules.values())]
    return [
        names
        for names, file in files
        if isinstance(file, str)
        and not file.startswith(_INSTALLED)
        and "isinstance" not in names
        and Frame(file, 0).package is None
    ]


def _asking(frame: FrameType | None) -> FrameType | None:
    """The frame that asks, outside Python's own modules; ``None`` where it is one of torch's."""
    while frame is not None:
        package = Frame(frame.f_code.co_filename, 0).package
        if package != "python":
            return None if package in ("torch", "sympy", "trtdiag") else frame
        frame = frame.f_back
    return None


def _tells(frame: FrameType) -> bool:
    """Whether all statements in the frame's line only tell people something, or raise."""
    line = frame.f_lineno
    here = [each for each in _statements(frame.f_code.co_filename) if each.lineno <= line <= _end_of_own(each)]
    return bool(here) and all(map(_is_told, here))


def _end_of_own(statement: ast.stmt) -> int:
    """The last line of a statement, without what stands in its body."""
    body = getattr(statement, "body", None)
    return max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno or statement.lineno


def _is_told(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return isinstance(statement, ast.Raise)
    called = statement.value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _TELLING or name.startswith("_check")


@cache
def _statements(file: str) -> tuple[ast.stmt, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.stmt) and not isinstance(node, kinds))
