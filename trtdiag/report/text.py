"""Words and numbers as a person reads them, and names made harmless to show."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence

from trtdiag.graph.source import Frame

SHOWN_NAME_CHARS = 240
_INDEX = re.compile(r"(?<=\.)[0-9]+(?=\.|$)|^[0-9]+(?=\.|$)")
_KEPT_CONTROLS = "\n\t"
# Other/control, format (bidi marks, zero-width), surrogate, private use, unassigned, line and paragraph separators.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def utf8(text: str) -> str:
    """The text with lone surrogates spelled out, so that it can be written as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def visible(text: str) -> str:
    r"""The text with every character that cannot be seen spelled as an escape (``\x00``, ``\u202e``).

    Bidirectional marks go too: they reorder the words around them.  Line breaks and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(char) for char in text)


def _seen(char: str) -> str:
    if char in _KEPT_CONTROLS or unicodedata.category(char) not in _UNSEEN:
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, limit: int = SHOWN_NAME_CHARS) -> str:
    """The text on one line, unseen characters spelled out, cut in the middle beyond ``limit`` characters."""
    plain = text.isascii() and text.isprintable() and "  " not in text  # nearly every name: nothing to do
    flat = text if plain else visible(" ".join(text.split()))
    if len(flat) <= limit:
        return flat
    head = (limit * 2) // 3
    return f"{flat[:head]}…{flat[head - limit + 1 :]}"


def place(frame: Frame) -> str:
    """``models/raft.py:88``, below the working directory relative to it."""
    folder = os.getcwd()
    below = frame.file.startswith(folder + os.sep)
    return one_line(f"{os.path.relpath(frame.file, folder) if below else frame.file}:{frame.line}")


def amount(number: int, word: str, plural: str = "") -> str:
    """``1 error``, ``2 errors``, ``1,200 boxes``."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def joined(words: Sequence[str], last: str = "and") -> str:
    """``h``, ``h and w``, ``b, h and w``."""
    return f" {last} ".join([", ".join(words[:-1]), *words[-1:]] if len(words) > 1 else words)


def dtype_text(dtype: object) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def bytes_text(number: int | None) -> str:
    """``12.3 MiB``; ``no maximum`` for ``None``."""
    if number is None:
        return "no maximum"
    if number < 1024:
        return f"{number} B"
    size = float(number)
    units = ("KiB", "MiB", "GiB", "TiB", "PiB")
    step = min(len(units), (number.bit_length() - 1) // 10)
    return f"{size / 1024**step:,.1f} {units[step - 1]}"


def seconds_text(seconds: float) -> str:
    """``4 ms``, ``0.35 s``, ``12.1 s``."""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.1f} s"


def share_text(kept: tuple[int, int] | None) -> str:
    """``254 of 2,026 values``; empty for ``None``."""
    if kept is None:
        return ""
    return f"{kept[0]:,} of {amount(kept[1], 'value')}"


def values_text(values: Mapping[str, int]) -> str:
    """``h = 137, w = 8``."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def starred(paths: Sequence[str]) -> list[str]:
    """Module paths with their indices as stars, the most frequent first: ``layers.*.attn (32 times)``."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(_INDEX.sub("*", path), []).append(path)
    told = []
    for pattern, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        name = found[0] if len(set(found)) == 1 else pattern
        told.append(name if len(found) == 1 else f"{name} ({len(found):,} times)")
    return told
