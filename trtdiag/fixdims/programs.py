"""Several programs in the place of one: what each declares, and which sizes it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.export import ExportedProgram

from trtdiag.dims.plan import Plan
from trtdiag.errors import DimsError
from trtdiag.fixdims.several_programs.coordinates import Coordinate
from trtdiag.grouping import grouped
from trtdiag.symbolic import Proof, all_of, free_symbols, holds, to_text
from trtdiag.symbolic.expr import Condition


@dataclass(frozen=True)
class FixedProgram:
    """One of several programs.

    Attributes:
        plan: What it is exported with, other example sizes included.
        dynamic_shapes: The same for ``torch.export.export``.
        code: The same as Python.
        takes: The sizes that it takes: conditions on the names of the ``Coordinate``s, all of which must hold.
        kept: Asked combinations that it takes, and how many were asked for; ``None`` where not counted.
        adds: How many of them none of the programs before it takes.
        proof: That every size which it admits satisfies every condition that its export recorded.
        exported: Whether its export passed; ``None`` where it was solved from the conditions of another export.
        ran: Sizes at which it was run on shapes, ``ran_on_data`` and ``not_on_data`` as of ``Confirmation``.
        args: Example inputs of the sizes that ``plan`` names.
        kwargs: The same by keyword.
    """

    plan: Plan
    dynamic_shapes: Any
    code: str
    takes: tuple[Condition, ...]
    kept: tuple[int, int] | None
    adds: int | None
    proof: Proof
    exported: bool | None
    ran: tuple[str, ...] = ()
    ran_on_data: tuple[str, ...] = ()
    not_on_data: tuple[str, ...] = ()
    args: tuple[Any, ...] | None = field(default=None, repr=False)
    kwargs: dict[str, Any] | None = field(default=None, repr=False)
    make_program: Callable[[], ExportedProgram] | None = field(default=None, repr=False, compare=False)

    def takes_text(self, names: Mapping[str, str] | None = None) -> str:
        """``takes`` in Python, tied sizes last; ``names`` says what to write for a coordinate."""
        groups = grouped((free_symbols(condition), condition) for condition in self.takes)
        ordered = sorted(groups.items(), key=lambda group: len(group[0]))  # stable: coordinates in their own order
        return " and ".join(to_text(all_of(conditions), names) for _, conditions in ordered) or "True"

    @property
    def program(self) -> ExportedProgram:
        """The exported program; the export runs when this is asked for.

        Raises:
            DimsError: There is no model at hand, or this declaration was solved and never exported.
        """
        if self.make_program is None or not self.exported:
            raise DimsError(
                "this declaration was not exported",
                because="it was solved from the conditions of another export, whose example goes another way",
                fix="ask for exports: --programs 4, or fix_dims(..., programs=4)",
                reference="fix-without-program",
            )
        return self.make_program()


@dataclass(frozen=True)
class Several:
    """Programs that together take more of the asked sizes than the single answer.

    Attributes:
        coordinates: The sizes that can be chosen, by the names that ``takes`` uses.
        programs: The single answer first, then what adds most.  Sizes that several take go to the first of them.
        kept: Asked combinations that one of them takes, and how many were asked for; ``None`` where not counted.
        searched: Whether each was exported; otherwise they are an offer.
        notes: What was not looked at, in sentences.
    """

    coordinates: tuple[Coordinate, ...]
    programs: tuple[FixedProgram, ...]
    kept: tuple[int, int] | None
    searched: bool
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> dict[str, str]:
        """Coordinate -> what the user calls it."""
        return {each.name: each.label for each in self.coordinates}

    def program_for(self, sizes: Mapping[str, int]) -> int | None:
        """The index of the first program that takes ``sizes`` (by the names of the coordinates); ``None``: none does.

        Raises:
            KeyError: A size is missing.
        """
        taking = (all(holds(condition, sizes) for condition in program.takes) for program in self.programs)
        return next((index for index, takes in enumerate(taking) if takes), None)


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
