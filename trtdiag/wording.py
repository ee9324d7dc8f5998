"""How everything that people read says counts, lists, sizes, values and names, and names made harmless to show."""

from __future__ import annotations

import difflib
import os
import re
import reprlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from trtdiag.grouping import grouped

SHOWN_NAME_CHARS = 240
LONG_CHARS = 400
"""Of a sentence, which has more room than a name."""
_INDEX = re.compile(r"(?<=\.)[0-9]+(?=\.|$)|^[0-9]+(?=\.|$)")
_OF_DIM = re.compile(r"\.shape\[([0-9]+)\]$")
_KEPT_CONTROLS = "\n\t"
# Other/control, format (bidi marks, zero-width), surrogate, private use, unassigned, line and paragraph separators.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 60
_WRITTEN_OUT = (bool, int, float, str, bytes, os.PathLike, list, tuple, set, frozenset, dict)


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


def amount(number: int, word: str, plural: str = "") -> str:
    """``1 error``, ``2 errors``, ``1,200 boxes``."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def joined(words: Sequence[str], last: str = "and") -> str:
    """``h``, ``h and w``, ``b, h and w``."""
    return f" {last} ".join([", ".join(words[:-1]), *words[-1:]] if len(words) > 1 else words)


def listed(items: Sequence[str], most: int = 5) -> str:
    """The first ``most`` items, and how many more there are."""
    shown = ", ".join(items[:most])
    return f"{shown} and {len(items) - most:,} more" if len(items) > most else shown


def shortened(text: str, most: int = 120) -> str:
    """The text for a headline: cut in the middle where it is long; the evidence holds the whole."""
    half = (most - 5) // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def first_line(error: BaseException, otherwise: str = "") -> str:
    """The first line of an error's words; of one without words its type, where nothing else is said."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else otherwise or type(error).__name__


def identifier(name: str) -> str:
    """A Python identifier for a user's name (``x.shape[2]`` -> ``x_dim2``, as torch and ``fix_dims`` call it)."""
    of_dim = _OF_DIM.search(name)
    plain, dim = (name, "") if of_dim is None else (name[: of_dim.start()], f"_dim{of_dim[1]}")
    word = re.sub(r"\W+", "_", plain).strip("_") + dim
    return word if word.isidentifier() else f"dim_{word}"


def dtype_text(dtype: object) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def bytes_text(number: int | None, otherwise: str = "no maximum") -> str:
    """``12.3 MiB``; ``otherwise`` for ``None``."""
    if number is None:
        return otherwise
    if number < 1024:
        return f"{number} B"
    size = float(number)
    units = ("KiB", "MiB", "GiB", "TiB", "PiB")
    step = min(len(units), (number.bit_length() - 1) // 10)
    return f"{size / 1024**step:,.1f} {units[step - 1]}"


def sized(byte_count: int | None, otherwise: str = "no maximum") -> str:
    """Bytes as findings say them, in units up to TiB: ``512 bytes``, ``17.0 GiB``; ``otherwise`` for ``None``."""
    if byte_count is None:
        return otherwise
    if byte_count < 1024:
        return f"{byte_count} bytes"
    amount = float(byte_count)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1024:,.1f} TiB"


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
    groups = grouped((_INDEX.sub("*", path), path) for path in paths)
    told = []
    for pattern, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        name = found[0] if len(set(found)) == 1 else pattern
        told.append(name if len(found) == 1 else f"{name} ({len(found):,} times)")
    return told


def near(word: str, known: Iterable[str], *, most: int = 3, alike: float = 0.6) -> tuple[str, ...]:
    """Those of the known names that a misspelt one may mean, the nearest first; upper and lower case are one.

    Args:
        word: What was written.
        known: The names.
        most: How many at most.
        alike: How much of both must agree, from 0 to 1; the default is that of ``difflib``.
    """
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word[:200].lower(), list(by_lower), n=most, cutoff=alike)
    return tuple(by_lower[name] for name in found)


def shown(value: object) -> str:
    """A value in an error: short, and whatever it is."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, int) and value.bit_length() > 63:
        return f"a number of {value.bit_length()} bits"  # Python refuses to write out very long ones
    if value is None or isinstance(value, _WRITTEN_OUT):
        with suppress(ValueError):  # a number inside is too long
            return _SHOWN.repr(value)
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    return one_of_type(value)


def one_of_type(value: object) -> str:
    """``an int``."""
    kind = type(value).__name__
    return f"{article(kind)} {kind}"


def told_name(name: str) -> str:
    """A name in a text of ours: as it is where it is short and can be printed, else as Python writes it, and cut."""
    return name if len(name) <= _SHOWN.maxstring and name.isprintable() else shown(name)


def article(name: str) -> str:
    """``a`` or ``an``, whichever goes before a name."""
    return "an" if name[:1].lower() in "aeiou" else "a"
