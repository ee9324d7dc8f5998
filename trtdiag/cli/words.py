"""Options that are given more than once, or with commas between."""

from __future__ import annotations

from trtdiag.errors import UserError


def listed(given: tuple[str, ...]) -> tuple[str, ...]:
    """``--select GRD,SYM --select TYP401`` as one tuple."""
    return tuple(word.strip() for item in given for word in item.split(",") if word.strip())


def sizes_of(given: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """``--opt h=640,w=480`` as pairs.

    Raises:
        UserError: ``wrong-size``.
    """
    found = []
    for word in listed(given):
        name, _, size = word.rpartition("=")
        if not name.strip() or not size.strip().lstrip("-").isdigit():
            raise UserError(
                f"{word!r} is no size",
                because="a size is asked for as DIM=SIZE, with a whole number",
                fix="write for example --opt h=640",
                reference="wrong-size",
            )
        found.append((name.strip(), int(size)))
    return tuple(found)
