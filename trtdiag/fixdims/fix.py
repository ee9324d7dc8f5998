"""The answer of ``fix_dims``: what to declare, why, what is lost, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from torch.export import ExportedProgram

from trtdiag.dims.plan import Plan
from trtdiag.errors import DimsError
from trtdiag.fixdims.programs import FixedProgram, Several
from trtdiag.graph.source import NO_STACK, Stack
from trtdiag.symbolic.proof import Proof
from trtdiag.wording import shown, told_name


class Outcome(Enum):
    """How it ended."""

    UNCHANGED = "unchanged"  # the asked dims export, and the program takes every size they admit
    CHANGED = "changed"  # other dims are suggested
    IMPOSSIBLE = "impossible"  # no dims can do it; conflicts, checks or notes say why


@dataclass(frozen=True)
class Reason:
    """One condition of the program behind a change.

    Attributes:
        text: In the user's names, Python syntax (``(h - 1) % 8 != 0``).
        stack: Where it comes from, ``NO_STACK`` where that is lost.
        by: What asked for it: ``a Python condition``, an op (``aten.view.default``), ``torch.export`` (0 and 1 are
            taken for constants), ``the asked range``, or empty where not known.
        counterexample: Smallest asked sizes that break it, as ``h = 137``; empty where none was looked for.
    """

    text: str
    stack: Stack = NO_STACK
    by: str = ""
    counterexample: str = ""


OP = "an op"
"""What a reason is ``by`` where torch does not say which op asked."""
PYTHON = "a Python condition"
"""The same where the code itself asked."""
TRACING = "tracing"
"""The same where torch does not trace the model with the dim."""
BRANCH = re.compile(r"\s*(if|elif|while)\b|.* if .* else ")
"""A line of code that goes two ways."""
_MOST_TOLD = 4
ALLOWED = "allowed by the guards, but no single Dim says it"
"""The note of the alternative that is the exact allowed set."""


class Refuted(Enum):
    """What a run of the exported program showed: how the note of a confirmation begins then."""

    SIZES = "the exported program refuses sizes that it admits"
    MODEL = "the exported program does something else than the model"


@dataclass(frozen=True)
class Alternative:
    """Something else that could be declared, or a change of the model.

    Attributes:
        text: ``h % 8 == 0``, ``pad x to a multiple of 8 in h and w before the model``.
        kept: Values of the requested ones it keeps, and of how many; ``None`` where unbounded or not counted.
        note: Why it is no more than an alternative (``ALLOWED``, ``needs another example``).
    """

    text: str
    kept: tuple[int, int] | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What changes at one dim, or at dims that change together.

    Attributes:
        sites: The input dims (``x.shape[2]``).
        name: What to call them: the user's ``Dim`` name, else the first site.
        before: What was declared there (``h: 135..2160``).
        after: What to declare (``8*_h, _h: 17..270``).
        kind: ``range``, ``multiple``, ``shared``, ``related``, ``static``, ``example``, ``hint``, ``bound``.
        why: The conditions behind it, causes first.
        kept: Requested values that stay and how many were requested; ``None`` where unbounded.
        lost: What is lost, in words (``h in {0..134}``, ``every h that is no multiple of 8: 1772 of 2026 values``);
            empty where nothing is.
        allowed: The exact set that the guards allow, in words; empty where it is what ``after`` says.
        alternatives: Other declarations, best first.
        model_change: What to change in the model or before it to keep more; ``None`` where nothing helps.
        proof: That every size that ``after`` admits satisfies all conditions on these dims.
    """

    sites: tuple[str, ...]
    name: str
    before: str
    after: str
    kind: str
    why: tuple[Reason, ...]
    kept: tuple[int, int] | None = None
    lost: str = ""
    allowed: str = ""
    alternatives: tuple[Alternative, ...] = ()
    model_change: Alternative | None = None
    proof: Proof


@dataclass(frozen=True)
class DataCheck:
    """A check on a size that only data decides, to be written into the model.

    Attributes:
        code: ``torch._check(n != 1)``, in the names of the user's function where they are known.
        where: The user's line before which it belongs.
        condition: As torch states it (``Eq(u0, 1)``).
        confirmed: Whether the export passed with this condition assumed.
        note: What it assumes of the data (``true of the example: n is 7``).
    """

    code: str
    where: Stack
    condition: str
    confirmed: bool
    note: str = ""


@dataclass(frozen=True)
class UnreadCondition:
    """A condition that could not be read: its text and why.  With one of these nothing is called proven.

    ``read`` is true of one that was read and is not solved for.
    """

    text: str
    why: str
    read: bool = False


@dataclass(frozen=True)
class ConflictSet:
    """A smallest set of conditions that no sizes satisfy together."""

    reasons: tuple[Reason, ...]
    ranges: tuple[str, ...]
    proof: Proof


