"""Options that are given more than once, or with commas between."""

from __future__ import annotations

import re

from trtdiag.errors import UserError

_SIZE = re.compile(r"[+-]?[0-9]{1,18}")
"""Of fewer digits than the integers of 64 bits that tensors count with; ASCII, for 5² is no size."""
_SHOWN = 60


def listed(given: tuple[str, ...]) -> tuple[str, ...]:
    """``--select GRD,SYM --select TYP401`` as one tuple."""
    return tuple(word.strip() for item in given for word in item.split(",") if word.strip())


def sizes_of(given: tuple[str, ...], option: str = "--opt") -> tuple[tuple[str, int], ...]:
    """``--opt h=640,w=480`` as pairs.

    Raises:
        UserError: ``wrong-size``.
    """
    found = []
    for word in listed(given):
        name, _, size = word.rpartition("=")
        if not name.strip() or not _SIZE.fullmatch(size.strip()):
            shown = word if len(word) <= _SHOWN else f"{word[:_SHOWN]}..."
            raise UserError(
                f"{option}: {shown!r} is no size",
                because="a size is asked for as DIM=SIZE, with a whole number of at most 18 digits",
                fix=f"write for example {option} h=640",
                reference="wrong-size",
            )
        found.append((name.strip(), int(size)))
    return tuple(found)
