"""The facts of the dims stage: guards as constraints, their verdicts, and what to declare instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from trtdiag.dims.plan import Plan
from trtdiag.graph.source import NO_STACK, Stack
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.proof import Proof
from trtdiag.symbolic.ranges import Range
from trtdiag.symbolic.tree import free_symbols
from trtdiag.symbolic.valueset import ValueSet


class Verdict(Enum):
    """Whether a constraint holds for every value of the declared ranges."""

    HOLDS = "holds"
    BREAKS = "breaks"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class AskedByOp:
    """What an op asks of its sizes and the program does not ensure.

    Attributes:
        what: Which sizes (``dim -2 of key and value``).
        how: How they have to stand to each other (``equal``).
        sizes: Symbol -> value, at which the program's guards hold and the op refuses.
        refusal: What the op said there, run alone on real tensors; empty where it was not run.
        untried: Why it was not run; empty where it was.
    """

    what: str
    how: str
    sizes: Mapping[str, int]
    refusal: str
    untried: str = ""


@dataclass(frozen=True)
class GuardOrigin:
    """Where a constraint was found (``_guards_code``, ``ShapeEnv``, ...), and what caused it.

    ``branch`` is True when a Python condition in the user's code caused it, False when an op did, None if unknown.
    ``op`` is the op (``aten.view.default``) and ``node`` its graph node, where an op caused it.  ``asked`` is set where
    no guard says it and an op asks for it.
    """

    found_in: tuple[str, ...]
    stack: Stack = NO_STACK
    branch: bool | None = None
    op: str | None = None
    node: str | None = None
    asked: AskedByOp | None = None

    @classmethod
    def traced(cls, found_in: str, stack: Stack, op: str | None = None, node: str | None = None) -> GuardOrigin:
        """The origin of what tracing found; whether from a Python branch shows in the innermost frame."""
        branch = stack.frames[-1].package not in ("torch", "python") if stack.frames else None
        return cls((found_in,), stack, branch, op, node)


@dataclass(frozen=True)
class Constraint:
    """A condition over the graph's symbols that the program relies on, and whether it holds.

    Attributes:
        condition: Over graph symbols.
        text: The same in the user's names, Python syntax.
        symbols: The symbols in it, sorted.
        origin: Where from.
        verdict: Over the declared box.
        proof: Of the verdict.
        counterexample: Smallest breaking values, user's names -> value; empty unless it breaks.
        refused: The same by graph symbol.
        witness: Values next to the counterexample (else the example) that satisfy it, same keys.
        allowed: The exact set for a single symbol in words (``h % 8 == 0, 136..2160: 254 of 2026 values``).
        kept: How many of the declared values satisfy it, and of how many, for a bounded single symbol.
        follows: It breaks, but only where another broken constraint of the same symbols breaks too: not a cause.
        only_at_zero: It breaks only where a size is 0, in a range whose start nobody may have asked for.
        share: Of the declared sizes those that satisfy it, where it breaks; of a sample where they are many.
    """

    condition: Condition
    text: str
    symbols: tuple[str, ...]
    origin: GuardOrigin
    verdict: Verdict
    proof: Proof
    counterexample: Mapping[str, int]
    witness: Mapping[str, int]
    allowed: str = ""
    kept: tuple[int, int] | None = None
    follows: bool = False
    only_at_zero: bool = False
    refused: Mapping[str, int] = field(default_factory=dict)
    share: float = 1.0


@dataclass(frozen=True)
class UnparsedGuard:
    """A guard that could not be read: its text, the reason, where it was found, and the lines that caused it.

    ``about`` has the symbols that it speaks of; ``None`` where that is not known: it may be any.  ``read`` is true of
    one that was read and is not solved for.
    """

    text: str
    why: str
    found_in: str
    stack: Stack = field(default=NO_STACK, compare=False)
    about: frozenset[str] | None = field(default=None, compare=False)
    read: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class DimSuggestion:
    """What to declare for dims that change together; a part of one plan for the whole program.

    Attributes:
        symbols: The graph symbols of these dims.
        code: Lines of Python that define the Dims (``_h = Dim("_h", min=17, max=270)``, ``h = 8 * _h``).
        spelled: The declaration at the site in words of torch.export (``8*_h``, ``h``, ``4``).
        summary: ``h % 8 == 0: keeps 254 of 2026 values``.
        kept: Admitted and requested values; ``None`` where unbounded.
        proof: That every value which the plan admits satisfies all constraints.
        alternatives: Other sayable sets, same form of text as ``summary``; last the exact set that the guards allow.
        sites: The dims.
    """

    symbols: tuple[str, ...]
    code: tuple[str, ...]
    spelled: str
    summary: str
    kept: tuple[int, int] | None
    proof: Proof
    alternatives: tuple[str, ...]
    sites: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declaration:
    """What to declare for the whole program, where that is other than what was asked.

    Attributes:
        plan: For every dim.
        code: Python that defines ``dynamic_shapes``.
        proof: That every size which it admits satisfies all constraints; its kind is NONE where one was not read or
            not decided, or where the program was seen to refuse some of the sizes.
        points: At how many of its sizes the program was run on shapes.
        refused: Sizes among them that it refuses, with its words; empty where it takes all.
        unrun: Why it was not run; empty where it was.
    """

    plan: Plan
    code: str
    proof: Proof
    points: int = 0
    refused: str = ""
    unrun: str = ""


@dataclass(frozen=True)
class DimRow:
    """One line of the dims table: an input dim, what was declared, what is allowed, what to declare.

    ``state``: ``ok``, ``breaks`` (values of the declared range are refused), ``pinned`` (one value only),
    ``unbounded``, ``unread`` (a guard on it was not read), ``undecided`` (it is not known whether one holds),
    ``static`` (never dynamic).  ``admits`` is the exact set behind ``allowed``, where conditions on this
    size alone refuse some of its range.
    """

    site: str
    symbol: str | None
    declared: str
    range: Range
    allowed: str
    suggested: str
    state: str
    admits: ValueSet | None = None


@dataclass(frozen=True)
class Pinned:
    """A dim that was declared dynamic but took one value in the program, and why, as far as known."""

    site: str
    declared: str
    value: int
    why: str
    origin: GuardOrigin


@dataclass(frozen=True)
class Narrowed:
    """A condition that brings an end of a range nearer that was left to torch.

    Attributes:
        site: The dim.
        declared: What ``dynamic_shapes`` said (``Dim.AUTO``); empty where it is not known.
        end: ``max`` or ``min``.
        bound: The last size on this end that the condition admits.
        binding: Whether it is the end of the range; else another condition brings it nearer still.
        asked: The sizes that it could have been.
        now: Those that it is in the program.
        hint: The example's size, where known.
        cause: The condition.
    """

    site: str
    declared: str
    end: str
    bound: int
    binding: bool
    asked: Range
    now: Range
    hint: int | None
    cause: Constraint


@dataclass(frozen=True)
class Tied:
    """Dims declared apart that the program forces to be equal; ``origin`` is the guard's that made them one symbol."""

    sites: tuple[str, ...]
    declared: tuple[str, ...]
    constraint: Constraint | None
    smallest: int
    origin: GuardOrigin | None = None


@dataclass(frozen=True)
class Conflict:
    """A smallest set of constraints that no values satisfy together (each alone is needed for the conflict)."""

    constraints: tuple[Constraint, ...]
    box: tuple[str, ...]
    proof: Proof


@dataclass(frozen=True)
class DimSystem:
    """Everything known about the dims of a program; ``declaration`` is ``None`` where nothing has to change."""

    rows: tuple[DimRow, ...]
    constraints: tuple[Constraint, ...]
    unparsed: tuple[UnparsedGuard, ...]
    suggestions: tuple[DimSuggestion, ...]
    pinned: tuple[Pinned, ...]
    tied: tuple[Tied, ...]
    conflicts: tuple[Conflict, ...]
    narrowed: tuple[Narrowed, ...] = ()
    declaration: Declaration | None = None

    def given(self) -> tuple[Condition, ...]:
        """The conditions that every input satisfies: the program itself refuses what breaks one of its guards.

        What an op asks for and no guard ensures is not among them: the program lets such inputs in.
        """
        guards = (c.condition for c in self.constraints if c.origin.asked is None)
        return tuple(dict.fromkeys(condition for condition in guards if free_symbols(condition)))
