"""The one file that reads torch's own text: export errors and logs, of every version since 2.1.

Nothing is dropped in silence: a sentence that states a condition is either a ``TextGuard`` with its condition, or a
``TextGuard`` without one that says why, or a line of ``unread``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trtdiag.symbolic import ExpressionError, compare, parse_condition
from trtdiag.symbolic.expr import Condition, Num, Relation, Sym

MAX_GUARD_CHARACTERS = 20_000
"""A longer guard is named as unread; the longest in the wild had 3,900 characters (own count over 137 texts)."""


@dataclass(frozen=True)
class TextGuard:
    """One condition that an error text states.

    Attributes:
        text: The condition as written.
        condition: Over the sources in the text (``Sym("L['x'].size()[2]")``); ``None`` where it could not be read.
        why: Why it could not be read.
        names: Source -> the user's Dim name, as far as the text says it.
        declared: The declared range as written, empty where the text gives none.
        kind: ``guard``, ``constant``, ``equal``, ``related``, ``data-dependent``.
    """

    text: str
    condition: Condition | None
    why: str
    names: tuple[tuple[str, str], ...] = ()
    declared: str = ""
    kind: str = "guard"


@dataclass(frozen=True)
class ExportErrorText:
    """What an error text says: its conditions, the lines about conditions that were not understood, suggestions."""

    guards: tuple[TextGuard, ...]
    unread: tuple[str, ...]
    suggestions: tuple[str, ...]


_SOURCE = r"L\[[^\n]*?\](?:\.size\(\)\[\d+\]|\.stride\(\)\[\d+\]|\.storage_offset\(\))?"
_NAMED = re.compile(rf"(?P<name>[A-Za-z_]\w*) = (?P<source>{_SOURCE})(?=[ ,.\n]|$)")
_GUARD = re.compile(r"Not all values of (?P<subject>.+?) satisfy the generated guard (?P<guard>.+)", re.DOTALL)
_CONSTANT = re.compile(
    r"(?:Not all values of (?P<subject>.+?) are valid because|You marked (?P<marked>\S+) as dynamic but your code"
    r"|inferred a static shape of (?P<static>\d+) for dimension (?P<dimension>\S+?)\.?(?:\s|$))"
    r"(?:.*?(?:inferred|specialized)[^(]*?(?:to be )?a constant \((?P<value>-?\d+)\))?",
    re.DOTALL,
)
_EQUAL = re.compile(r"The values of (?P<left>.+?) and (?P<right>.+?) must always be equal", re.DOTALL)
_RELATED = re.compile(
    r"The values of (?P<left>.+?) must always be related to the values of (?P<right>.+?) by (?P<relation>.+)", re.DOTALL
)
_DATA = re.compile(
    r"Could not (?:guard on|extract specialized integer from) data-dependent expression (?P<guard>.+?)(?: \(|$)"
)
_ADDED = re.compile(r"(?:eval|runtime_assert) (?P<guard>.+?) \[guard added\]")
_SPECIFIC = re.compile(r"this guard was added: (?P<guard>.+?)(?:, where (?P<where>\{.*?\})|$)", re.DOTALL)
_FAILED = re.compile(r"Guard failed: (?P<guard>.+)")
_ASSERTED = re.compile(r"Runtime assertion failed for expression (?P<guard>.+?)(?: on node|$)", re.DOTALL)
_EVALUATED = re.compile(r"evaluate_expr\((?P<guard>.+?), hint=")
_REPRODUCE = re.compile(r"TORCHDYNAMO_EXTENDED_DEBUG_GUARD_ADDED=\"(?P<guard>[^\"]+)\"")
_SPECIALISED = re.compile(r"^\s*(?:return \()?(?P<guard>\w+\.size\(\)\[\d+\] [=!<>]=? -?\d+)(?: and|\)|$)")
_NOTED = re.compile(r"(?:\[INFO\]\s+|^\s*)assert (?P<guard>[^\n]*\.size\(\)[^\n]*)$")
_WHERE = re.compile(r"'(?P<symbol>[su]\d+)': \"?(?P<source>L\[[^\"]+?\](?:\.size\(\)\[\d+\])?)\"?")
_BEGINS = re.compile(
    r"^\s*(?:- |The values of |Not all values of |You marked |\S*Constraint\w*Error: |Suggested fixes:"
    r"|Specializations unexpectedly )"
)
# torch joins this header to the condition before it without a line break (seen on 2.13).
_RUN_ON = re.compile(r"(?<=[^\n])(?=Specializations unexpectedly required \()")
_RANGE = re.compile(r"\s*in the specified range(?P<range>.*)$", re.DOTALL)
_SUGGESTION = re.compile(r"^\s*[A-Za-z_]\w* = (?:Dim\(|None|-?\d|[-+*/ \w]*\b[A-Za-z_]\w*\b)[^:]*$")
_TELLING = re.compile(
    r"generated guard|data-dependent expression|\[guard added\]|guard was added|Guard failed:|evaluate_expr\("
    r"|inferred to be a constant|specialized it to be|not in range \[|must always be|Expected input\.size"
)


def read_export_error(text: str) -> ExportErrorText:
    """Read every condition out of an error text or log, with whatever noise stands around it."""
    body, _, tail = _RUN_ON.sub("\n", text).partition("Suggested fixes:")
    suggestions = tuple(line.strip() for line in _until_blank(tail) if "=" in line)
    guards: list[TextGuard] = []
    unread: list[str] = []
    for statement in _statements(body + ("\n" + "\n".join(tail.splitlines()[len(suggestions) + 1 :]) if tail else "")):
        found = _read(statement)
        if found is not None:
            guards.append(found)
        elif _TELLING.search(statement):
            unread.append(statement.strip()[:400])
    if not guards and not suggestions:  # a pasted suggestion without its heading
        suggestions = tuple(line.strip() for line in body.splitlines() if _SUGGESTION.match(line))
    return ExportErrorText(tuple(dict.fromkeys(guards)), tuple(dict.fromkeys(unread)), suggestions)


def _until_blank(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines()[1:] if text.startswith("\n") else text.splitlines():
        if not line.strip():
            break
        lines.append(line)
    return lines


def _statements(text: str) -> list[str]:
    """Lines joined into statements: one that begins a sentence of torch's collects its continuation lines."""
    statements: list[str] = []
    open_ = False
    for line in text.splitlines():
        begins = _BEGINS.match(line) is not None
        if begins or not open_ or not line.strip():
            statements.append(line)
            open_ = begins
        elif sum(map(len, (statements[-1], line))) < MAX_GUARD_CHARACTERS:
            statements[-1] += " " + line.strip()
        else:
            statements.append(line)
            open_ = False
    return statements


