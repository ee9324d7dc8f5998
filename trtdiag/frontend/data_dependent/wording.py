"""Says a condition of data as the line that a model needs: in whose names, before which statement, at what cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import FrameType
from typing import Any

import sympy

from trtdiag.frontend.data_dependent.assume import Undecided
from trtdiag.frontend.data_dependent.example_values import EXPORT_MODULE, made_at
from trtdiag.frontend.data_dependent.insertion_points import before, naming_line, statement_at
from trtdiag.frontend.data_dependent.local_names import LocalNames, input_sizes
from trtdiag.frontend.data_dependent.replacements import (
    asked_for_number,
    causal_argument,
    in_while,
    left_open,
    open_quotient,
)
from trtdiag.frontend.guard_stacks import running_op, with_code
from trtdiag.frontend.torch_private import backed_hints, range_of
from trtdiag.graph.source import Frame, Stack
from trtdiag.symbolic import Condition, ExpressionError, condition_from_sympy, expr_from_sympy, to_text
from trtdiag.symbolic.conditions import FLIPPED
from trtdiag.symbolic.expr import And, Compare, Num, Or, Relation, Sym
from trtdiag.symbolic.functions import RELATIONS

_IN_PLACE = "  # in place of the assert"
NOT_FLAG = "torch.sym_not(flag)"


@dataclass(frozen=True)
class NeededCheck:
    """One condition that the model has to state.

    Attributes:
        condition: What torch could not decide, as it writes it (``Eq(u0, 1)``), sizes of inputs as users do; for a
            size that Python needs as a number, the size.
        holds: Which way the example goes; true for a number.
        expr: The condition that must be true; ``None`` where it cannot be read (floating-point values).
        code: The line to write (``torch._check(n != 1)``).
        where: The model's frames outside torch at that moment, innermost last: the line that needs the check.  The
            line of ``torch.nn`` where the whole model is torch's.
        before: The line before which ``code`` belongs: the beginning of the statement, in the function whose names
            ``code`` has; ``None`` where the whole model is torch's.
        defined_at: Where the first of its symbols was made (``n = x.item()``).
        note: What it rests on and what it costs.
        pins: Whether it leaves the program right for one value, or one side of a branch on a tensor, only.
        by: The op that asked (``aten.bmm.default``); empty where Python did.
        tried: Whether ``code`` says what the export goes on with, not another way to write the line.
    """

    condition: str
    holds: bool
    expr: Condition | None
    code: str
    where: Stack
    before: Frame | None
    defined_at: Stack | None
    note: str
    pins: bool = False
    by: str = ""
    tried: bool = True

    @property
    def place(self) -> Stack:
        """The stack that ends at the line before which ``code`` belongs."""
        if self.before is None:
            return self.where
        frames = self.where.frames
        ends = [
            index
            for index, frame in enumerate(frames)
            if (frame.file, frame.function) == (self.before.file, self.before.function)
        ]
        return Stack((*frames[: ends[-1] if ends else len(frames)], self.before))


def worded_check(
    undecided: Undecided, answer: Any, fact: Any, known: Mapping[str, int | float]
) -> tuple[NeededCheck, Condition | None]:
    """The check that states ``fact``, for an expression that the example decides as ``answer``.

    Returns:
        The check, and its condition over the names that its line has; ``None`` where it is said in torch's symbols.
    """
    env = undecided.env
    of_data = sorted(
        (s for s in fact.free_symbols if str(s) not in backed_hints(env)), key=lambda s: (len(str(s)), str(s))
    )
    made = made_at(env, of_data[0]) if of_data else None
    truth = bool(of_data) and all(range_of(env, symbol) == (0, 1) for symbol in of_data)
    number = answer is not sympy.true and answer is not sympy.false
    condition = _condition(fact)
    frames = _frames(undecided.frame)
    sizes = input_sizes(env)
    code, place, named, names = _line(frames, fact, condition, made, truth, sizes)
    called = {s: sympy.Symbol(sizes[str(s)]) for s in undecided.expr.free_symbols if str(s) in sizes}
    asserted = code.endswith(_IN_PLACE)
    branches = truth and not asserted
    pins = number or branches or (not truth and _is_one_value(condition))
    op = running_op(undecided.frame) or ""
    where = _where(undecided.frame, frames)
    asked_by = asked_for_number(where.frames[-1].code if where.frames else "", op) if number else ""
    torchs_own = []
    if place is None:
        line = f" ({where.frames[-1]})" if where.frames else ""
        said = f"torch's own code asks{line}, where nothing can be written"
        torchs_own.append(f"{said}: other arguments may keep it from asking")
    told = [*_values_said(of_data, known, names, truth), *_cost(asked_by, branches, pins), *torchs_own]
    argument = causal_argument(_of_model(undecided.frame)) if truth else None
    if argument is not None:
        why = f"torch compares the mask with a causal one where it is not given; {argument}=False takes any mask"
        if place is None:
            told.append(f"{argument}: {why}")
        else:
            code, pins = f"{argument}={_positive(fact)}  # an argument of this call", _positive(fact)
            told[1:] = [why]
    origin = naming_line(made)
    quotient = "" if origin is None else open_quotient(origin, frames)
    asking = where.frames[-1] if where.frames and place is not None else None
    as_open, why = left_open(asking, frames) if asking and number and undecided.expr.is_Symbol else ("", "")
    if quotient and origin is not None:
        code, place, named = quotient, before(origin), None
        told, pins = ["torch.div makes a tensor of the size: torch.export takes that for data"], False
    elif as_open:
        told = [*_values_said(of_data, known, names, truth), why]
        told.append(f"where Python needs a number all the same, {code.partition('  #')[0]} pins it to the example's")
        if asking is not None and asking.package is not None:
            told.append(f"or call {asking.package} with the number, where it takes one (as dim_size)")
        code = as_open
    elif asking is not None and branches and argument is None and in_while(asking):
        code = "torch.while_loop(condition, body, inputs)  # in place of the while loop"
        told = ["data decide how often the loop runs: an export has as many turns as the example needs"]
    check = NeededCheck(
        condition=str(undecided.expr.xreplace(called)),
        holds=answer is not sympy.false,
        expr=condition,
        code=code,
        where=where,
        before=place,
        defined_at=made,
        note="; ".join(told),
        pins=pins,
        by=op,
        tried=not (quotient or as_open or code.startswith("torch.while_loop")),
    )
    return check, named


def _condition(fact: Any) -> Condition | None:
    if not all(symbol.is_integer for symbol in fact.free_symbols):  # our conditions are over whole numbers
        return None
    try:
        return condition_from_sympy(fact)
    except ExpressionError:
        return None


def _as_written(fact: Any) -> Condition:
    """``fact`` with torch's own comparisons: from others that say the same torch may not conclude it."""
    kind = type(fact).__name__
    if kind in RELATIONS:
        relation = RELATIONS[kind]
        left, right = (expr_from_sympy(side) for side in fact.args)
        return Compare(FLIPPED[relation], right, left) if isinstance(left, Num) else Compare(relation, left, right)
    if kind in ("And", "Or"):
        parts = tuple(_as_written(part) for part in fact.args)
        return And(parts) if kind == "And" else Or(parts)
    return condition_from_sympy(fact)


