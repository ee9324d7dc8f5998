"""Whether the other side of a Python condition does nothing but refuse: no program can come of it."""

from __future__ import annotations

import ast
import linecache
import os
import stat
from functools import lru_cache

from trtdiag.graph.source import Frame

_LARGEST_BYTES = 8 * 2**20


def only_refuses(frame: Frame | None) -> bool:
    """Whether the line is an ``assert``, or an ``if`` one side of which ends in ``raise``.

    An export that came through went the other way: the side that it did not take is the one that raises.
    """
    if frame is None:
        return False
    return any(first <= frame.line <= last for first, last in _refusing_lines(frame.file))


def _source(file: str) -> str:
    """The text of a Python file; nothing of what is no file: a saved program may name any place of this machine."""
    try:
        seen = os.stat(file)
    except (OSError, ValueError):  # a cell of a notebook has lines, and no file
        return "".join(linecache.getlines(file))
    regular = stat.S_ISREG(seen.st_mode) and seen.st_size <= _LARGEST_BYTES
    return "".join(linecache.getlines(file)) if regular else ""


@lru_cache(maxsize=256)
def _refusing_lines(file: str) -> tuple[tuple[int, int], ...]:
    """From which line to which the tests of such statements go."""
    try:
        tree = ast.parse(_source(file))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found = []
    for node in ast.walk(tree):
        raises = isinstance(node, ast.Assert) or (
            isinstance(node, ast.If)
            and any(side and isinstance(side[-1], ast.Raise) for side in (node.body, node.orelse))
        )
        if raises and isinstance(node, ast.Assert | ast.If):
            found.append((node.test.lineno, node.test.end_lineno or node.test.lineno))
    return tuple(found)