def _read(statement: str) -> TextGuard | None:
    guard = _GUARD.search(statement)
    if guard:
        return _guard(guard["guard"], guard["subject"])
    related = _RELATED.search(statement)
    if related:
        sides = (*_names(related["left"]), *_names(related["right"]))
        return _condition(_trimmed(related["relation"]).replace(" = ", " == ", 1), sides, "", "related")
    equal = _EQUAL.search(statement)
    if equal:
        return _equal(_names(equal["left"] + " ,"), _names(equal["right"] + " ,"), statement)
    constant = _CONSTANT.search(statement)
    if constant and (constant["value"] or constant["static"]):
        return _constant(constant)
    for pattern, kind in (
        (_DATA, "data-dependent"),
        (_ADDED, "guard"),
        (_SPECIFIC, "guard"),
        (_FAILED, "guard"),
        (_EVALUATED, "guard"),
        (_REPRODUCE, "guard"),
        (_SPECIALISED, "guard"),
        (_ASSERTED, "guard"),
        (_NOTED, "guard"),
        (_EVALUATED, "guard"),
        (_REPRODUCE, "guard"),
        (_SPECIALISED, "guard"),
    ):
        match = pattern.search(statement)
        if match:
            where = tuple((m["symbol"], m["source"]) for m in _WHERE.finditer(statement))
            return _condition(_trimmed(match["guard"]), where, "", kind)
    return None


def _guard(text: str, subject: str) -> TextGuard:
    range_ = _RANGE.search(subject)
    return _condition(_trimmed(text), _names(subject), "" if range_ is None else range_["range"].strip(), "guard")


def _constant(match: re.Match[str]) -> TextGuard:
    subject = match["subject"] or match["marked"] or match["dimension"]
    value = int(match["value"] or match["static"])
    range_ = _RANGE.search(subject)
    named = _names(subject)
    bare = re.sub(r"^RelaxedUnspecConstraint\((.*)\)$", r"\1", subject.strip())
    source = named[0][0] if named else bare
    declared = "" if range_ is None else range_["range"].strip()
    condition = compare(Relation.EQ, Sym(source), Num(value))
    return TextGuard(f"{named[0][1] if named else source} == {value}", condition, "", named, declared, "constant")


def _equal(left: tuple[tuple[str, str], ...], right: tuple[tuple[str, str], ...], statement: str) -> TextGuard | None:
    if not left or not right:
        return TextGuard(statement.strip(), None, "its two dims could not be told apart", (), "", "equal")
    (source, name), (other, other_name) = left[-1], right[0]
    condition = compare(Relation.EQ, Sym(source), Sym(other))
    return TextGuard(f"{name} == {other_name}", condition, "", (*left, *right), "", "equal")


def _names(subject: str) -> tuple[tuple[str, str], ...]:
    return tuple((m["source"], m["name"]) for m in _NAMED.finditer(subject))


def _trimmed(text: str) -> str:
    text = " ".join(text.split())
    text = text.removesuffix(".") if not text.endswith("...") else text
    return text.rstrip("'").strip().strip("`")


def _condition(text: str, names: tuple[tuple[str, str], ...], declared: str, kind: str) -> TextGuard:
    if len(text) > MAX_GUARD_CHARACTERS:
        return TextGuard(text[:200] + " ...", None, f"it has {len(text)} characters", names, declared, kind)
    try:
        condition = parse_condition(text)
    except ExpressionError as error:
        return TextGuard(text, None, str(error), names, declared, kind)
    return TextGuard(text, condition, "", names, declared, kind)