def _is_one_value(condition: Condition | None) -> bool:
    return (
        isinstance(condition, Compare)
        and condition.relation is Relation.EQ
        and isinstance(condition.left, Sym)
        and isinstance(condition.right, Num)
    )


def _frames(frame: FrameType | None) -> list[FrameType]:
    """The functions of the model outside torch and Python that are running, innermost first."""
    return [f for f in _of_model(frame) if _package(f) != "torch" and _as_frame(f).package not in ("torch", "python")]


def _of_model(frame: FrameType | None) -> Iterator[FrameType]:
    """The running functions from ``frame`` outwards to the one in which torch calls the model."""
    while frame is not None and frame.f_globals.get("__name__") != EXPORT_MODULE:
        yield frame
        frame = frame.f_back


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).split(".")[0]


def _where(frame: FrameType, frames: Sequence[FrameType]) -> Stack:
    """The model's frames outside torch; where there is none, the one of ``torch.nn`` that asked."""
    if frames:
        return Stack(tuple(with_code(_as_frame(f)) for f in reversed(frames)))
    modules = (f for f in _of_model(frame) if str(f.f_globals.get("__name__", "")).startswith("torch.nn."))
    return Stack(tuple(with_code(_as_frame(f)) for f in modules if f.f_code.co_name != "_call_impl")[:1])


