"""Source lines around a frame, read from the file only where it still is the file that was traced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path, PurePath

from trtdiag.graph.source import Frame
from trtdiag.report.page import Part
from trtdiag.report.shown_paths import place
from trtdiag.wording import one_line, visible

CONTEXT_LINES = 3
_LARGEST_FILE_BYTES = 8 * 2**20
_LONGEST_LINE_CHARS = 400


def source_view(frame: Frame | None, around: int = CONTEXT_LINES) -> Part | None:
    """The frame with lines before and after it; only the recorded line where the file has changed or is gone."""
    if frame is None:
        return None
    return {
        "where": place(frame),
        "function": one_line(frame.function),
        "lines": _lines(frame, around),
    }


def shown_lines(file: str, recorded: Mapping[int, str], wanted: Iterable[int]) -> dict[int, str]:
    """The wanted lines of a file by number, as it indents them; where it is not what was recorded, those alone."""
    text = _file_lines(file)
    if not all(0 < line <= len(text) and text[line - 1].strip() == code.strip() for line, code in recorded.items()):
        return {line: _cut(code.strip()) for line, code in recorded.items()}
    return {line: _cut(text[line - 1].rstrip()) for line in wanted if 0 < line <= len(text)}


def short_place(frame: Frame) -> str:
    """``model.py:41``, for columns that have no room for the whole path."""
    name = PurePath(frame.file.replace("\\", "/")).name
    return one_line(f"{name}:{frame.line}")


def _lines(frame: Frame, around: int) -> list[Part]:
    recorded = frame.code.strip()
    if not recorded:
        return []
    text = _file_lines(frame.file)
    at = frame.line - 1
    if not 0 <= at < len(text) or text[at].strip() != recorded:
        return [{"number": str(frame.line), "text": _cut(recorded), "current": True}]
    first = max(0, at - around)
    window = text[first : at + around + 1]
    last = max(number for number, line in enumerate(window) if line.strip())
    window = window[: last + 1]  # blank lines at the end tell nothing; the line itself is none
    margin = min((len(line) - len(line.lstrip()) for line in window if line.strip()), default=0)
    return [
        {"number": str(number), "text": _cut(line[margin:].rstrip()), "current": number == frame.line}
        for number, line in enumerate(window, first + 1)
    ]


def _cut(line: str) -> str:
    shown = visible(line).replace("\n", " ")
    return shown if len(shown) <= _LONGEST_LINE_CHARS else shown[:_LONGEST_LINE_CHARS] + "…"


def _file_lines(file: str) -> tuple[str, ...]:
    """The file's lines; none for what is no Python file: a program from elsewhere may name any path of this machine."""
    path = Path(file)
    try:
        if path.suffix != ".py" or not path.is_file():
            return ()
        seen = path.stat()
        return () if seen.st_size > _LARGEST_FILE_BYTES else _read_lines(path, seen.st_mtime_ns)
    except (OSError, ValueError):  # unreadable, or a name that no file system takes (an embedded NUL)
        return ()


@lru_cache(maxsize=256)
def _read_lines(path: Path, mtime_ns: int) -> tuple[str, ...]:
    # The time of change is part of the key: a notebook edits a file and analyses again.
    return tuple(path.read_text(encoding="utf-8", errors="replace").expandtabs(4).split("\n"))
