"""Source lines: stack traces of graph nodes, read, interned, and split into the user's frames and the others."""

from __future__ import annotations

import ast
import linecache
import os
import re
import stat
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePath

_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$')
_STDLIB = str(PurePath(sysconfig.get_paths()["stdlib"]))
_PACKAGES = ("site-packages", "dist-packages")
OWN = "trtdiag"
_HERE = Path(__file__).parents[1]
_PLUMBING = ("torch", "numpy", "sympy", "python", OWN)
_LARGEST_BYTES = 8 * 2**20


@lru_cache(maxsize=4096)
def _package(file: str) -> str | None:
    parts = PurePath(file.replace("\\", "/")).parts
    start = _installed(parts)
    if start:
        return parts[start].removesuffix(".py")
    for index, part in enumerate(parts[:-1]):
        # A checkout of this package, here or on another machine: its folder with a file that this package has.
        if part == OWN and _HERE.joinpath(*parts[index + 1 :]).is_file():
            return OWN
    if file.startswith((_STDLIB, "<")):
        return "python"
    # A source checkout or a foreign machine's stdlib: recognise the folders that torch itself is made of.
    return "torch" if "/torch/nn/" in file or "/torch/_" in file else None


def _installed(parts: Sequence[str]) -> int:
    """Where in a file's path the name of an installed package stands; 0 where none does."""
    for index, part in enumerate(parts[:-1]):
        if part in _PACKAGES:
            return index + 1
    own = _install_folders(tuple(sys.path[1:]))
    return next((len(folder) for folder in own if parts[: len(folder)] == folder and len(parts) > len(folder)), 0)


@lru_cache(maxsize=8)
def _install_folders(searched: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Folders of other names that packages were installed into, as by ``pip install --target``: those that say so."""
    found = []
    for each in searched:
        folder = Path(each)
        if folder.name not in _PACKAGES and folder.is_absolute() and any(folder.glob("*.dist-info")):
            found.append(folder.parts)
    return tuple(found)


@lru_cache(maxsize=4096)
def _is_launcher(file: str) -> bool:
    """Whether a file is what an installer writes to start a command: ``bin/pytest``, ``Scripts/pytest.exe``."""
    parts = PurePath(file.replace("\\", "/")).parts
    starts = any(part in ("bin", "Scripts") for part in parts[-3:-1])
    return starts and ("." not in parts[-1] or any(part.endswith((".exe", "-script.py")) for part in parts[-2:]))


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack.

    Attributes:
        file: The file.
        line: From 1.
        function: The function's name, ``<module>`` outside all.
        code: The text of the line, if known.
        inside: For a line of the user's that calls into a model library: the innermost line there.
    """

    file: str
    line: int
    function: str = ""
    code: str = ""
    inside: Frame | None = field(default=None, compare=False, repr=False)

    @property
    def package(self) -> str | None:
        """The installed package that the file belongs to (``torch``, ``transformers``), ``None`` for a user's file.

        What an installer writes to start a command counts as Python's.
        """
        if self.function == "<module>" and _is_launcher(self.file):
            return "python"
        return _package(self.file)

    @property
    def is_plumbing(self) -> bool:
        """Whether it is a line of torch, NumPy, sympy, Python or this package: of none that a model is written in."""
        return self.package in _PLUMBING

    @property
    def short(self) -> str:
        """``transformers/modeling_utils.py:88`` for a line of an installed package, else the whole place."""
        parts = PurePath(self.file.replace("\\", "/")).parts
        start = _installed(parts)
        return f"{'/'.join(parts[start:]) if start else self.file}:{self.line}"

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
    def library(self) -> Frame | None:
        """The innermost frame in an installed package that is neither torch nor this one: a model library's line."""
        return next((f for f in reversed(self.frames) if f.package is not None and not f.is_plumbing), None)

    @property
    def best(self) -> Frame | None:
        """The user's frame, with the library's line that it leads to ``inside``; else the library's; else ``None``."""
        library = self.library
        user = self.user
        if user is None or library is None or self.frames.index(library) < self.frames.index(user):
            return user or library
        return replace(user, inside=library)

    @property
    def asks_for_layout(self) -> bool:
        """Whether torch asked at its end how a tensor lies in memory: it goes on whatever the answer is."""
        asking = self.frames[-1].function if self.frames else ""
        # The second gives a fake tensor the sizes and strides that it had in an earlier call.
        return "contiguous" in asking or asking == "_get_output_tensor_from_cache_entry"


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


def source_text(file: str) -> str:
    """The text of a Python file; nothing of what is no file: a saved program may name any place of this machine."""
    try:
        seen = os.stat(file)
    except (OSError, ValueError):  # a cell of a notebook has lines, and no file
        return "".join(linecache.getlines(file))
    regular = stat.S_ISREG(seen.st_mode) and seen.st_size <= _LARGEST_BYTES
    return "".join(linecache.getlines(file)) if regular else ""


@lru_cache(maxsize=4)  # a tree takes a hundred times the memory of its text
def syntax_nodes(file: str) -> tuple[ast.AST, ...]:
    """All nodes of the syntax tree of a Python file; none where it cannot be read."""
    try:
        return tuple(ast.walk(ast.parse(source_text(file))))
    except (SyntaxError, ValueError, RecursionError):
        return ()
