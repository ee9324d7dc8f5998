"""Several programs of ``fix-dims`` in words: what they keep together, and what each one takes."""

from __future__ import annotations

from trtdiag.fixdims.programs import FixedProgram, Several
from trtdiag.report.fix_words import proof_words
from trtdiag.wording import amount, joined, one_line

_LONGEST_CHARS = 300


def together_words(several: Several) -> str:
    """``4 programs together keep 32 of 60 values of n``, or what is offered."""
    count, kept = len(several.programs), several.kept
    share = "more sizes than one" if kept is None else f"{kept[0]:,} of {kept[1]:,} {unit_words(several)}"
    if count == 1:
        return "no other program was found" if several.searched else ""
    if several.searched:
        return f"{count} programs together keep {share}"
    return f"{count} programs would together keep {share}: --programs {count} exports each of them"


def unit_words(several: Several) -> str:
    """What is counted: ``values of n``, ``combinations of h and w``."""
    labels = [one_line(each.label, 60) for each in several.coordinates if not each.follows]
    if len(labels) == 1:
        return f"values of {labels[0]}"
    return f"combinations of {joined(labels)}" if len(labels) < 5 else "combinations"


def program_words(program: FixedProgram, several: Several) -> str:
    """The sizes of one program, and how many no program before it takes."""
    takes = one_line(program.takes_text(several.labels), _LONGEST_CHARS)
    own = None if program.kept is None else program.kept[0]
    if own is None:
        return takes
    adds = "" if program.adds == own or program.adds is None else f", {program.adds:,} of them in no program above"
    return f"{takes}: {own:,}{adds}"


def tried_words(program: FixedProgram) -> str:
    """How far a program was tried."""
    if not program.exported:
        return ""
    parts = [f"{proof_words(program.proof)}; exported"]
    if program.ran_on_data:
        parts.append(f"run on tensors at {amount(len(program.ran_on_data), 'of its sizes', 'of its sizes')}")
    if program.not_on_data:
        parts.append(f"not run {one_line(program.not_on_data[0], _LONGEST_CHARS)}")
    return ", ".join(parts)


def definitions(program: FixedProgram) -> str:
    """The lines that define the Dims of a program; all of its code where there are none."""
    lines = program.code.splitlines()
    named = [line for line in lines if " = " in line and not line.startswith((" ", "dynamic_shapes"))]
    return "\n".join(named) if named else program.code.strip()
