"""Python branches that sizes decide: what to write in their place, and which do nothing but refuse."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from trtdiag.dims.plan import Leaf, LeafKind
from trtdiag.fixdims.fix import BRANCH, PYTHON, Reason
from trtdiag.graph.source import Frame, syntax_nodes

REFUSAL = re.compile(r"\s*(assert\b|raise\b|torch\._check)")
"""A line that only refuses."""
# Whether a size is a multiple, as it is asked before padding: n % 8, -n % 8, 8*ceil(n / 8), 8*(n // 8).
_REST = re.compile(r"-?(?P<name>[^\s()]+) % (?P<step>\d+) \S+ \d+")
_ROUNDED = re.compile(
    r"(?P<name>[^\s()]+) \S+ (?P<step>\d+)\*(?:ceil\((?P=name) / (?P=step)\)|\((?P=name) // (?P=step)\))(?: - 1)?"
)
_PADS = re.compile(r"\w*pad\w*\(|\b(?:new_)?zeros\(")


def one_path(reason: Reason, frame: Frame) -> str | None:
    """Both ways of a branch in the program."""
    code = frame.code.strip()
    if reason.by != PYTHON or REFUSAL.match(code) or not BRANCH.match(code):
        return None
    return f"take the branch at {frame} out of Python (torch.where, torch.cond, or one path for all sizes): {code}"


def always_padded(reason: Reason, frame: Frame, after: Leaf) -> str | None:
    """Padding without its ``if``, which asks for it where something is missing."""
    match = _REST.fullmatch(reason.text) or _ROUNDED.fullmatch(reason.text)
    if match is None or reason.by != PYTHON or not _pads(frame):
        return None
    if frame.package is not None and after.kind is LeafKind.DIM and after.offset % after.scale == 0:
        return None  # padding the input to what is a multiple needs no other library
    amount = f"-{match['name']} % {match['step']}"
    return f"pad without the if at {frame}, by {amount}, which is 0 where nothing is missing: {frame.code.strip()}"


def _pads(frame: Frame) -> bool:
    """Whether an ``if`` that is asked in this line does no more than pad."""
    for node in syntax_nodes(frame.file):
        if isinstance(node, ast.If) and node.test.lineno <= frame.line <= (node.test.end_lineno or 0):
            return not node.orelse and any(_PADS.search(ast.unparse(each)) for each in node.body)
    return False


def only_refuses(frame: Frame | None) -> bool:
    """Whether the line is an ``assert``, or an ``if`` one side of which ends in ``raise``.

    An export that came through went the other way: the side that it did not take is the one that raises.
    """
    if frame is None:
        return False
    return any(first <= frame.line <= last for first, last in _refusing_lines(frame.file))


@lru_cache(maxsize=256)
def _refusing_lines(file: str) -> tuple[tuple[int, int], ...]:
    """From which line to which the tests of such statements go."""
    found = []
    for node in syntax_nodes(file):
        raises = isinstance(node, ast.Assert) or (
            isinstance(node, ast.If)
            and any(side and isinstance(side[-1], ast.Raise) for side in (node.body, node.orelse))
        )
        if raises and isinstance(node, ast.Assert | ast.If):
            found.append((node.test.lineno, node.test.end_lineno or node.test.lineno))
    return tuple(found)