def _as_frame(frame: FrameType) -> Frame:
    return Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _line(
    frames: Sequence[FrameType],
    fact: Any,
    condition: Condition | None,
    made: Stack | None,
    truth: bool,
    sizes: Mapping[str, str],
) -> tuple[str, Frame | None, Condition | None, LocalNames | None]:
    """The line, where it belongs, its condition over names, and the names; ``sizes``: of inputs, by torch's symbols."""
    for frame in frames:
        if frame.f_code.co_name.startswith("<") and frame.f_code.co_name != "<module>":
            continue  # a lambda or comprehension: nothing can be put before a line of it
        names = LocalNames(frame)
        if condition is None:
            text = _float_text(fact, names)
            if text is not None:
                return f"torch._check({text})", before(_as_frame(frame)), None, names
            continue
        named = names.named(_as_written(fact))
        if named is not None:
            return f"torch._check({to_text(named)})", before(_as_frame(frame)), named, names
    innermost = _as_frame(frames[0]) if frames else None
    place = None if innermost is None else before(innermost)
    origin = naming_line(made)
    unnamed = sorted({str(symbol) for symbol in fact.free_symbols} - set(sizes))
    if truth and innermost is not None and origin is not None:
        same_line = (origin.file, origin.line) == (innermost.file, innermost.line)
        statement = statement_at(innermost.file, innermost.line) if same_line else None
        if statement is not None and statement.test:
            positive = _positive(fact)
            if statement.asserted and positive:
                return f"torch._check({statement.test}){_IN_PLACE}", place, None, None
            flag = "flag" if positive else NOT_FLAG
            return f"flag = {statement.test}; torch._check({flag})  # then branch on flag", place, None, None
    text = str(fact.xreplace({s: sympy.Symbol(sizes[str(s)]) for s in fact.free_symbols if str(s) in sizes}))
    if condition is not None:
        written = _as_written(fact)
        partly = LocalNames(frames[0]).named(written, {**sizes, **{u: u for u in unnamed}}) if frames else None
        text = to_text(partly or written)
    where = "inside torch" if origin is None else f"at {PurePath(origin.file).name}:{origin.line}; give it a name there"
    return f"torch._check({text})  # {', '.join(unnamed)}: made {where}", place, None, None


def _positive(fact: Any) -> bool:
    """Whether the fact says that the one truth value in it is true."""
    (symbol,) = fact.free_symbols
    return bool(fact.xreplace({symbol: sympy.Integer(1)}) == sympy.true)


def _float_text(fact: Any, names: LocalNames) -> str | None:
    """A comparison of floating-point values in the user's names; ``None`` where it is more than that."""
    if not isinstance(fact, sympy.core.relational.Relational):
        return None
    called = {symbol: names.name_of(str(symbol)) for symbol in fact.free_symbols}
    if any(name is None for name in called.values()):
        return None
    sides = [
        repr(float(side)) if side.is_Float else str(side.xreplace({s: sympy.Symbol(str(n)) for s, n in called.items()}))
        for side in fact.args
    ]
    return f"{sides[0]} {fact.rel_op} {sides[1]}"


def _values_said(
    of_data: Sequence[Any], known: Mapping[str, int | float], names: LocalNames | None, truth: bool
) -> Iterator[str]:
    said = []
    for symbol in map(str, of_data):
        if symbol in known:
            name = (names.name_of(symbol) if names else None) or symbol
            said.append(f"{name} is {bool(known[symbol]) if truth else known[symbol]}")
    if said:
        yield f"true of the example: {' and '.join(said)}"
    if len(said) < len(of_data):
        yield "the example's value is not known: taken for a size that is neither 0 nor 1"


def _cost(number: str, truth: bool, pins: bool) -> Iterator[str]:
    if number:
        yield f"{number}; a check can only say the example's own value, so the program is right for that value only"
    elif truth:
        yield (
            "a value inside a tensor decides the branch: the program is right only for data that goes the same way; "
            "torch.cond or torch.where keep both ways"
        )
    elif pins:
        yield "the program is right for that value only"
