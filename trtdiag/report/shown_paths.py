"""Paths as people read them: from the working directory on, a package's own, and no home folder by its user's name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePath
from typing import Any, TypeAlias

from trtdiag.graph.source import Frame
from trtdiag.wording import one_line

_MOST_UPWARDS = 2
"""Own choice: ``../../nets/model.py`` is still read at a glance."""
_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\](.+)", re.DOTALL)
_TO_PACKAGES = re.compile(r"(?<![^\s(\"'])[/\\][^\s:\"']*[/\\](?:site|dist)-packages[/\\]")
_BEFORE = r"(?:(?<![\w.~/\\-])|(?<=file://))"
_HOMES = r"/home/[^/\s\"':]+|/Users/[^/\s\"':]+|/root|[A-Za-z]:[/\\]Users[/\\][^/\\\s\"':]+"
"""Of whoever exported the program, too, which may have been another user on another machine."""
_AS_WRITTEN = frozenset({"code", "lines", "payload"})
"""Keys of what users wrote, and of the data of the drawing, which are made with short paths."""

_Roots: TypeAlias = tuple[re.Pattern[str], dict[str, str]]


def place(frame: Frame) -> str:
    """``models/raft.py:88``, below the working directory relative to it, ``timm/layers/mlp.py:88`` of a package."""
    return one_line(f"{shown_file(frame.file)}:{frame.line}")


def shown_file(file: str) -> str:
    """A file as ``place`` names it."""
    installed = _INSTALLED.match(file)
    return installed[1] if installed else file_address(file)


def file_address(file: str) -> str:
    """A file by what it is found by from here: ``nets/model.py``, ``../nets/model.py``, ``~/nets/model.py``."""
    pattern, shorter = _roots()
    found = pattern.match(file)
    return file if found is None else shorter.get(found[0], "~/") + file[found.end() :]


def short_paths(text: str) -> str:
    """A text with the paths in it as ``place`` writes them."""
    if "/" not in text and "\\" not in text:
        return text
    if "-packages" in text:
        text = _TO_PACKAGES.sub("", text)
    pattern, shorter = _roots()
    return pattern.sub(lambda found: shorter.get(found[0], "~/"), text)


def with_short_paths(part: Any) -> Any:
    """Plain lists and dicts with every path in their texts as people read it; code stays as it was written."""
    if isinstance(part, str):
        return short_paths(part)
    if isinstance(part, (list, tuple)):
        return [with_short_paths(each) for each in part]
    if isinstance(part, dict):
        return {key: _item(key, each) for key, each in part.items()}
    return part


def _item(key: str, part: Any) -> Any:
    if key in _AS_WRITTEN:
        return part
    return file_address(part) if key == "file" and isinstance(part, str) else with_short_paths(part)


def _roots() -> _Roots:
    try:
        here = os.getcwd()
    except OSError:  # there is no working directory any more
        here = ""
    return _roots_from(here, os.path.expanduser("~"))


@lru_cache(maxsize=64)
def _roots_from(here: str, home: str) -> _Roots:
    """What finds the beginning of a path that is said shorter, and what is said instead; ``~/`` where nothing is."""
    shorter = {folder + os.sep: upwards for folder, upwards in _folders(here, home)}
    own = [home + os.sep] if len(PurePath(home).parts) > 1 else []
    exact = "|".join(map(re.escape, sorted([*shorter, *own], key=len, reverse=True)))
    return re.compile(f"{_BEFORE}(?:{exact}{'|' if exact else ''}(?:{_HOMES})[/\\\\])"), shorter


def _folders(here: str, home: str) -> Iterator[tuple[str, str]]:
    """The working directory and those above it, with how they are written from it."""
    folder, own = PurePath(here), PurePath(home)
    for upwards in range(_MOST_UPWARDS + 1):
        holds_homes = str(folder) in ("/home", "/Users") or (folder != own and own.is_relative_to(folder))
        is_home = folder == own or re.fullmatch(_HOMES, str(folder)) is not None
        shallow = len(folder.parts) < (3 if upwards else 2)  # from ``/opt`` on is nearly the whole path
        if shallow or holds_homes or (is_home and upwards):  # from a home on, ``~`` says it
            return
        yield str(folder), "../" * upwards
        folder = folder.parent
