"""What to write in the place of a Python branch that sizes decide."""

from __future__ import annotations

import ast
import re

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
