"""Which program takes which sizes, as a few lines of Python."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.fixdims.programs import Several


def routing_code(several: Several, files: Sequence[str]) -> str:
    """A function from sizes to the file of the first program that takes them; it needs no import.

    Args:
        several: The programs.
        files: What to call them, in the same order.
    """
    names = [each.name for each in several.coordinates]
    lines = [f"def program_for({', '.join(names)}):"]
    lines += [f"    # {each.name} = {each.code}" for each in several.coordinates]
    for program, file in zip(several.programs, files, strict=True):
        lines += [f"    if {program.takes_text()}:", f"        return {file!r}"]
    asked = ", ".join(f"{name} = {{{name}}}" for name in names)
    lines.append(f'    raise ValueError(f"no program takes {asked}")')
    return "\n".join(lines) + "\n"
