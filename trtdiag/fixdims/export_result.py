"""One export with a plan: what it leaves behind as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from trtdiag.dims.collect_conditions import gather
from trtdiag.dims.facts import GuardOrigin, UnparsedGuard
from trtdiag.dims.solver_input import ONLY_SIZES, on_integers
from trtdiag.frontend.program import InputTensor, Join, Pin, Program, SizeEscape
from trtdiag.frontend.real_run import RunOutcome
from trtdiag.graph.source import NO_STACK, Stack
from trtdiag.symbolic import free_symbols, normalise, substitute, to_text
from trtdiag.symbolic.conditions import TRUE
from trtdiag.symbolic.expr import Condition, Expr, Sym


@dataclass(frozen=True)
class Corner:
    """A run on shapes: the symbols' values, the sizes by site, and the refusal's text, empty where it passed."""

    point: Mapping[str, int]
    sizes: tuple[tuple[str, int], ...]
    refusal: str


@dataclass(frozen=True)
class Run:
    """A run on tensors: how it ended, the sizes by site, and torch's words or why it was not run."""

    outcome: RunOutcome
    sizes: tuple[tuple[str, int], ...]
    words: str = ""


@dataclass(frozen=True)
class OnData:
    """What the program said to tensors: its runs, or why there are none; ``failed`` where it fails at its example.

    ``unlike`` says what it gives in the place of what its model does, at the example already; ``unseen``, at how many
    sizes the two were not compared, where the model asks of sizes what torch guards nowhere; ``at_zero``, what it gives
    of a size of 0 that its model does not.
    """

    runs: tuple[Run, ...] = ()
    unrun: str = ""
    failed: bool = False
    unlike: str = ""
    unseen: str = ""
    at_zero: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tried:
    """How an export with a plan went.

    Attributes:
        passed: Whether torch gave a program.
        finished: Whether the whole model was traced, so that the conditions are complete.
        error_type: The class of torch's exception, empty where it passed.
        message: torch's words.
        stack: The user's frames at the failure.
        inputs: The inputs, sizes over the symbols that were left.
        hints: Symbol -> example size.
        names: Symbol -> the user's name.
        conditions: Every condition with its origin.
        unread: Conditions that could not be read.
        pins: Dims that took one value, and why.
        joins: Dims that became one, and why.
        escapes: Lines that asked of sizes what torch guards nowhere.
        corners: Runs at the smallest and largest sizes, where it passed.
        unrun: Why it was not run, empty where it was.
        on_data: Runs on tensors, where it passed; what they ask of the sizes is among the conditions.
        seconds: What the export took.
        own_seconds: What reading and running what came out computed beside it.
        without_export: Python's words where the model itself fails at its example, empty where it runs; ``None`` where
            that was not tried: it is where an export stops with every dim static.
    """

    passed: bool
    finished: bool
    error_type: str
    message: str
    stack: Stack
    inputs: tuple[InputTensor, ...]
    hints: Mapping[str, int]
    names: Mapping[str, str]
    conditions: Mapping[Condition, GuardOrigin]
    unread: tuple[UnparsedGuard, ...]
    pins: tuple[Pin, ...]
    joins: tuple[Join, ...]
    escapes: tuple[SizeEscape, ...] = ()
    corners: tuple[Corner, ...] = ()
    unrun: str = ""
    on_data: OnData = OnData()
    seconds: float = 0.0
    own_seconds: float = 0.0
    without_export: str | None = None

    @property
    def refused(self) -> tuple[tuple[tuple[tuple[str, int], ...], str], ...]:
        """The sizes at which its program failed, by site, with torch's words."""
        corners = [(corner.sizes, corner.refusal) for corner in self.corners if corner.refusal]
        runs = [(run.sizes, run.words) for run in self.on_data.runs if run.outcome is RunOutcome.REFUSED]
        return (*corners, *runs)


def read_program(program: Program, *, finished: bool = True) -> Tried:
    """What a captured program says about its dims."""
    gathered = gather(program)
    failure = program.failure
    return Tried(
        passed=program.exported is not None and failure is None,
        finished=finished,
        error_type="" if failure is None else failure.error_type,
        message="" if failure is None else failure.message,
        stack=NO_STACK if failure is None else failure.stack,
        inputs=program.inputs,
        hints=dict(program.hints),
        names=dict(program.names),
        conditions=gathered.conditions,
        unread=(*gathered.unparsed, *_of_integers(program, gathered.conditions)),
        pins=program.pins,
        joins=program.joins,
        escapes=program.escapes,
        seconds=program.export_s or 0.0,
    )


def _of_integers(program: Program, conditions: Mapping[Condition, GuardOrigin]) -> Iterator[UnparsedGuard]:
    """What is read and not solved for stands with what was not read: nothing is proven then."""
    for condition, name in on_integers(conditions, program.inputs).items():
        why = f"it speaks of {name}, an integer, and {ONLY_SIZES}"
        yield UnparsedGuard(
            to_text(condition, program.names), why, ", ".join(conditions[condition].found_in), read=True
        )


def with_asked(tried: Tried, later: Tried) -> Tried:
    """``tried`` with what ops ask in ``later``, another export, where each size there is an input's size here.

    An export that torch refuses has conditions and no graph: what its ops ask is known once a later one has passed.
    """
    here = {dim.site: dim.expr for tensor in tried.inputs for dim in tensor.dims}
    values: dict[str, Expr] = {}
    for tensor in later.inputs:
        for dim in tensor.dims:
            if isinstance(dim.expr, Sym) and dim.site in here:
                values.setdefault(dim.expr.name, here[dim.site])
    conditions = dict(tried.conditions)
    for condition, origin in later.conditions.items():
        if origin.asked is not None and free_symbols(condition) <= values.keys():
            carried = normalise(substitute(condition, values))
            if carried != TRUE:
                conditions.setdefault(carried, origin)
    return replace(tried, conditions=conditions)
