"""How everything that people read says counts, lists, sizes and names, and names made harmless to show."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

SHOWN_NAME_CHARS = 240
LONG_CHARS = 400
"""Of a sentence, which has more room than a name."""
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


def first_line(error: BaseException, otherwise: str = "") -> str:
    """The first line of an error's words; of one without words its type, where nothing else is said."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else otherwise or type(error).__name__


def identifier(name: str) -> str:
    """A Python identifier for a user's name of a dim (``x.shape[2]`` -> ``x_shape_2``)."""
    word = re.sub(r"\W+", "_", name).strip("_")
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
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(_INDEX.sub("*", path), []).append(path)
    told = []
    for pattern, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        name = found[0] if len(set(found)) == 1 else pattern
        told.append(name if len(found) == 1 else f"{name} ({len(found):,} times)")
    return told
