"""Where an error text says a condition comes from: stacks, the lines named after ``Caused by``, torch's own advice."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trtdiag.graph.source import NO_STACK, Frame, Stack, parse_stack

MOST_LINES = 200
"""A stack is looked for in so many lines after a statement, and before it."""

_PLACE = re.compile(r"(?P<file>[\w./\\<>-]{1,400}\.py):(?P<line>\d{1,8}) in (?P<function>[\w<>]{1,200})")
_ADVICE = re.compile(r"^\s*\d\. (?P<code>torch\._check\(.{1,2000}\))\s*$")
_FRAME = re.compile(r'^\s*File "')
# torch shortens its own files to the part behind the folder of the package.
_OWN = re.compile(
    r"(?:_decomp|_dynamo|_export|_functorch|_higher_order_ops|_inductor|_library|_prims|_prims_common|_refs|_subclasses"
    r"|export|fx|nn)/|(?:_ops|_tensor|_meta_registrations|functional|overrides)\.py|utils/_"
)


def _place(line: str) -> tuple[int, Frame] | None:
    """The first ``file.py:7 in forward`` of a line, and where it begins; torch's own files get their folder back."""
    end = line.find(".py:")
    start = max(0, end - 400)
    head = re.search(r"[\w./\\<>-]*$", line[start:end]) if end >= 0 else None
    if head is None:
        return None
    match = _PLACE.match(line, start + head.start())
    if match is None:
        return None
    file = match["file"].replace("\\", "/")
    file = f"site-packages/torch/{file}" if _OWN.match(file) else file
    return match.start(), Frame(file, int(match["line"]), match["function"])


def caused_by(line: str, below: str = "") -> Frame | None:
    """The frame of a line ``Caused by: code  # file.py:7 in forward (...)``, its code from ``below`` if it has none."""
    rest = line[:2000].partition("Caused by:")[2]
    found = _place(rest)
    if found is None:
        return None
    start, frame = found
    code = rest[:start].rstrip("( ").rstrip("# ").strip()
    if not code and below[:1].isspace():
        code = below.strip()[:500]
    return Frame(frame.file, frame.line, frame.function, code)


def named_at(line: str) -> Stack:
    """The place of a log line ``eval ... [guard added] at file.py:6 in fn (...)``."""
    _head, at, rest = line[:20_000].partition("[guard added] at ")
    found = _place(rest) if at else None
    return NO_STACK if found is None else Stack((found[1],))


def stack_in(lines: Sequence[str]) -> Stack:
    """The frames in lines of a traceback."""
    return parse_stack("\n".join(line[:2000] for line in lines[:MOST_LINES]))


def stack_around(lines: Sequence[str], start: int, end: int) -> Stack:
    """The stack of a data-dependent condition stated on line ``start``; what belongs to it ends before ``end``.

    What stands after the statement comes first: the call that raised, the user's stack, the line that caused it.  The
    frames before it are those of the Python traceback, which have the code of a line that the rest only names.
    """
    after = lines[start : min(end, start + MOST_LINES)]
    for heading in ("The following call raised this error", "User Stack", "User stack", "from user code"):
        index = next((i for i, line in enumerate(after) if heading in line), None)
        if index is not None:
            stack = stack_in(_frames_only(after[index + 1 :]))
            if stack.best is not None:
                return stack
    before = stack_in(lines[max(0, start - MOST_LINES) : start])
    for index, line in enumerate(after):
        if "Caused by:" in line:
            frame = caused_by(line, after[index + 1] if index + 1 < len(after) else "")
            if frame is None:
                continue
            same = [f for f in before.frames if f.line == frame.line and f.file.endswith(frame.file.rpartition("/")[2])]
            found = Stack((same[-1] if same and not frame.code else frame,))
            if found.best is not None:
                return found
    return before if before.best is not None else NO_STACK


def _frames_only(lines: Sequence[str]) -> list[str]:
    """Lines up to the first empty one after a frame."""
    kept: list[str] = []
    seen = False
    for line in lines:
        if not line.strip() and seen:
            break
        seen = seen or _FRAME.match(line) is not None
        kept.append(line)
    return kept


def advice_in(lines: Sequence[str]) -> tuple[str, ...]:
    """The ``torch._check`` lines that torch itself offers, in the names of the user's function."""
    after = lines[:MOST_LINES]
    index = next((i for i, line in enumerate(after) if "insert one of the following checks" in line), None)
    if index is None:
        return ()
    found = (_ADVICE.match(line) for line in after[index + 1 : index + 6])
    return tuple(match["code"] for match in found if match is not None)