@dataclass(frozen=True)
class Confirmation:
    """How far the suggestion was tried.

    Attributes:
        exported: Whether the export passed with it, and no run of its program failed or gave something else than the
            model; ``None`` where there is no model at hand.
        rounds: How many exports it took.
        ran: Sizes at which the exported program was run on shapes alone (fake tensors), as ``h = 136, w = 136``: the
            smallest, the largest, then others.
        ran_on_data: Sizes at which it was run on tensors.
        not_on_data: Sizes at which it was not, or why it was not at all; where it failed for what the inputs held, so
            that nothing is known of the sizes.
        note: What was not tried, and why; empty where nothing is open.
        refuted: What a run showed where the export passed and ``exported`` is false.
    """

    exported: bool | None
    rounds: int = 0
    ran: tuple[str, ...] = ()
    note: str = ""
    ran_on_data: tuple[str, ...] = ()
    not_on_data: tuple[str, ...] = ()
    refuted: Refuted | None = None


@dataclass(frozen=True, repr=False)
class Fix:
    """Corrected dims with their reasons, proof and confirmation.

    Attributes:
        label: The source as the user named it.
        source: ``factory``, ``live``, ``file`` or ``text``.
        outcome: Whether anything changes, or nothing helps.
        plan: What to declare, as plain values.
        dynamic_shapes: What to give to ``torch.export.export``, in the structure that was asked with.
        code: Python that defines the Dims and ``dynamic_shapes``: to be pasted, or imported.
        asked_code: The same for what was asked, empty where that is not known.
        changes: What differs from what was asked, and why.
        proof: That every size which the suggestion admits satisfies every condition that was read; its kind is NONE
            where a condition was not read or not decided.
        confirmation: How far it was tried.
        unread: Conditions that could not be read.
        conflicts: Why no sizes can satisfy the program, where that is so.
        checks: ``torch._check`` lines that the model needs.
        notes: Whatever else the reader should know, in sentences.
        failure: torch's own words where the export failed in a way that no dims mend; empty otherwise.
        several: Programs that together take more of the asked sizes than this one; ``None`` where there are none.
        others: Answers to the other errors of a text that has several, in their order; this is that to the first.
    """

    label: str
    source: str
    outcome: Outcome
    plan: Plan
    dynamic_shapes: Any
    code: str
    asked_code: str
    changes: tuple[Change, ...]
    proof: Proof
    confirmation: Confirmation
    unread: tuple[UnreadCondition, ...] = ()
    conflicts: tuple[ConflictSet, ...] = ()
    checks: tuple[DataCheck, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str = ""
    several: Several | None = None
    others: tuple[Fix, ...] = ()
    args: tuple[Any, ...] | None = field(default=None, repr=False)
    kwargs: dict[str, Any] | None = field(default=None, repr=False)
    make_program: Callable[[], ExportedProgram] | None = field(default=None, repr=False, compare=False)

    # Set by trtdiag.report.fix_notebook: this package stands above the reports and does not import them.
    html_of: ClassVar[Callable[[Fix], str] | None] = None
    text_of: ClassVar[Callable[[Fix], str] | None] = None

    def _repr_html_(self) -> str | None:
        show = type(self).html_of
        return None if show is None else show(self)

    def __repr__(self) -> str:
        exported = self.confirmation.exported
        told = "not exported" if exported is None else "exported" if exported else "not confirmed by an export"
        proven = "proven" if self.proven else "not proven"
        lines = [f"Fix(label={shown(self.label)}, {self.outcome.value}, {proven}, {told})"]
        lines += [f"  {told_name(each.before)} -> {told_name(each.after)}" for each in self.changes[:_MOST_TOLD]]
        lines += [f"  {told_name(check.code)}" for check in self.checks[:_MOST_TOLD]]
        more = sum(max(0, len(each) - _MOST_TOLD) for each in (self.changes, self.checks))
        return "\n".join([*lines, f"  and {more} more"] if more else lines)

    def __str__(self) -> str:
        show = type(self).text_of
        return repr(self) if show is None else show(self)

    @property
    def programs(self) -> tuple[FixedProgram, ...]:
        """Programs that together take more than the single answer, which is the first; empty where there are none."""
        return () if self.several is None else self.several.programs

    @property
    def proven(self) -> bool:
        """Whether the suggestion is proven: every condition was read and shown to hold.

        Where there is a model, its export with the suggestion has passed, too: another one may leave more conditions.
        """
        return self.proof.proven and not self.unread and self.confirmation.exported is not False

    @property
    def program(self) -> ExportedProgram:
        """The program exported with the suggestion; the export runs when this is first asked for.

        Raises:
            DimsError: There is no model at hand, or no suggestion.
        """
        if self.make_program is None or self.outcome is Outcome.IMPOSSIBLE:
            why = "there is no suggestion to export with" if self.make_program else "a text has no model to export"
            raise DimsError(
                f"{self.label!r} gives no program",
                because=why,
                fix="give (module, args, kwargs, dynamic_shapes), a factory, or a .pt2 file",
                reference="fix-without-program",
            )
        cached = self.__dict__.get("_program")
        if cached is None:
            cached = self.make_program()
            self.__dict__["_program"] = cached  # frozen: remembered beside the fields, never part of them
        return cached
