"""Caches what dataclasses and named tuples compile, as Python caches what it compiles of modules (ADR 49).

Each such class is made from texts, which are compiled whenever its module is imported.  A command imports a thousand of
them, most of torch's and ours: to compile their texts takes a tenth of the start.  The texts are the same each time.

A command does this to its own process; a process that merely imports trtdiag is let alone.
"""

from __future__ import annotations

import atexit
import builtins
import collections
import dataclasses
import marshal
import sys
import zlib
from contextlib import suppress
from importlib.util import MAGIC_NUMBER, cache_from_source
from types import CodeType
from typing import Any

_KINDS = {"exec": dataclasses, "eval": collections}
"""The function by which each of them runs a text, found there before the builtin one of that name."""
_MOST_BYTES = 1 << 23
_SUM_BYTES = 4


def cache_class_code() -> None:
    """Take what an earlier command compiled, and keep what this one does, in ``__pycache__`` beside this file."""
    place = cache_from_source(__file__.replace("class_code_cache", "compiled_classes"))
    kept = _ClassCode(_read(place))
    for kind, module in _KINDS.items():
        setattr(module, kind, kept.runner(kind))
    if not sys.dont_write_bytecode:
        atexit.register(kept.write, place)


class _ClassCode:
    """Texts that were compiled.

    Args:
        known: By text and kind of text, what it was compiled to, as ``marshal`` writes it.
    """

    def __init__(self, known: dict[tuple[str, str], bytes]) -> None:
        self._known = known
        self._new: dict[tuple[str, str], CodeType] = {}

    def runner(self, kind: str) -> Any:
        """``exec`` or ``eval`` for texts with the scopes that they run in, which compiles each text once."""
        run = getattr(builtins, kind)

        def called(text: Any, *scopes: Any) -> Any:
            if type(text) is not str or not scopes:  # without scopes it means those of its caller
                return run(text, *scopes)
            kept = self._known.get((text, kind))
            if kept is not None:
                return run(marshal.loads(kept), *scopes)
            code = self._new.get((text, kind))
            if code is None:
                code = self._new[text, kind] = compile(text, "<string>", kind, dont_inherit=True)
            return run(code, *scopes)

        return called

    def write(self, place: str) -> None:
        """Keep all of them for the next command, if there are new ones and it can be written."""
        if not self._new:
            return
        from pathlib import Path

        from trtdiag.files.atomic_write import write_entry

        content = marshal.dumps({**self._known, **{key: marshal.dumps(code) for key, code in self._new.items()}})
        if len(content) <= _MOST_BYTES:
            with suppress(OSError):
                Path(place).parent.mkdir(parents=True, exist_ok=True)
                write_entry(Path(place), [MAGIC_NUMBER, zlib.crc32(content).to_bytes(_SUM_BYTES, "big"), content])


def _read(place: str) -> dict[tuple[str, str], bytes]:
    """What is kept there; nothing where it is damaged, or of another Python."""
    try:
        with open(place, "rb") as file:
            head, content = file.read(len(MAGIC_NUMBER) + _SUM_BYTES), file.read()
    except OSError:
        return {}
    if head != MAGIC_NUMBER + zlib.crc32(content).to_bytes(_SUM_BYTES, "big"):
        return {}
    found = marshal.loads(content)
    return found if isinstance(found, dict) else {}
