"""Source lines: stack traces of graph nodes, read, interned, and split into the user's frames and the others."""

from __future__ import annotations

import re
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath

_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$')
_STDLIB = str(PurePath(sysconfig.get_paths()["stdlib"]))
_PACKAGES = ("site-packages", "dist-packages")


@lru_cache(maxsize=4096)
def _package(file: str) -> str | None:
    parts = PurePath(file.replace("\\", "/")).parts
    for index, part in enumerate(parts[:-1]):
        if part in _PACKAGES:
            return parts[index + 1].removesuffix(".py")
    if file.startswith((_STDLIB, "<")):
        return "python"
    # A source checkout or a foreign machine's stdlib: recognise the folders that torch itself is made of.
    return "torch" if "/torch/nn/" in file or "/torch/_" in file else None


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack: ``file``, ``line`` (from 1), ``function`` and the text of the line, if known."""

    file: str
    line: int
    function: str = ""
    code: str = ""

    @property
    def package(self) -> str | None:
        """The installed package that the file belongs to (``torch``, ``transformers``), ``None`` for a user's file."""
        return _package(self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack of frames, outermost first, as torch records it for a node."""

    frames: tuple[Frame, ...]

    @property
    def user(self) -> Frame | None:
        """The innermost frame in a file that belongs to no installed package."""
        return next((f for f in reversed(self.frames) if f.package is None), None)

    @property
    def best(self) -> Frame | None:
        """The user's frame; else the innermost outside torch and Python (a model library's line); else ``None``."""
        library = (f for f in reversed(self.frames) if f.package not in ("torch", "python"))
        return self.user or next(library, None)


NO_STACK = Stack(())


@lru_cache(maxsize=65536)
def parse_stack(text: str) -> Stack:
    """Read the ``stack_trace`` text of a node.

    Llama with 32 layers has 2.8 MB of trace text but 47 distinct traces: the cache makes them one object each.
    """
    frames: list[Frame] = []
    for line in text.splitlines():
        match = _FRAME.match(line)
        if match:
            frames.append(Frame(match["file"], int(match["line"]), match["function"]))
        elif frames and not frames[-1].code and line.strip() and set(line.strip()) - set("^~"):
            last = frames[-1]
            frames[-1] = Frame(last.file, last.line, last.function, line.strip())
    return Stack(tuple(frames)) if frames else NO_STACK
